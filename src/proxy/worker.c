/* One worker thread: its connections, the views and plans that control publishes to it, and its end. */
#include "exchange.h"

#include "wakegate/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#define SPARE_BLOCKS   (8 * 1024 * 1024)
#define IDLE_BACKS     256 /* kept connections of one bucket of endpoints */
#define CLIENT_MAGIC   0xc11e2701
#define LISTENER_MAGIC 0x115735a1

struct client {
    uint32_t magic;
    struct wg_list link;
    struct worker *worker;
    struct wg_front *front;
    struct wg_deferred dead;
};

struct newcomer {
    struct wg_mail mail;
    int fd;
    size_t listener;
    struct sockaddr_storage peer;
};

/* ---- client connections ---- */

struct worker *client_worker(void *owner)
{
    return WG_CAST(client, owner, CLIENT_MAGIC)->worker;
}

static void on_client_dead(struct wg_deferred *deferred)
{
    free(WG_CONTAINER_OF(deferred, struct client, dead));
}

static void count_closed(struct worker *worker)
{
    atomic_fetch_sub_explicit(&worker->load, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&worker->connections, 1, memory_order_relaxed);
    wg_gauge_add(&wg_metrics_process()->connections, -1);
}

static void on_closed(void *owner, struct wg_front *front WG_UNUSED)
{
    struct client *client = WG_CAST(client, owner, CLIENT_MAGIC);
    struct worker *worker = client->worker;
    wg_list_remove(&client->link);
    count_closed(worker);
    wg_loop_reap(worker->loop, &client->dead);
    worker_check_quit(worker);
}

static void on_gone(void *arg)
{
    struct exchange *x = WG_CAST(exchange, arg, EXCHANGE_MAGIC);
    x->stream = NULL;
    exchange_settle(x, WG_OUTCOME_CLIENT_CLOSED);
}

static const struct wg_front_handler front_handler = {
    .head = admit_head,
    .body = admit_body,
    .body_end = admit_body_end,
    .body_failed = admit_body_failed,
    .body_stalled = admit_body_stalled,
    .drained = relay_drained,
    .gone = on_gone,
    .malformed = answer_malformed,
    .closed = on_closed,
};

static void open_client(struct worker *worker, int fd, const struct sockaddr_storage *peer, size_t listener)
{
    struct client *client = WG_NEW(struct client);
    client->magic = CLIENT_MAGIC;
    client->worker = worker;
    wg_deferred_init(&client->dead, on_client_dead);
    wg_list_append(&worker->clients, &client->link);
    client->front = wg_front_new(worker->loop, worker->pool, fd, peer, worker->tls->items[listener],
                                 &worker->limits, &front_handler, client);
    if (worker->draining)
        wg_front_drain(client->front);
}

static void on_newcomer(struct wg_mail *mail, void *receiver)
{
    struct newcomer *newcomer = WG_CONTAINER_OF(mail, struct newcomer, mail);
    struct worker *worker = WG_CAST(worker, receiver, WORKER_MAGIC);
    if (!worker->routes || worker->quitting) {
        wg_list_append(&worker->early, &mail->link);
        return;
    }
    open_client(worker, newcomer->fd, &newcomer->peer, newcomer->listener);
    free(newcomer);
}

/* Handed over by a worker that had the first plan before us; at the end they are closed. */
static void open_early(struct worker *worker)
{
    struct wg_list *node;
    while (!worker->quitting && (node = wg_list_pop(&worker->early)))
        on_newcomer(WG_LIST_ENTRY(node, struct wg_mail, link), worker);
}

static void close_early(struct worker *worker)
{
    struct wg_list *node;
    while ((node = wg_list_pop(&worker->early))) {
        struct newcomer *newcomer = WG_LIST_ENTRY(node, struct newcomer, mail.link);
        close(newcomer->fd);
        count_closed(worker);
        free(newcomer);
    }
}

void worker_adopt(struct worker *worker, int fd, const struct sockaddr_storage *peer, size_t listener)
{
    struct newcomer *newcomer = WG_NEW(struct newcomer);
    wg_mail_init(&newcomer->mail, on_newcomer);
    newcomer->fd = fd;
    newcomer->peer = *peer;
    newcomer->listener = listener;
    wg_mailbox_post(worker->mailbox, &newcomer->mail);
}

static void on_accepted(void *arg, int fd, const struct sockaddr_storage *peer)
{
    const struct worker_listener *listener = WG_CAST(worker_listener, arg, LISTENER_MAGIC);
    struct worker *worker = listener->worker;
    struct wg_process_metrics *process = wg_metrics_process();
    const int64_t before = atomic_fetch_add_explicit(&process->connections, 1, memory_order_relaxed);
    const uint64_t max =
        WG_MIN(worker->routes->plan->config->limits.max_connections, worker->max_connections);
    if ((uint64_t)before >= max) {
        wg_gauge_add(&process->connections, -1);
        wg_count(&process->connections_refused);
        wg_warn("front", NULL, "a connection was closed at once: limits.maxConnections is reached");
        close(fd);
        return;
    }
    struct worker *chosen = proxy_least_loaded(worker->proxy);
    atomic_fetch_add_explicit(&chosen->load, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&chosen->connections, 1, memory_order_relaxed);
    if (chosen == worker)
        open_client(worker, fd, peer, listener->index);
    else
        worker_adopt(chosen, fd, peer, listener->index);
}

