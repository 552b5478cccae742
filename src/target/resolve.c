/* One getaddrinfo on one detached thread. Who asks may leave at any time: then the thread ends for itself. */
#include "resolve.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "address.h"

#define RESOLVE_MAGIC 0x4e501e01

struct resolve {
    uint32_t magic;
    struct wg_mail mail;  /* on the way to the loop once posted */
    pthread_mutex_t lock; /* guards cancelled */
    bool cancelled;
    struct wg_mailbox *mailbox; /* stays as long as not cancelled */
    char *host;
    uint16_t port;
    struct wg_address addresses[RESOLVE_MAX]; /* the thread's until posted, then the loop's */
    size_t n;
    int error; /* EAI_… */
    void (*done)(void *arg, const struct resolve_answer *answer);
    void *arg;
};

static void free_resolve(struct resolve *resolve)
{
    for (size_t i = 0; i < resolve->n; i++)
        wg_address_clear(&resolve->addresses[i]);
    pthread_mutex_destroy(&resolve->lock);
    resolve->magic = 0;
    free(resolve->host);
    free(resolve);
}

static void add_all(struct resolve *resolve, const struct addrinfo *list, int family)
{
    for (const struct addrinfo *info = list; info && resolve->n < RESOLVE_MAX; info = info->ai_next)
        if (info->ai_family == family)
            address_make(info->ai_addr, info->ai_addrlen, resolve->port, &resolve->addresses[resolve->n++]);
}

static void look_up(struct resolve *resolve)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    resolve->error = getaddrinfo(resolve->host, NULL, &hints, &list);
    if (resolve->error != 0)
        return;
    add_all(resolve, list, AF_INET);
    if (resolve->n == 0)
        add_all(resolve, list, AF_INET6);
    freeaddrinfo(list);
    if (resolve->n == 0)
        resolve->error = EAI_NONAME;
}

static void *run(void *arg)
{
    struct resolve *resolve = WG_CAST(resolve, arg, RESOLVE_MAGIC);
    look_up(resolve);
    pthread_mutex_lock(&resolve->lock);
    const bool cancelled = resolve->cancelled;
    if (!cancelled)
        wg_mailbox_post(resolve->mailbox, &resolve->mail);
    pthread_mutex_unlock(&resolve->lock);
    if (cancelled)
        free_resolve(resolve);
    return NULL;
}

static void on_delivered(struct wg_mail *mail, void *receiver WG_UNUSED)
{
    struct resolve *resolve = WG_CONTAINER_OF(mail, struct resolve, mail);
    WG_CHECK_OBJ(resolve, RESOLVE_MAGIC);
    /* The thread may still be about to leave the lock in which it has posted. */
    pthread_mutex_lock(&resolve->lock);
    const bool cancelled = resolve->cancelled;
    pthread_mutex_unlock(&resolve->lock);
    const struct resolve_answer answer = {.addresses = resolve->addresses,
                                          .n = resolve->n,
                                          .error = resolve->error != 0 ? gai_strerror(resolve->error) : ""};
    if (!cancelled)
        resolve->done(resolve->arg, &answer);
    free_resolve(resolve);
}

static int start_thread(struct resolve *resolve)
{
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&thread, &attributes, run, resolve);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return -error;
}

int resolve_start(struct wg_mailbox *mailbox, const char *host, uint16_t port,
                  void (*done)(void *arg, const struct resolve_answer *answer), void *arg,
                  struct resolve **ret_resolve)
{
    struct resolve *resolve = WG_NEW(struct resolve);
    resolve->magic = RESOLVE_MAGIC;
    wg_mail_init(&resolve->mail, on_delivered);
    pthread_mutex_init(&resolve->lock, NULL);
    resolve->mailbox = mailbox;
    resolve->host = wg_xstrdup(host);
    resolve->port = port;
    resolve->done = done;
    resolve->arg = arg;
    const int error = start_thread(resolve);
    if (error < 0) {
        free_resolve(resolve);
        return error;
    }
    *ret_resolve = resolve;
    return 0;
}

struct resolve *resolve_cancel(struct resolve *resolve)
{
    if (!resolve)
        return NULL;
    WG_CHECK_OBJ(resolve, RESOLVE_MAGIC);
    pthread_mutex_lock(&resolve->lock);
    resolve->cancelled = true; /* the thread frees it, or its delivery does if it is on the way */
    pthread_mutex_unlock(&resolve->lock);
    return NULL;
}

bool resolve_is_address(const char *host, uint16_t port, struct wg_address *ret_address)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *list = NULL;
    if (getaddrinfo(host, NULL, &hints, &list) != 0)
        return false;
    address_make(list->ai_addr, list->ai_addrlen, port, ret_address);
    freeaddrinfo(list);
    return true;
}
