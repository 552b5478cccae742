/* Accepting: bounded per turn, and a pause instead of a busy loop when descriptors run out. */
#include "loop_internal.h"

#include "wakegate/base/log.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LISTENER_MAGIC 0x11573e21
#define ACCEPTS_A_TURN 32
#define PAUSE          (100 * WG_USEC_PER_MSEC)
#define BACKLOG        4096
#define TELL_EVERY     (10 * WG_USEC_PER_SEC)

struct wg_listener {
    uint32_t magic;
    int fd;
    void (*accepted)(void *arg, int fd, const struct sockaddr_storage *peer);
    void *arg;
    struct event *event;
    struct wg_timer pause;
    wg_usec told; /* when the log last said that accepting fails */
    bool enabled;
};

int wg_listen(const struct sockaddr *address, socklen_t len)
{
    const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (address->sa_family == AF_INET6) {
        /* "[::]:8080" serves IPv4 too, whatever the system's default is. */
        const int off = 0;
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    }
    if (bind(fd, address, len) < 0 || listen(fd, BACKLOG) < 0) {
        const int error = -errno;
        close(fd);
        return error;
    }
    return fd;
}

static bool is_passing(int error)
{
    /* The connection died between the handshake and the accept: the next one may be fine (accept(2)). */
    static const int passing[] = {ECONNABORTED, EINTR,        EPROTO,     ENETDOWN,    ENOPROTOOPT, EHOSTDOWN,
                                  ENONET,       EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH, EPERM};
    for (size_t i = 0; i < WG_COUNT_OF(passing); i++)
        if (error == passing[i])
            return true;
    return false;
}

static void tell(struct wg_listener *listener, int error)
{
    const wg_usec now = wg_clock_monotonic();
    if (listener->told != 0 && now - listener->told < TELL_EVERY)
        return;
    listener->told = now;
    wg_error("listener", NULL, "cannot accept connections for now, trying again: %s", strerror(error));
}

static void on_accept(evutil_socket_t fd, short what WG_UNUSED, void *arg)
{
    struct wg_listener *listener = WG_CAST(wg_listener, arg, LISTENER_MAGIC);
    for (int i = 0; i < ACCEPTS_A_TURN && listener->enabled; i++) {
        struct sockaddr_storage peer;
        memset(&peer, 0, sizeof(peer));
        socklen_t len = sizeof(peer);
        const int client = accept4(fd, (struct sockaddr *)&peer, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (client >= 0) {
            const int on = 1;
            setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
            listener->accepted(listener->arg, client, &peer);
        } else if (errno == EAGAIN) {
            return;
        } else if (!is_passing(errno)) {
            tell(listener, errno);
            event_del(listener->event);
            wg_timer_set_after(&listener->pause, PAUSE);
            return;
        }
    }
}

static void on_pause_over(struct wg_timer *timer)
{
    struct wg_listener *listener = WG_CONTAINER_OF(timer, struct wg_listener, pause);
    WG_CHECK_OBJ(listener, LISTENER_MAGIC);
    event_add(listener->event, NULL);
}

struct wg_listener *wg_listener_new(struct wg_loop *loop, int fd,
                                    void (*accepted)(void *arg, int fd, const struct sockaddr_storage *peer),
                                    void *arg)
{
    struct wg_listener *listener = WG_NEW(struct wg_listener);
    listener->magic = LISTENER_MAGIC;
    listener->fd = fd;
    listener->accepted = accepted;
    listener->arg = arg;
    wg_timer_init(&listener->pause, loop, on_pause_over);
    listener->event = event_new(loop->base, fd, EV_READ | EV_PERSIST, on_accept, listener);
    if (!listener->event)
        return wg_listener_free(listener);
    wg_listener_enable(listener, true);
    return listener;
}

struct wg_listener *wg_listener_free(struct wg_listener *listener)
{
    if (!listener)
        return NULL;
    wg_timer_cancel(&listener->pause);
    if (listener->event)
        event_free(listener->event);
    listener->magic = 0;
    free(listener);
    return NULL;
}

void wg_listener_enable(struct wg_listener *listener, bool on)
{
    if (listener->enabled == on)
        return;
    listener->enabled = on;
    wg_timer_cancel(&listener->pause);
    if (on)
        event_add(listener->event, NULL);
    else
        event_del(listener->event);
}
