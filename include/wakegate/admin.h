/* The operator's side: health, metrics, status and orders over HTTP on the service loop. */
#pragma once

#include "wakegate/activator.h"
#include "wakegate/http.h"

struct wg_admin;

struct wg_admin_env {
    struct wg_loop *loop; /* the service loop */
    struct wg_activator *activator;
    struct wg_config *config;
    int listen_fd; /* borrowed; whether it is loopback is asked of the socket, not of the configuration */
    const atomic_bool *ready; /* /readyz: false while starting and from the first SIGTERM on */
};

/* NULL if the system refuses. Keeps a reference to config. All of it belongs to the service loop. */
struct wg_admin *wg_admin_new(const struct wg_admin_env *env);
/* Takes a reference of its own; what runs goes on under the new one. */
void wg_admin_configure(struct wg_admin *admin, struct wg_config *config);
/* Closes the listener and all connections. When no loop runs any more and after wg_activator_free, so that no
 * answer is still to come to its mailbox. NULL-safe. */
struct wg_admin *wg_admin_free(struct wg_admin *admin);

/* `wakegate status`: asks a running instance ("http://127.0.0.1:9090") and prints its tables on standard
 * output. The exit code: 0, or 1 with a line on standard error when there is no instance, or another thing
 * answers. No threads, no loop needed. */
int wg_admin_print_status(const char *url);
