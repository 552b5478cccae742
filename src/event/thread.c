/* Threads: named, with all signals blocked, so that signals go to the main thread alone. */
#include "wakegate/event.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct wg_thread {
    pthread_t id;
    void (*run)(void *arg);
    void *arg;
    char name[16];
};

static void *run_thread(void *arg)
{
    struct wg_thread *thread = arg;
    pthread_setname_np(pthread_self(), thread->name);
    thread->run(thread->arg);
    return NULL;
}

int wg_thread_start(const char *name, void (*run)(void *arg), void *arg, struct wg_thread **ret_thread)
{
    struct wg_thread *thread = WG_NEW(struct wg_thread);
    thread->run = run;
    thread->arg = arg;
    for (size_t i = 0; i + 1 < sizeof(thread->name) && name[i]; i++)
        thread->name[i] = name[i];

    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&thread->id, NULL, run_thread, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        free(thread);
        return -error;
    }
    *ret_thread = thread;
    return 0;
}

struct wg_thread *wg_thread_join(struct wg_thread *thread)
{
    if (thread)
        pthread_join(thread->id, NULL);
    free(thread);
    return NULL;
}
