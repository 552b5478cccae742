/* The sockets and the one timer of a curl multi handle, as events of a loop. curl is called from events only,
 * never from inside one of its own callbacks. */
#include "multi.h"

#include <event2/event.h>
#include <stdlib.h>
#include <unistd.h>

#define MULTI_MAGIC  0xfe7c4001
#define SOCKET_MAGIC 0xfe7c4002

enum { SPARE_CONNECTIONS = 64 };

/* One descriptor that curl wants watched. Found by number, not through curl_multi_assign: curl's own note of
 * a socket may outlive the socket. */
struct multi_socket {
    uint32_t magic;
    struct wg_list link; /* multi.sockets */
    struct multi *multi;
    curl_socket_t fd;
    struct event event;
};

static void act(struct multi *multi, curl_socket_t fd, int mask)
{
    int running;
    const CURLMcode code = curl_multi_socket_action(multi->curl, fd, mask, &running);
    WG_ASSERT(code == CURLM_OK || code == CURLM_OUT_OF_MEMORY);
    multi->progress(multi);
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
    struct multi_socket *socket = WG_CAST(multi_socket, arg, SOCKET_MAGIC);
    const int mask = ((what & EV_READ) ? CURL_CSELECT_IN : 0) | ((what & EV_WRITE) ? CURL_CSELECT_OUT : 0);
    act(socket->multi, fd, mask); /* the socket may be gone after this */
}

static void on_timer(evutil_socket_t fd WG_UNUSED, short what WG_UNUSED, void *arg)
{
    act(WG_CAST(multi, arg, MULTI_MAGIC), CURL_SOCKET_TIMEOUT, 0);
}

static struct multi_socket *find(struct multi *multi, curl_socket_t fd)
{
    wg_list_foreach (node, &multi->sockets) {
        struct multi_socket *socket = WG_LIST_ENTRY(node, struct multi_socket, link);
        if (socket->fd == fd)
            return socket;
    }
    return NULL;
}

static void forget(struct multi_socket *socket)
{
    if (!socket)
        return;
    event_del(&socket->event);
    wg_list_remove(&socket->link);
    socket->magic = 0;
    free(socket);
}

static int on_socket(CURL *easy WG_UNUSED, curl_socket_t fd, int what, void *arg, void *of_socket WG_UNUSED)
{
    struct multi *multi = WG_CAST(multi, arg, MULTI_MAGIC);
    struct multi_socket *socket = find(multi, fd);
    if (what == CURL_POLL_REMOVE) {
        forget(socket);
        return 0;
    }
    if (!socket) {
        socket = WG_NEW(struct multi_socket);
        socket->magic = SOCKET_MAGIC;
        socket->multi = multi;
        socket->fd = fd;
        wg_list_append(&multi->sockets, &socket->link);
    } else {
        event_del(&socket->event);
    }
    const int events = ((what & CURL_POLL_IN) ? EV_READ : 0) | ((what & CURL_POLL_OUT) ? EV_WRITE : 0);
    event_assign(&socket->event, event_get_base(&multi->timer), fd, (short)(events | EV_PERSIST), on_ready,
                 socket);
    /* Never -1: that would abort every transfer. One that is not watched runs into its timeout. */
    event_add(&socket->event, NULL);
    return 0;
}

static int on_close(void *arg, curl_socket_t fd)
{
    forget(find(WG_CAST(multi, arg, MULTI_MAGIC), fd));
    return close(fd);
}

static int on_set_timer(CURLM *curl WG_UNUSED, long msec, void *arg)
{
    struct multi *multi = WG_CAST(multi, arg, MULTI_MAGIC);
    if (msec < 0) {
        event_del(&multi->timer);
        return 0;
    }
    const struct timeval wait = {.tv_sec = msec / 1000, .tv_usec = msec % 1000 * 1000};
    event_add(&multi->timer, &wait);
    return 0;
}

bool multi_init(struct multi *multi, struct wg_loop *loop, void (*progress)(struct multi *multi))
{
    multi->magic = MULTI_MAGIC;
    multi->progress = progress;
    wg_list_init(&multi->sockets);
    event_assign(&multi->timer, wg_loop_base(loop), -1, 0, on_timer, multi);
    multi->curl = curl_multi_init();
    if (!multi->curl)
        return false;
    curl_multi_setopt(multi->curl, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(multi->curl, CURLMOPT_SOCKETDATA, multi);
    curl_multi_setopt(multi->curl, CURLMOPT_TIMERFUNCTION, on_set_timer);
    curl_multi_setopt(multi->curl, CURLMOPT_TIMERDATA, multi);
    curl_multi_setopt(multi->curl, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    curl_multi_setopt(multi->curl, CURLMOPT_MAXCONNECTS, (long)SPARE_CONNECTIONS);
    return true;
}

void multi_clear(struct multi *multi)
{
    if (multi->magic != MULTI_MAGIC)
        return;
    if (multi->curl)
        curl_multi_cleanup(multi->curl);
    multi->curl = NULL;
    event_del(&multi->timer);
    wg_list_foreach_safe (node, &multi->sockets)
        forget(WG_LIST_ENTRY(node, struct multi_socket, link));
}

void multi_adopt(struct multi *multi, CURL *easy)
{
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, on_close);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, multi);
}
