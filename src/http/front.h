/* What the protocols of the front share: the connection's common part and its table of functions. A front
 * begins as hello, which finds out the protocol, and goes on in the same memory as that protocol. */
#pragma once

#include "wakegate/http.h"

#define FRONT_MAGIC 0xf207a11e

struct front_ops {
    void (*close)(struct wg_front *front, bool hard);
    void (*drain)(struct wg_front *front);
    bool (*idle)(const struct wg_front *front);
    void (*clear)(struct wg_front *front); /* frees what outlived the connection; may be NULL */
};

/* Embedded first in the struct of each protocol. */
struct wg_front {
    uint32_t magic;
    bool draining;
    const struct front_ops *ops;
    struct wg_loop *loop;
    struct wg_pool *pool;
    struct wg_conn *conn; /* NULL once closed */
    struct sockaddr_storage peer;
    const struct wg_front_limits *limits;
    const struct wg_front_handler *handler;
    void *owner;
    struct wg_deferred dead;
};

/* Closes the connection, tells the owner, and frees the front at the end of the turn. The protocol has
 * stopped its timers and told its streams before. */
void front_end(struct wg_front *front, bool hard);

/* A length after now; NEVER stays NEVER. */
wg_usec front_in_future(const struct wg_front *front, wg_usec wait);

/* Each begins on a connection that was read from already: the bytes are looked at before it returns. */
void front_hello_begin(struct wg_front *front);
void front_h1_begin(struct wg_front *front, const char *data, size_t len);
void front_h2_begin(struct wg_front *front, const char *data, size_t len);
/* A head of which these bytes came has taken too long: 408. */
void front_h1_begin_late(struct wg_front *front, const char *data, size_t len);
