/* What the protocols of the front share: the connection's common part and its table of functions. */
#pragma once

#include "wakegate/http.h"

#define FRONT_MAGIC 0xf207a11e

struct front_ops {
    void (*close)(struct wg_front *front, bool hard);
    void (*drain)(struct wg_front *front);
    bool (*idle)(const struct wg_front *front);
};

/* Embedded first in the struct of each protocol. */
struct wg_front {
    uint32_t magic;
    const struct front_ops *ops;
    struct wg_loop *loop;
    struct wg_pool *pool;
    struct wg_conn *conn; /* NULL once closed */
    struct sockaddr_storage peer;
    const struct wg_front_limits *limits;
    const struct wg_front_handler *handler;
    void *owner;
};

struct wg_front *front_h1_new(struct wg_loop *loop, struct wg_pool *pool, int fd,
                              const struct sockaddr_storage *peer, const struct wg_front_limits *limits,
                              const struct wg_front_handler *handler, void *owner);
