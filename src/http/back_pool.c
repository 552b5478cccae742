/* Kept-alive connections to model servers, by endpoint. None is used that the server may be closing: not
 * after it idled for longer than the model's `reuse`, and not if anything, bytes or a FIN, is there to read.
 */
#include "back.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#define POOL_MAGIC 0xbac4b001
#define BUCKETS    64
#define REST       (50 * WG_USEC_PER_MSEC)

struct wg_back_pool {
    uint32_t magic;
    struct wg_loop *loop;
    struct wg_pool *blocks;
    size_t max_idle;
    struct wg_list idle[BUCKETS]; /* by endpoint id */
    size_t n_idle[BUCKETS];
};

static size_t bucket_of(uint64_t endpoint_id)
{
    return (size_t)(endpoint_id % BUCKETS);
}

struct wg_loop *back_pool_loop(const struct wg_back_pool *pool)
{
    return pool->loop;
}

struct wg_pool *back_pool_blocks(const struct wg_back_pool *pool)
{
    return pool->blocks;
}

struct wg_back_pool *wg_back_pool_new(struct wg_loop *loop, struct wg_pool *blocks, size_t max_idle)
{
    struct wg_back_pool *pool = WG_NEW(struct wg_back_pool);
    pool->magic = POOL_MAGIC;
    pool->loop = loop;
    pool->blocks = blocks;
    pool->max_idle = max_idle;
    for (size_t i = 0; i < BUCKETS; i++)
        wg_list_init(&pool->idle[i]);
    return pool;
}

static void leave_idle(struct back_link *link)
{
    if (!wg_list_linked(&link->idle))
        return;
    wg_list_remove(&link->idle);
    link->pool->n_idle[bucket_of(link->endpoint_id)]--;
    wg_timer_cancel(&link->timer);
}

static void reap(struct wg_deferred *deferred)
{
    struct back_link *link = WG_CONTAINER_OF(deferred, struct back_link, dead);
    link->magic = 0;
    free(link);
}

void back_link_close(struct back_link *link)
{
    leave_idle(link);
    wg_timer_cancel(&link->timer);
    wg_conn_close(link->conn, false);
    wg_loop_reap(link->pool->loop, &link->dead);
}

/* Whatever an idle connection tells, bytes or its end, makes it useless. */
static void on_readable(void *arg)
{
    struct back_link *link = WG_CAST(back_link, arg, LINK_MAGIC);
    if (link->user)
        back_active_handler.readable(link);
    else
        back_link_close(link);
}

static void on_writable(void *arg)
{
    struct back_link *link = WG_CAST(back_link, arg, LINK_MAGIC);
    if (link->user)
        back_active_handler.writable(link);
}

static const struct wg_conn_handler link_handler = {.readable = on_readable, .writable = on_writable};

static void on_idle_over(struct wg_timer *timer)
{
    back_link_close(WG_CONTAINER_OF(timer, struct back_link, timer));
}

struct wg_back_pool *wg_back_pool_free(struct wg_back_pool *pool)
{
    if (!pool)
        return NULL;
    WG_CHECK_OBJ(pool, POOL_MAGIC);
    for (size_t i = 0; i < BUCKETS; i++)
        wg_list_foreach_safe (node, &pool->idle[i])
            back_link_close(WG_LIST_ENTRY(node, struct back_link, idle));
    pool->magic = 0;
    free(pool);
    return NULL;
}

void wg_back_pool_forget(struct wg_back_pool *pool, uint64_t endpoint_id)
{
    wg_list_foreach_safe (node, &pool->idle[bucket_of(endpoint_id)]) {
        struct back_link *link = WG_LIST_ENTRY(node, struct back_link, idle);
        if (link->endpoint_id == endpoint_id)
            back_link_close(link);
    }
}

/* The server may have closed it, and the loop not have heard of it yet. */
static bool is_quiet(const struct back_link *link)
{
    char byte;
    return recv(wg_conn_fd(link->conn), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

struct back_link *back_pool_take(struct wg_back_pool *pool, struct wg_back *back)
{
    const wg_usec now = wg_loop_now(pool->loop);
    wg_list_foreach_safe (node, &pool->idle[bucket_of(back_endpoint(back))]) {
        struct back_link *link = WG_LIST_ENTRY(node, struct back_link, idle);
        if (link->endpoint_id != back_endpoint(back) || link->rest_until > now)
            continue;
        if (now - link->since > back_reuse(back) || !is_quiet(link)) {
            back_link_close(link);
            continue;
        }
        leave_idle(link);
        link->user = back;
        link->reused = true;
        return link;
    }
    return NULL;
}

struct back_link *back_pool_connect(struct wg_back_pool *pool, struct wg_back *back,
                                    const struct wg_back_request *request, int *ret_error)
{
    struct back_link *link = WG_NEW(struct back_link);
    link->magic = LINK_MAGIC;
    link->pool = pool;
    link->user = back;
    link->endpoint_id = request->endpoint_id;
    wg_list_init(&link->idle);
    wg_timer_init(&link->timer, pool->loop, on_idle_over);
    wg_deferred_init(&link->dead, reap);
    link->conn =
        wg_conn_connect(pool->loop, request->address, request->address_len, &link_handler, link, ret_error);
    if (!link->conn) {
        free(link);
        return NULL;
    }
    return link;
}

void back_pool_keep(struct wg_back_pool *pool, struct back_link *link, bool streamed)
{
    const size_t bucket = bucket_of(link->endpoint_id);
    const wg_usec reuse = back_reuse(link->user);
    link->user = NULL;
    if (reuse == 0 || pool->n_idle[bucket] >= pool->max_idle) {
        back_link_close(link);
        return;
    }
    link->since = wg_loop_now(pool->loop);
    link->rest_until = streamed ? link->since + REST : link->since;
    wg_list_prepend(&pool->idle[bucket], &link->idle);
    pool->n_idle[bucket]++;
    wg_conn_want_write(link->conn, false);
    wg_conn_want_read(link->conn, true); /* a FIN is noticed at once */
    wg_timer_set_after(&link->timer, reuse);
}
