/* The set of workers: started, drained and stopped together. */
#include "worker.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>

struct wg_proxy {
    struct worker **workers; /* filled before any thread starts, then never changed */
    unsigned n_workers;
    const int *listen_fds;
    size_t n_listen_fds;
    _Atomic unsigned listening; /* workers that still do */
};

struct worker *proxy_least_loaded(struct wg_proxy *proxy)
{
    struct worker *least = proxy->workers[0];
    unsigned load = atomic_load_explicit(&least->load, memory_order_relaxed);
    for (unsigned i = 1; i < proxy->n_workers; i++) {
        const unsigned other = atomic_load_explicit(&proxy->workers[i]->load, memory_order_relaxed);
        if (other < load) {
            least = proxy->workers[i];
            load = other;
        }
    }
    return least;
}

void proxy_stopped_listening(struct wg_proxy *proxy)
{
    if (atomic_fetch_sub_explicit(&proxy->listening, 1, memory_order_acq_rel) > 1)
        return;
    for (size_t i = 0; i < proxy->n_listen_fds; i++)
        shutdown(proxy->listen_fds[i], SHUT_RD);
}

int wg_proxy_start(const struct wg_proxy_env *env, struct wg_proxy **ret_proxy)
{
    struct wg_proxy *proxy = WG_NEW(struct wg_proxy);
    const unsigned n = env->config->workers > 0 ? env->config->workers : wg_cores();
    proxy->workers = wg_xcalloc(n, sizeof(struct worker *));
    proxy->listen_fds = env->listen_fds;
    proxy->n_listen_fds = env->n_listen_fds;
    proxy->listening = n;
    int error = 0;
    for (; error == 0 && proxy->n_workers < n; proxy->n_workers++) {
        error = worker_new(proxy, proxy->n_workers, env, &proxy->workers[proxy->n_workers]);
        if (error < 0)
            break;
    }
    for (unsigned i = 0; error == 0 && i < proxy->n_workers; i++)
        error = worker_start(proxy->workers[i]);
    if (error < 0) {
        wg_proxy_stop(proxy);
        return error;
    }
    *ret_proxy = proxy;
    return 0;
}

struct wg_tls_set *wg_tls_set_new(size_t n)
{
    struct wg_tls_set *set = wg_xcalloc(1, sizeof(*set) + n * sizeof(struct wg_tls *));
    atomic_init(&set->refs, 1);
    set->n = n;
    return set;
}

struct wg_tls_set *wg_tls_set_ref(struct wg_tls_set *set)
{
    atomic_fetch_add_explicit(&set->refs, 1, memory_order_relaxed);
    return set;
}

struct wg_tls_set *wg_tls_set_unref(struct wg_tls_set *set)
{
    if (!set || atomic_fetch_sub_explicit(&set->refs, 1, memory_order_acq_rel) > 1)
        return NULL;
    for (size_t i = 0; i < set->n; i++)
        wg_tls_unref(set->items[i]);
    free(set);
    return NULL;
}

void wg_proxy_set_tls(struct wg_proxy *proxy, struct wg_tls_set *set)
{
    for (unsigned i = 0; i < proxy->n_workers; i++)
        worker_set_tls(proxy->workers[i], set);
}

void wg_proxy_drain(struct wg_proxy *proxy)
{
    for (unsigned i = 0; i < proxy->n_workers; i++)
        worker_drain(proxy->workers[i]);
}

unsigned wg_proxy_requests(const struct wg_proxy *proxy)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < proxy->n_workers; i++)
        sum += atomic_load_explicit(&proxy->workers[i]->requests, memory_order_relaxed);
    return sum;
}

unsigned wg_proxy_connections(const struct wg_proxy *proxy)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < proxy->n_workers; i++)
        sum += atomic_load_explicit(&proxy->workers[i]->connections, memory_order_relaxed);
    return sum;
}

struct wg_proxy *wg_proxy_stop(struct wg_proxy *proxy)
{
    if (!proxy)
        return NULL;
    for (unsigned i = 0; i < proxy->n_workers; i++)
        worker_quit(proxy->workers[i]);
    /* All threads end before any worker is freed: they look at each other's load, and hand connections over.
     */
    for (unsigned i = 0; i < proxy->n_workers; i++)
        worker_join(proxy->workers[i]);
    for (unsigned i = 0; i < proxy->n_workers; i++)
        worker_free(proxy->workers[i]);
    free(proxy->workers);
    free(proxy);
    return NULL;
}
