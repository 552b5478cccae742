/* The admin's listener and its client connections. What a request is answered is request.c's. */
#include "server.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <unistd.h>

#include "refusal.h"
#include "wakegate/base/log.h"

#define CONNECTION_MAGIC 0x61636f6eU
#define SPARE_BLOCKS     ((size_t)256 * 1024)
#define STREAMS_MAX      16 /* of one HTTP/2 connection */

struct admin_connection {
    uint32_t magic;
    struct wg_admin *admin;
    struct wg_front *front;
    struct wg_list link;
};

/* ---- connections ---- */

static void *front_head(void *owner, struct wg_stream *stream, const struct wg_request *request)
{
    struct admin_connection *connection = WG_CAST(admin_connection, owner, CONNECTION_MAGIC);
    return admin_request_begin(connection->admin, stream, request);
}

static void front_malformed(void *owner, struct wg_front *front, int status, const char *why,
                            struct wg_buf *body)
{
    struct admin_refusal refusal = admin_refusal_of(status == 431   ? WG_REASON_HEADERS_TOO_LARGE
                                                    : status == 408 ? WG_REASON_REQUEST_TIMEOUT
                                                                    : WG_REASON_INVALID_REQUEST);

    (void)WG_CAST(admin_connection, owner, CONNECTION_MAGIC);
    (void)front;
    wg_debug("admin", NULL, "refused with %d: %s", status, why);
    admin_refusal_json(&refusal, why, body);
}

static void front_closed(void *owner, struct wg_front *front)
{
    struct admin_connection *connection = WG_CAST(admin_connection, owner, CONNECTION_MAGIC);

    (void)front;
    wg_list_remove(&connection->link);
    connection->admin->n_connections--;
    free(connection);
}

static const struct wg_front_handler front_handler = {
    .head = front_head,
    .body = admin_request_body,
    .body_end = admin_request_body_end,
    .body_failed = admin_request_body_failed,
    .body_stalled = admin_request_body_stalled,
    .drained = admin_request_drained,
    .gone = admin_request_gone,
    .malformed = front_malformed,
    .closed = front_closed,
};

static void listener_accepted(void *arg, int fd, const struct sockaddr_storage *peer)
{
    struct wg_admin *admin = WG_CAST(wg_admin, arg, ADMIN_MAGIC);

    if (admin->n_connections >= ADMIN_CONNECTIONS_MAX) {
        wg_warn("admin", NULL, "more than %d connections: one is closed", ADMIN_CONNECTIONS_MAX);
        close(fd);
        return;
    }
    struct admin_connection *connection = WG_NEW(struct admin_connection);
    connection->magic = CONNECTION_MAGIC;
    connection->admin = admin;
    wg_list_init(&connection->link);
    connection->front =
        wg_front_new(admin->loop, admin->pool, fd, peer, NULL, &admin->limits, &front_handler, connection);
    if (!connection->front) {
        free(connection);
        return;
    }
    wg_list_append(&admin->connections, &connection->link);
    admin->n_connections++;
}

/* ---- the server ---- */

static bool is_loopback(int fd)
{
    struct sockaddr_storage sa = {0};
    socklen_t len = sizeof(sa);

    if (getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
        return false;
    if (sa.ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)&sa)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    if (sa.ss_family != AF_INET6)
        return false;
    const struct in6_addr *address = &((const struct sockaddr_in6 *)&sa)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(address) ||
           (IN6_IS_ADDR_V4MAPPED(address) && address->s6_addr[12] == IN_LOOPBACKNET);
}

struct wg_admin *wg_admin_new(const struct wg_admin_env *env)
{
    struct wg_admin *admin = WG_NEW(struct wg_admin);

    admin->magic = ADMIN_MAGIC;
    admin->loop = env->loop;
    admin->activator = env->activator;
    admin->ready = env->ready;
    admin->started = wg_clock_monotonic();
    admin->loopback = is_loopback(env->listen_fd);
    wg_list_init(&admin->connections);
    wg_list_init(&admin->requests);
    wg_admin_configure(admin, env->config);
    admin->pool = wg_pool_new(SPARE_BLOCKS);
    admin->mailbox = wg_mailbox_new(env->loop, admin);
    admin->listener = wg_listener_new(env->loop, env->listen_fd, listener_accepted, admin);
    if (!admin->pool || !admin->mailbox || !admin->listener)
        return wg_admin_free(admin);
    return admin;
}

void wg_admin_configure(struct wg_admin *admin, struct wg_config *config)
{
    struct wg_config *was = admin->config;

    admin->config = wg_config_ref(config);
    admin->limits = (struct wg_front_limits){
        .header_timeout = config->limits.header_timeout,
        .body_idle_timeout = config->limits.body_idle_timeout,
        .write_idle_timeout = config->limits.write_idle_timeout,
        .idle_timeout = config->limits.idle_timeout,
        .max_header_bytes = config->limits.max_header_bytes,
        .max_streams = STREAMS_MAX,
    };
    wg_config_unref(was);
    if (!admin->loopback && config->admin.n_keys == 0)
        wg_warn("admin", NULL, "the address is not loopback and there are no admin.keys: orders are refused");
}

struct wg_admin *wg_admin_free(struct wg_admin *admin)
{
    if (!admin)
        return NULL;
    WG_CHECK_OBJ(admin, ADMIN_MAGIC);
    admin->listener = wg_listener_free(admin->listener);
    while (!wg_list_empty(&admin->connections)) {
        struct admin_connection *connection =
            WG_LIST_ENTRY(wg_list_first(&admin->connections), struct admin_connection, link);
        wg_front_close(connection->front, false);
    }
    if (admin->mailbox)
        admin->mailbox = wg_mailbox_free(admin->mailbox);
    admin_requests_free(admin);
    /* Connections and requests are reaped by a turn, and nobody else runs one any more. */
    wg_loop_stop(admin->loop);
    wg_loop_run(admin->loop);
    wg_pool_free(admin->pool);
    wg_config_unref(admin->config);
    free(admin);
    return NULL;
}