/* Nothing can be answered before the first plan; until then the kernel's queue holds the connections. */
static void open_listeners(struct worker *worker)
{
    for (size_t i = 0; i < worker->n_listeners; i++)
        wg_listener_enable(worker->listeners[i].listener, true);
}

/* ---- what control publishes ---- */

static bool still_serves(const struct wg_view *view, uint64_t endpoint_id)
{
    for (size_t i = 0; i < view->n_endpoints; i++)
        if (view->endpoints[i]->id == endpoint_id)
            return true;
    return false;
}

static void take_view(struct worker *worker, struct wg_view *view)
{
    if (view->model_id >= worker->n_views) {
        const size_t n = view->model_id + 16;
        worker->views = wg_xrealloc(worker->views, n, sizeof(struct wg_view *));
        for (size_t i = worker->n_views; i < n; i++)
            worker->views[i] = NULL;
        worker->n_views = n;
    }
    struct wg_view *was = worker->views[view->model_id];
    worker->views[view->model_id] = view;
    for (size_t i = 0; was && i < was->n_endpoints; i++)
        if (!still_serves(view, was->endpoints[i]->id))
            wg_back_pool_forget(worker->backs, was->endpoints[i]->id);
    wg_view_unref(was);
}

static void take_plan(struct worker *worker, struct wg_plan *plan)
{
    const bool first = worker->routes == NULL;
    routes_unref(worker->routes);
    worker->routes = routes_new(plan);
    const struct wg_config *config = plan->config;
    worker->limits = (struct wg_front_limits){
        .header_timeout = config->limits.header_timeout,
        .body_idle_timeout = config->limits.body_idle_timeout,
        .write_idle_timeout = config->limits.write_idle_timeout,
        .idle_timeout = config->limits.idle_timeout,
        .max_header_bytes = config->limits.max_header_bytes,
        .max_streams = (unsigned)config->limits.max_streams,
    };
    if (first && !worker->draining)
        open_listeners(worker);
    open_early(worker);
}

static void on_publication(struct wg_mail *mail, void *receiver)
{
    struct wg_publication *publication = WG_CONTAINER_OF(mail, struct wg_publication, mail);
    struct worker *worker = WG_CAST(worker, receiver, WORKER_MAGIC);
    if (publication->view)
        take_view(worker, publication->view);
    if (publication->plan)
        take_plan(worker, publication->plan);
    publication->view = NULL;
    publication->plan = NULL;
    wg_publication_free(publication);
}

struct tls_mail {
    struct wg_mail mail;
    struct wg_tls_set *set;
};

static void on_tls(struct wg_mail *mail, void *receiver)
{
    struct tls_mail *news = WG_CONTAINER_OF(mail, struct tls_mail, mail);
    struct worker *worker = WG_CAST(worker, receiver, WORKER_MAGIC);
    wg_tls_set_unref(worker->tls);
    worker->tls = news->set;
    free(news);
}

void worker_set_tls(struct worker *worker, struct wg_tls_set *set)
{
    struct tls_mail *news = WG_NEW(struct tls_mail);
    wg_mail_init(&news->mail, on_tls);
    news->set = wg_tls_set_ref(set);
    wg_mailbox_post(worker->mailbox, &news->mail);
}

struct wg_view *worker_view(const struct worker *worker, uint32_t model_id)
{
    return model_id < worker->n_views ? worker->views[model_id] : NULL;
}

/* ---- small things the exchanges borrow ---- */

struct wg_skim *worker_take_skim(struct worker *worker)
{
    return worker->n_skims > 0 ? worker->skims[--worker->n_skims] : wg_skim_new();
}

void worker_give_skim(struct worker *worker, struct wg_skim *skim)
{
    if (!skim)
        return;
    if (worker->n_skims == WG_COUNT_OF(worker->skims)) {
        wg_skim_free(skim);
        return;
    }
    wg_skim_reset(skim);
    worker->skims[worker->n_skims++] = skim;
}

