/* Proves one instance: tiny real prompts, each on a fresh connection, until one is answered well. Service
 * loop. */
#pragma once

#include "wakegate/activator.h"

struct wg_prober;

struct wg_prober_env {
    struct wg_loop *loop;
    struct wg_fetch *fetch;
    struct wg_model_metrics *metrics;
    void (*connected)(void *arg, wg_usec at); /* the first time that it accepts a connection */
    /* An attempt did not pass, `why` in words. `steady`: the same refusal so often and so long that it will
     * not change by itself. */
    void (*not_ready)(void *arg, const char *why, bool steady);
    /* Passed; nothing more is called. The prober may be freed by this call. */
    void (*proved)(void *arg, wg_usec at);
    void *arg;
};

/* Starts at once. `spec` and `address` must live as long as the prober, or until wg_prober_configure. */
struct wg_prober *wg_prober_new(const struct wg_prober_env *env, const struct wg_address *address,
                                const struct wg_config_model *spec);
struct wg_prober *wg_prober_free(struct wg_prober *prober);
/* From the next attempt on. */
void wg_prober_configure(struct wg_prober *prober, const struct wg_config_model *spec);
/* A new wake: forgets what was steady and how long it has been answering. */
void wg_prober_rearm(struct wg_prober *prober);

/* How long to wait for the next attempt at a server that has been `loading` for so long and `took` so long to
 * say so. */
wg_usec wg_prober_loading_gap(const struct wg_config_probe *probe, wg_usec loading, wg_usec took);
