/* The turn of a loop: the kernel's events, then what was deferred, then the reaping of what died. */
#include "loop_internal.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void on_wake(evutil_socket_t fd, short what WG_UNUSED, void *arg WG_UNUSED)
{
    uint64_t count;
    if (read(fd, &count, sizeof(count)) < 0)
        WG_ASSERT(errno == EAGAIN || errno == EINTR);
}

static struct event_base *new_base(void)
{
    struct event_config *config = event_config_new();
    if (!config)
        return NULL;
    /* Only the loop's own thread touches the base: other threads reach it through an eventfd. */
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    event_config_require_features(config, EV_FEATURE_O1);
    struct event_base *base = event_base_new_with_config(config);
    event_config_free(config);
    return base;
}

struct wg_loop *wg_loop_new(void)
{
    struct wg_loop *loop = WG_NEW(struct wg_loop);
    wg_list_init(&loop->deferred);
    wg_list_init(&loop->dead);
    loop->wake_fd = loop->hangup_fd = -1;
    loop->base = new_base();
    if (!loop->base)
        goto fail;
    loop->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (loop->wake_fd < 0)
        goto fail;
    loop->wake_event = event_new(loop->base, loop->wake_fd, EV_READ | EV_PERSIST, on_wake, loop);
    if (!loop->wake_event || event_add(loop->wake_event, NULL) < 0 || wheel_init(loop) < 0 ||
        hangups_init(loop) < 0)
        goto fail;
    return loop;
fail:
    return wg_loop_free(loop);
}

/* Runs the list until it is empty: what runs may defer more. */
static void run_all(struct wg_list *list)
{
    struct wg_list *node;
    while ((node = wg_list_first(list))) {
        struct wg_deferred *deferred = WG_LIST_ENTRY(node, struct wg_deferred, link);
        wg_list_remove(node);
        deferred->run(deferred);
    }
}

static void end_turn(struct wg_loop *loop)
{
    do {
        run_all(&loop->deferred);
        run_all(&loop->dead);
    } while (!wg_list_empty(&loop->deferred));
    loop->now = 0;
}

struct wg_loop *wg_loop_free(struct wg_loop *loop)
{
    if (!loop)
        return NULL;
    end_turn(loop); /* what closed since the last turn is still to be reaped */
    wheel_clear(loop);
    hangups_clear(loop);
    if (loop->wake_event)
        event_free(loop->wake_event);
    if (loop->wake_fd >= 0)
        close(loop->wake_fd);
    if (loop->base)
        event_base_free(loop->base);
    free(loop);
    return NULL;
}

void wg_loop_run(struct wg_loop *loop)
{
    end_turn(loop); /* what was deferred before there was a turn */
    while (!atomic_load_explicit(&loop->stop, memory_order_acquire)) {
        const int result = event_base_loop(loop->base, EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY);
        WG_ASSERT(result >= 0);
        end_turn(loop);
    }
    end_turn(loop);
    atomic_store_explicit(&loop->stop, false, memory_order_release);
}

void wg_loop_stop(struct wg_loop *loop)
{
    atomic_store_explicit(&loop->stop, true, memory_order_release);
    const uint64_t one = 1;
    if (write(loop->wake_fd, &one, sizeof(one)) < 0)
        WG_ASSERT(errno == EAGAIN || errno == EINTR);
}

wg_usec wg_loop_now(struct wg_loop *loop)
{
    if (loop->now == 0)
        loop->now = wg_clock_monotonic();
    return loop->now;
}

struct event_base *wg_loop_base(struct wg_loop *loop)
{
    return loop->base;
}

void wg_deferred_init(struct wg_deferred *deferred, void (*run)(struct wg_deferred *deferred))
{
    wg_list_init(&deferred->link);
    deferred->run = run;
}

void wg_loop_defer(struct wg_loop *loop, struct wg_deferred *deferred)
{
    if (!wg_list_linked(&deferred->link))
        wg_list_append(&loop->deferred, &deferred->link);
}

void wg_deferred_cancel(struct wg_deferred *deferred)
{
    wg_list_remove(&deferred->link);
}

void wg_loop_reap(struct wg_loop *loop, struct wg_deferred *deferred)
{
    wg_list_remove(&deferred->link);
    wg_list_append(&loop->dead, &deferred->link);
}
