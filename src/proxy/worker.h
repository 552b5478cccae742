/* A worker: one thread, one loop, its client connections, its back connections, and the exchanges on them. */
#pragma once

#include "wakegate/proxy.h"

#include "wakegate/openai.h"

struct routes;

/* A listening socket, as one worker hears it. */
struct worker_listener {
    uint32_t magic;
    struct worker *worker;
    size_t index; /* among the listeners: which of them a connection came to */
    struct wg_listener *listener;
};

struct worker {
    uint32_t magic;
    unsigned index;
    struct wg_proxy *proxy;
    struct wg_activator *activator;
    struct wg_loop *loop;
    struct wg_mailbox *mailbox;
    struct wg_thread *thread;
    struct wg_pool *pool;
    struct wg_back_pool *backs;
    struct worker_listener *listeners;
    size_t n_listeners;
    struct wg_tls_set *tls;
    struct routes *routes;  /* of the newest plan; NULL until the first */
    struct wg_view **views; /* by model id; NULL: not known yet */
    size_t n_views;
    struct wg_list early;     /* struct newcomer: connections that came before the first plan, or too late */
    struct wg_list clients;   /* struct client */
    struct wg_list exchanges; /* struct exchange, all that are alive */
    size_t lent;              /* holds that have not come home */
    struct wg_skim *skims[8]; /* spare ones */
    unsigned n_skims;
    uint64_t random;
    bool draining, quitting;
    uint64_t max_connections;
    struct wg_front_limits limits;

    _Atomic unsigned load; /* connections and requests: read by who hands a connection out */
    _Atomic unsigned requests, connections;
};

#define WORKER_MAGIC 0x30b4e201

/* One client connection: the owner that its front knows. */
struct client;
struct worker *client_worker(void *owner);

/* 0 or -errno. The thread is not started. */
WG_MUST_CHECK int worker_new(struct wg_proxy *proxy, unsigned index, const struct wg_proxy_env *env,
                             struct worker **ret_worker);
WG_MUST_CHECK int worker_start(struct worker *worker);
void worker_join(struct worker *worker);
struct worker *worker_free(struct worker *worker);

/* Any thread. */
void worker_adopt(struct worker *worker, int fd, const struct sockaddr_storage *peer, size_t listener);
void worker_set_tls(struct worker *worker, struct wg_tls_set *set);
void worker_drain(struct worker *worker);
void worker_quit(struct worker *worker);

/* The worker that has least to do now. */
struct worker *proxy_least_loaded(struct wg_proxy *proxy);

/* Once from each worker. After the last the kernel refuses connections, instead of queueing what nobody
 * takes. */
void proxy_stopped_listening(struct wg_proxy *proxy);

/* NULL if nothing is known of the model yet. */
struct wg_view *worker_view(const struct worker *worker, uint32_t model_id);
struct wg_skim *worker_take_skim(struct worker *worker);
void worker_give_skim(struct worker *worker, struct wg_skim *skim);
uint64_t worker_random(struct worker *worker);
/* After an exchange or a hold is gone: ends the loop when it was the last of a worker that quits. */
void worker_check_quit(struct worker *worker);
