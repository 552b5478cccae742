/* The front's common calls, handed on to the protocol of the connection. */
#include "front.h"

struct wg_front *wg_front_new(struct wg_loop *loop, struct wg_pool *pool, int fd,
                              const struct sockaddr_storage *peer, struct wg_tls *tls,
                              const struct wg_front_limits *limits, const struct wg_front_handler *handler,
                              void *owner)
{
    WG_ASSERT(!tls);
    return front_h1_new(loop, pool, fd, peer, limits, handler, owner);
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
    return false;
}

const struct wg_strings *wg_front_sans(const struct wg_front *front)
{
    WG_CHECK_OBJ(front, FRONT_MAGIC);
    return NULL;
}
