/* What the request on a back connection and the pool of such connections know of each other. */
#pragma once

#include "wakegate/http.h"

#define BACK_MAGIC 0xbac4c022
#define LINK_MAGIC 0xbac411a4

/* One connection to a model server; busy with one request (`user`), or idle in the pool (`user` NULL). */
struct back_link {
    uint32_t magic;
    struct wg_list idle; /* in its endpoint's list, newest first, while idle */
    struct wg_conn *conn;
    struct wg_back_pool *pool;
    struct wg_back *user;
    uint64_t endpoint_id;
    wg_usec since;      /* idle since */
    wg_usec rest_until; /* not taken before: see back_pool_keep */
    bool reused;
    struct wg_timer timer; /* its end as an idle connection */
    struct wg_deferred dead;
};

extern const struct wg_conn_handler back_active_handler;

struct wg_loop *back_pool_loop(const struct wg_back_pool *pool);
struct wg_pool *back_pool_blocks(const struct wg_back_pool *pool);

/* An idle connection that is fit for use, or NULL. */
struct back_link *back_pool_take(struct wg_back_pool *pool, struct wg_back *back);
/* A new one, connecting; NULL and *ret_error when that failed at once. */
struct back_link *back_pool_connect(struct wg_back_pool *pool, struct wg_back *back,
                                    const struct wg_back_request *request, int *ret_error);
/* Its request is over and it may serve another. `streamed`: the answer's length was not announced; then it
 * rests for a moment first, since some servers (cpp-httplib, so llama-server) promise to keep it and close it
 * right behind the last chunk. */
void back_pool_keep(struct wg_back_pool *pool, struct back_link *link, bool streamed);
void back_link_close(struct back_link *link);

uint64_t back_endpoint(const struct wg_back *back);
wg_usec back_reuse(const struct wg_back *back);
