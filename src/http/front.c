/* The front's common calls, handed on to the protocol of the connection, and the memory of all of them. */
#include "front_h1.h"
#include "front_h2.h"
#include "front_hello.h"

#include "wakegate/tls.h"

#include <stdlib.h>

/* A front changes its protocol once, in place: whoever holds it need not know. */
union any_front {
    struct wg_front base;
    struct hello_front hello;
    struct h1_front h1;
    struct h2_front h2;
};

struct wg_front *wg_front_new(struct wg_loop *loop, struct wg_pool *pool, int fd,
                              const struct sockaddr_storage *peer, struct wg_tls *tls,
                              const struct wg_front_limits *limits, const struct wg_front_handler *handler,
                              void *owner)
{
    union any_front *any = WG_NEW(union any_front);
    struct wg_front *front = &any->base;
    *front = (struct wg_front){.magic = FRONT_MAGIC,
                               .loop = loop,
                               .pool = pool,
                               .peer = *peer,
                               .limits = limits,
                               .handler = handler,
                               .owner = owner};
    front->conn = wg_conn_new(loop, fd, NULL, NULL);
    if (tls)
        WG_ASSERT(wg_conn_start_tls(front->conn, tls) == 0); /* fails as WG_NEW does */
    front_hello_begin(front);
    return front;
}

static void reap(struct wg_deferred *deferred)
{
    struct wg_front *front = WG_CONTAINER_OF(deferred, struct wg_front, dead);
    if (front->ops->clear)
        front->ops->clear(front);
    front->magic = 0;
    free(front);
}

void front_end(struct wg_front *front, bool hard)
{
    wg_conn_close(front->conn, hard);
    front->conn = NULL;
    if (front->handler->closed)
        front->handler->closed(front->owner, front);
    wg_deferred_init(&front->dead, reap);
    wg_loop_reap(front->loop, &front->dead);
}

wg_usec front_in_future(const struct wg_front *front, wg_usec wait)
{
    return wg_usec_add(wg_loop_now(front->loop), wait);
}

void wg_front_close(struct wg_front *front, bool hard)
{
    WG_CHECK_OBJ(front, FRONT_MAGIC);
    front->ops->close(front, hard);
}

void wg_front_drain(struct wg_front *front)
{
    WG_CHECK_OBJ(front, FRONT_MAGIC);
    front->ops->drain(front);
}

bool wg_front_idle(const struct wg_front *front)
{
    WG_CHECK_OBJ(front, FRONT_MAGIC);
    return front->ops->idle(front);
}

const struct sockaddr_storage *wg_front_peer(const struct wg_front *front)
{
    WG_CHECK_OBJ(front, FRONT_MAGIC);
    return &front->peer;
}

bool wg_front_tls(const struct wg_front *front)
{
    WG_CHECK_OBJ(front, FRONT_MAGIC);
    return front->conn && wg_conn_tls(front->conn);
}

const struct wg_strings *wg_front_sans(const struct wg_front *front)
{
    WG_CHECK_OBJ(front, FRONT_MAGIC);
    return wg_front_tls(front) ? wg_tls_sans(wg_conn_tls(front->conn)) : NULL;
}
