/* The parts of the admin server know each other here: the server and its connections, and the requests on
 * them. All of it belongs to the service loop. */
#pragma once

#include "wakegate/admin.h"

enum { ADMIN_CONNECTIONS_MAX = 256 };
#define ADMIN_BODY_MAX ((size_t)64 * 1024) /* nothing that we take needs a body: it is read and dropped */

#define ADMIN_MAGIC 0x61646d6eU

struct wg_admin {
    uint32_t magic;
    struct wg_loop *loop;
    struct wg_activator *activator;
    struct wg_config *config;
    const atomic_bool *ready;
    struct wg_mailbox *mailbox; /* answers of the activator */
    struct wg_listener *listener;
    struct wg_pool *pool;
    struct wg_front_limits limits;
    struct wg_list connections, requests;
    unsigned n_connections;
    bool loopback; /* of the socket as it is, whatever a reloaded configuration says */
    wg_usec started;
};

/* For wg_front_handler: a request begins; never NULL. */
void *admin_request_begin(struct wg_admin *admin, struct wg_stream *stream, const struct wg_request *head);
void admin_request_body(void *x, const char *data, size_t len);
void admin_request_body_end(void *x, const struct wg_fields *trailers);
void admin_request_body_failed(void *x, const char *why);
void admin_request_body_stalled(void *x);
void admin_request_drained(void *x);
void admin_request_gone(void *x);
/* At the end of the server: whatever is left of them. No loop runs, and nobody will answer any more. */
void admin_requests_free(struct wg_admin *admin);
