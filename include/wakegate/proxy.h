/* The workers: one request's life from its head to the last byte of its answer. */
#pragma once

#include "wakegate/activator.h"
#include "wakegate/http.h"
#include "wakegate/tls.h"

struct wg_proxy;

/* What each listener presents, in their order; NULL: cleartext. Immutable and counted; a worker gets one only
 * by mail that carries the reference. */
struct wg_tls_set {
    _Atomic unsigned refs;
    size_t n;
    struct wg_tls *items[];
};
/* All NULL, with one reference. Whoever makes it fills it in before he shares it. */
struct wg_tls_set *wg_tls_set_new(size_t n);
struct wg_tls_set *wg_tls_set_ref(struct wg_tls_set *set);
/* NULL-safe, returns NULL. */
struct wg_tls_set *wg_tls_set_unref(struct wg_tls_set *set);

struct wg_proxy_env {
    struct wg_activator *activator;
    struct wg_config *config; /* for what needs a restart: listeners, workers, connection limits */
    const int *listen_fds;    /* open for as long as the proxy lives */
    size_t n_listen_fds;
    struct wg_tls_set *tls;   /* one item a listener */
    uint64_t max_connections; /* that descriptors allow; the plan's limits.maxConnections holds below it */
};

/* Subscribes to the activator and starts the worker threads; they take requests from the first plan on. 0 or
 * -errno. */
WG_MUST_CHECK int wg_proxy_start(const struct wg_proxy_env *env, struct wg_proxy **ret_proxy);
/* For connections from now on; those that live keep what they have. The reference is the caller's yet. Any
 * thread. */
void wg_proxy_set_tls(struct wg_proxy *proxy, struct wg_tls_set *set);
/* Any thread. Step 1 of the end: no new connections, answers say close, idle connections go. */
void wg_proxy_drain(struct wg_proxy *proxy);
/* Requests and client connections alive now, all workers. Any thread. */
unsigned wg_proxy_requests(const struct wg_proxy *proxy);
unsigned wg_proxy_connections(const struct wg_proxy *proxy);
/* Ends the threads, breaking what still runs, and frees. */
struct wg_proxy *wg_proxy_stop(struct wg_proxy *proxy);

/* Cores that this process may use: affinity and cgroup quota, at least 1. */
unsigned wg_cores(void);
