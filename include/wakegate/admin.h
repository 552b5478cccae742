/* The operator's side: health, metrics, status and orders over HTTP on the service loop. */
#pragma once

#include "wakegate/activator.h"
#include "wakegate/http.h"

struct wg_admin;

struct wg_admin_env {
    struct wg_loop *loop; /* the service loop */
    struct wg_activator *activator;
    struct wg_config *config;
    int listen_fd;
    const atomic_bool *ready; /* /readyz: false while starting and from the first SIGTERM on */
};

/* NULL if the system refuses. Keeps a reference to config. */
struct wg_admin *wg_admin_new(const struct wg_admin_env *env);
void wg_admin_configure(struct wg_admin *admin, struct wg_config *config);
struct wg_admin *wg_admin_free(struct wg_admin *admin);

/* `wakegate status`: asks a running instance and prints its table on standard output; the exit code. */
int wg_admin_print_status(const char *url);