/* splitmix64: names for requests and traces, nothing secret. */
uint64_t worker_random(struct worker *worker)
{
    uint64_t z = (worker->random += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* ---- the end ---- */

static void stop_listening(struct worker *worker)
{
    if (worker->n_listeners == 0)
        return;
    for (size_t i = 0; i < worker->n_listeners; i++)
        worker->listeners[i].listener = wg_listener_free(worker->listeners[i].listener);
    worker->n_listeners = 0;
    proxy_stopped_listening(worker->proxy);
}

static void on_drain(struct wg_mail *mail, void *receiver)
{
    struct worker *worker = WG_CAST(worker, receiver, WORKER_MAGIC);
    worker->draining = true;
    stop_listening(worker);
    wg_list_foreach_safe (node, &worker->clients) {
        wg_front_drain(WG_LIST_ENTRY(node, struct client, link)->front);
    }
    free(mail);
}

void worker_check_quit(struct worker *worker)
{
    if (worker->quitting && worker->lent == 0 && wg_list_empty(&worker->clients) &&
        wg_list_empty(&worker->exchanges))
        wg_loop_stop(worker->loop);
}

static void on_quit(struct wg_mail *mail, void *receiver)
{
    struct worker *worker = WG_CAST(worker, receiver, WORKER_MAGIC);
    worker->draining = worker->quitting = true;
    stop_listening(worker);
    wg_list_foreach_safe (node, &worker->clients) {
        wg_front_close(WG_LIST_ENTRY(node, struct client, link)->front, true);
    }
    worker_check_quit(worker);
    free(mail);
}

static void post(struct worker *worker, void (*deliver)(struct wg_mail *, void *))
{
    struct wg_mail *mail = WG_NEW(struct wg_mail);
    wg_mail_init(mail, deliver);
    wg_mailbox_post(worker->mailbox, mail);
}

void worker_drain(struct worker *worker)
{
    post(worker, on_drain);
}

void worker_quit(struct worker *worker)
{
    post(worker, on_quit);
}

/* ---- birth and death ---- */

static int listen_on(struct worker *worker, const struct wg_proxy_env *env)
{
    worker->listeners = wg_xcalloc(env->n_listen_fds + 1, sizeof(struct worker_listener));
    for (size_t i = 0; i < env->n_listen_fds; i++) {
        struct worker_listener *listener = &worker->listeners[i];
        *listener = (struct worker_listener){.magic = LISTENER_MAGIC, .worker = worker, .index = i};
        listener->listener = wg_listener_new(worker->loop, env->listen_fds[i], on_accepted, listener);
        if (!listener->listener)
            return -ENOMEM;
        wg_listener_enable(listener->listener, false);
        worker->n_listeners++;
    }
    return 0;
}

int worker_new(struct wg_proxy *proxy, unsigned index, const struct wg_proxy_env *env,
               struct worker **ret_worker)
{
    struct worker *worker = WG_NEW(struct worker);
    worker->magic = WORKER_MAGIC;
    worker->index = index;
    worker->proxy = proxy;
    worker->activator = env->activator;
    worker->max_connections = env->max_connections;
    worker->tls = wg_tls_set_ref(env->tls);
    wg_list_init(&worker->early);
    wg_list_init(&worker->clients);
    wg_list_init(&worker->exchanges);
    if (getrandom(&worker->random, sizeof(worker->random), 0) < 0)
        worker->random = (uint64_t)wg_clock_wall();
    worker->loop = wg_loop_new();
    if (worker->loop)
        worker->mailbox = wg_mailbox_new(worker->loop, worker);
    if (!worker->mailbox || listen_on(worker, env) < 0) {
        worker_free(worker);
        return -ENOMEM;
    }
    worker->pool = wg_pool_new(SPARE_BLOCKS);
    worker->backs = wg_back_pool_new(worker->loop, worker->pool, IDLE_BACKS);
    wg_activator_subscribe(env->activator, worker->mailbox, on_publication);
    *ret_worker = worker;
    return 0;
}

static void run(void *arg)
{
    struct worker *worker = WG_CAST(worker, arg, WORKER_MAGIC);
    wg_loop_run(worker->loop);
}

int worker_start(struct worker *worker)
{
    char name[16];
    snprintf(name, sizeof(name), "worker-%u", worker->index);
    return wg_thread_start(name, run, worker, &worker->thread);
}

void worker_join(struct worker *worker)
{
    worker->thread = wg_thread_join(worker->thread);
}

struct worker *worker_free(struct worker *worker)
{
    if (!worker)
        return NULL;
    worker_join(worker);
    if (worker->mailbox)
        wg_activator_unsubscribe(worker->activator, worker->mailbox);
    stop_listening(worker);
    free(worker->listeners);
    worker->mailbox = wg_mailbox_free(worker->mailbox);
    close_early(worker);
    worker->backs = wg_back_pool_free(worker->backs);
    worker->loop = wg_loop_free(worker->loop);
    while (worker->n_skims > 0)
        wg_skim_free(worker->skims[--worker->n_skims]);
    for (size_t i = 0; i < worker->n_views; i++)
        wg_view_unref(worker->views[i]);
    free(worker->views);
    routes_unref(worker->routes);
    wg_tls_set_unref(worker->tls);
    wg_pool_free(worker->pool);
    worker->magic = 0;
    free(worker);
    return NULL;
}
