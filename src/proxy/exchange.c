/* An exchange's birth, its states, its timers, and the one place where everything it took is given back. */
#include "exchange.h"

#include <stdlib.h>

static void on_timer(struct wg_timer *timer);
static void on_step(struct wg_deferred *deferred);
static void on_dead(struct wg_deferred *deferred);

struct exchange *exchange_new(struct worker *worker, struct wg_stream *stream)
{
    struct exchange *x = WG_NEW(struct exchange);
    x->magic = EXCHANGE_MAGIC;
    x->worker = worker;
    x->stream = stream;
    x->routes = routes_ref(worker->routes);
    x->arrived = wg_loop_now(worker->loop);
    x->client_wait = x->announced = x->heartbeat_at = x->deadline = WG_USEC_NEVER;
    x->outcome = -1;
    wg_buf_init(&x->head, WG_MAX(exchange_config(x)->limits.max_header_bytes, 4096) + 4096);
    wg_buf_init(&x->late_text, 8192);
    wg_timer_init(&x->timer, worker->loop, on_timer);
    wg_deferred_init(&x->step, on_step);
    wg_deferred_init(&x->dead, on_dead);
    wg_list_append(&worker->exchanges, &x->link);
    atomic_fetch_add_explicit(&worker->requests, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&worker->load, 1, memory_order_relaxed);
    return x;
}

void exchange_set_state(struct exchange *x, enum exchange_state state)
{
    const bool back_again =
        state == EXCHANGE_HELD && (x->state == EXCHANGE_CONNECT || x->state == EXCHANGE_SEND);
    WG_ASSERT(state > x->state || back_again);
    x->state = state;
}

struct wg_model_metrics *exchange_model_metrics(const struct exchange *x)
{
    return x->model ? x->routes->model_metrics[x->model->index] : wg_metrics_model(NULL);
}

static struct wg_tenant_metrics *tenant_metrics(const struct exchange *x)
{
    return x->tenant ? x->routes->tenant_metrics[x->tenant->index] : wg_metrics_tenant(NULL);
}

const struct wg_skim_result *exchange_skimmed(const struct exchange *x)
{
    if (x->skim)
        return wg_skim_result(x->skim);
    return x->multipart ? wg_multipart_result(x->multipart) : NULL;
}

static void arm_timer(struct exchange *x)
{
    const wg_usec at = WG_MIN(x->heartbeat_at, x->deadline);
    if (at < x->timer.at)
        wg_timer_set(&x->timer, at);
}

void exchange_set_heartbeat(struct exchange *x, wg_usec at)
{
    x->heartbeat_at = at;
    arm_timer(x);
}

void exchange_set_deadline(struct exchange *x, wg_usec at)
{
    x->deadline = at;
    arm_timer(x);
}

static void on_timer(struct wg_timer *timer)
{
    struct exchange *x = WG_CONTAINER_OF(timer, struct exchange, timer);
    WG_CHECK_OBJ(x, EXCHANGE_MAGIC);
    const wg_usec now = wg_loop_now(x->worker->loop);
    if (now >= x->deadline) {
        x->deadline = WG_USEC_NEVER;
        if (x->state == EXCHANGE_HELD)
            hold_again(x);
        else
            relay_timed_out(x);
    }
    if (x->state != EXCHANGE_SETTLED && now >= x->heartbeat_at)
        hold_beat(x);
    if (x->state != EXCHANGE_SETTLED)
        arm_timer(x);
}

static void on_step(struct wg_deferred *deferred)
{
    struct exchange *x = WG_CONTAINER_OF(deferred, struct exchange, step);
    WG_CHECK_OBJ(x, EXCHANGE_MAGIC);
    hold_or_forward(x);
}

/* ---- the end ---- */

void exchange_free_request(struct exchange *x)
{
    wg_chain_clear(&x->body, x->worker->pool);
    wg_buf_clear(&x->head);
    free(x->accept_encoding);
    x->accept_encoding = NULL;
    wg_gauge_add(&wg_metrics_process()->held_bytes, -(int64_t)x->charged);
    x->charged = x->room = 0;
}

void exchange_give_back_slot(struct exchange *x)
{
    struct wg_endpoint *endpoint = x->endpoint;
    if (!endpoint)
        return;
    const uint32_t model_id = x->routes->plan->model_ids[x->model->index];
    atomic_fetch_sub_explicit(&endpoint->tokens, (int64_t)x->tokens, memory_order_relaxed);
    atomic_store_explicit(&endpoint->last_used, wg_loop_now(x->worker->loop), memory_order_relaxed);
    const unsigned max = atomic_load_explicit(&endpoint->slots_max, memory_order_relaxed);
    if (wg_slots_release(&endpoint->slots, x->healthy, max))
        wg_activator_freed(x->worker->activator, model_id);
    x->endpoint = wg_endpoint_unref(endpoint);
    wg_gauge_add(&exchange_model_metrics(x)->inflight, -1);
}

static void count(const struct exchange *x)
{
    struct wg_model_metrics *model = exchange_model_metrics(x);
    const wg_usec now = wg_loop_now(x->worker->loop);
    wg_count(&model->requests[x->outcome]);
    wg_count(&tenant_metrics(x)->requests[x->outcome]);
    if (!x->model)
        return;
    wg_histogram_add(&model->duration, now - x->arrived);
    if (x->first_byte_at)
        wg_histogram_add(&model->first_byte, x->first_byte_at - x->arrived);
}

void exchange_settle(struct exchange *x, int outcome)
{
    WG_CHECK_OBJ(x, EXCHANGE_MAGIC);
    if (x->state == EXCHANGE_SETTLED)
        return;
    x->outcome = outcome;
    wg_deferred_cancel(&x->step);
    wg_timer_cancel(&x->timer);
    wg_back_cancel(x->back);
    x->back = NULL;
    hold_leave(x);
    exchange_give_back_slot(x);
    exchange_free_request(x);
    exchange_set_state(x, EXCHANGE_SETTLED);
    x->stream = NULL;
    /* A list of models is no request of a tenant's to a model: it is logged, and not counted. */
    if (x->model || outcome != WG_OUTCOME_OK)
        count(x);
    if (exchange_config(x)->log.access)
        access_log(x);
    wg_list_remove(&x->link);
    atomic_fetch_sub_explicit(&x->worker->requests, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&x->worker->load, 1, memory_order_relaxed);
    wg_loop_reap(x->worker->loop, &x->dead);
}

static void on_dead(struct wg_deferred *deferred)
{
    struct exchange *x = WG_CONTAINER_OF(deferred, struct exchange, dead);
    struct worker *worker = x->worker;
    worker_give_skim(worker, x->skim);
    wg_multipart_free(x->multipart);
    wg_buf_clear(&x->late_text);
    routes_unref(x->routes);
    free(x->path);
    x->magic = 0;
    free(x);
    worker_check_quit(worker);
}
