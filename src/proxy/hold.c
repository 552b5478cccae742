/* Waiting: the ticket's way to control and home again, the clocks of a held request, and its heartbeat. */
#include "exchange.h"

#include <stdlib.h>

#define ATTEMPTS_MAX 8 /* that provably never ran, before the client hears of it */
#define AGAIN_FIRST  (25 * WG_USEC_PER_MSEC)
#define AGAIN_MOST   WG_USEC_PER_SEC

/* A ticket with the worker's part of the protocol: freed when all that is out has come home. */
struct hold {
    struct wg_ticket ticket;
    struct worker *worker;
    struct exchange *x; /* NULL once the client left */
    bool leaving, mail_home, leave_home;
};

static void free_when_home(struct hold *hold)
{
    if (!hold->mail_home || (hold->leaving && !hold->leave_home))
        return;
    struct worker *worker = hold->worker;
    wg_config_unref(hold->ticket.config);
    free(hold);
    worker->lent--;
    worker_check_quit(worker);
}

/* A slot that was given to somebody who left in the meantime. */
static void give_back(struct hold *hold)
{
    struct wg_ticket *ticket = &hold->ticket;
    atomic_fetch_sub_explicit(&ticket->endpoint->tokens, (int64_t)ticket->tokens, memory_order_relaxed);
    if (wg_slots_release(&ticket->endpoint->slots, false, 0))
        wg_activator_freed(hold->worker->activator, ticket->model_id);
    ticket->endpoint = wg_endpoint_unref(ticket->endpoint);
}

static void dispatched(struct exchange *x, struct wg_endpoint *endpoint)
{
    x->endpoint = endpoint;
    wg_gauge_add(&exchange_model_metrics(x)->inflight, 1);
    forward_start(x);
}

static void on_verdict(struct wg_mail *mail, void *receiver)
{
    struct hold *hold = WG_CONTAINER_OF(mail, struct hold, ticket.mail);
    struct wg_ticket *ticket = &hold->ticket;
    struct exchange *x = hold->x;
    WG_ASSERT(receiver == hold->worker);
    hold->mail_home = true;
    if (!x) {
        if (ticket->verdict == WG_VERDICT_DISPATCH)
            give_back(hold);
        free_when_home(hold);
        return;
    }
    WG_CHECK_OBJ(x, EXCHANGE_MAGIC);
    x->hold = NULL;
    x->held_for += wg_loop_now(x->worker->loop) - x->held_at;
    x->waited_cold |= ticket->waited_cold;
    if (ticket->verdict == WG_VERDICT_DISPATCH) {
        dispatched(x, ticket->endpoint);
    } else {
        WG_ASSERT(ticket->verdict == WG_VERDICT_REFUSE);
        answer_refuse_retry(x, ticket->reason, ticket->message[0] ? ticket->message : NULL,
                            ticket->retry_after, ticket->retry_after == 0);
    }
    free_when_home(hold);
}

static void on_leave_home(struct wg_mail *mail, void *receiver WG_UNUSED)
{
    struct hold *hold = WG_CONTAINER_OF(mail, struct hold, ticket.leave);
    hold->leave_home = true;
    free_when_home(hold);
}

void hold_leave(struct exchange *x)
{
    struct hold *hold = x->hold;
    if (!hold)
        return;
    x->hold = NULL;
    hold->x = NULL;
    hold->leaving = true;
    wg_activator_leave(x->worker->activator, &hold->ticket);
}

static bool beats(const struct exchange *x)
{
    return x->streams && x->model->hold.heartbeat_after > 0;
}

/* hold.timeout, or less for a client that hears nothing and would give up by itself. */
static wg_usec cold_deadline(const struct exchange *x)
{
    wg_usec wait = x->model->hold.timeout;
    if (!beats(x)) {
        wait = WG_MIN(wait, x->model->hold.silent_timeout);
        wait = WG_MIN(wait, x->announced);
    }
    return wg_usec_add(x->arrived, wait);
}

static void lend(struct exchange *x)
{
    struct worker *worker = x->worker;
    struct hold *hold = WG_NEW(struct hold);
    struct wg_ticket *ticket = &hold->ticket;
    hold->worker = worker;
    hold->x = x;
    wg_mail_init(&ticket->mail, on_verdict);
    wg_mail_init(&ticket->leave, on_leave_home);
    ticket->home = worker->mailbox;
    ticket->model_id = x->routes->plan->model_ids[x->model->index];
    ticket->tenant = x->tenant;
    ticket->config = wg_config_ref(x->routes->plan->config);
    ticket->tokens = x->tokens;
    ticket->bytes = x->charged;
    ticket->arrived = x->arrived;
    ticket->cold_deadline = cold_deadline(x);
    ticket->client_wait = x->client_wait;
    ticket->may_wake = !x->no_wake;
    ticket->again = x->attempts > 0;
    ticket->waited_cold = x->waited_cold; /* keeps its clock when it comes again */
    x->hold = hold;
    worker->lent++;
    wg_activator_hold(worker->activator, ticket);
}

static struct wg_endpoint *take_slot(struct exchange *x)
{
    const struct wg_view *view = worker_view(x->worker, x->routes->plan->model_ids[x->model->index]);
    struct wg_endpoint *endpoint = view ? wg_view_take(view) : NULL;
    if (!endpoint)
        return NULL;
    atomic_fetch_add_explicit(&endpoint->tokens, (int64_t)x->tokens, memory_order_relaxed);
    return wg_endpoint_ref(endpoint);
}

/* Also for a request that had been forwarded: the model may be gone, and the wait a whole cold start. */
static void begin_hold(struct exchange *x)
{
    exchange_set_state(x, EXCHANGE_HELD);
    x->waited = true;
    x->held_at = wg_loop_now(x->worker->loop);
    if (beats(x) && x->heartbeat_at == WG_USEC_NEVER)
        exchange_set_heartbeat(x, wg_usec_add(x->arrived, x->model->hold.heartbeat_after));
}

/* Twice on the way: at the end of the body for the warm path, and at the end of the turn for the hold, so
 * that one that came and went within a turn never reaches control. */
void hold_or_forward(struct exchange *x)
{
    if (x->state == EXCHANGE_HELD) {
        lend(x);
        return;
    }
    struct wg_endpoint *endpoint = take_slot(x);
    if (endpoint) {
        dispatched(x, endpoint);
        return;
    }
    begin_hold(x);
    wg_loop_defer(x->worker->loop, &x->step);
}

void hold_again(struct exchange *x)
{
    if (x->state == EXCHANGE_HELD) { /* the pause is over */
        wg_loop_defer(x->worker->loop, &x->step);
        return;
    }
    exchange_give_back_slot(x);
    if (++x->attempts > ATTEMPTS_MAX) {
        answer_refuse(x, WG_REASON_UPSTREAM_ERROR, "The model server could not be reached.");
        return;
    }
    begin_hold(x);
    /* The first retry goes at once; an endpoint that keeps refusing must not be asked in a tight loop. */
    const wg_usec pause = x->attempts == 1 ? 0 : WG_MIN(AGAIN_FIRST << (x->attempts - 1), AGAIN_MOST);
    exchange_set_deadline(x, wg_usec_add(x->held_at, pause));
}

void hold_beat(struct exchange *x)
{
    if (!x->stream)
        return;
    const struct wg_stream_ops *ops = x->stream->ops;
    if (x->late == LATE_NOT) {
        struct wg_response response = {.status = 200, .body = WG_BODY_CLOSE};
        char timing[64];
        WG_ASSERT(wg_fields_add(&response.fields, WG_SLICE("Content-Type"), WG_SLICE("text/event-stream")) ==
                  0);
        WG_ASSERT(wg_fields_add(&response.fields, WG_SLICE("Cache-Control"), WG_SLICE("no-cache")) == 0);
        WG_ASSERT(wg_fields_add(&response.fields, WG_SLICE("X-Accel-Buffering"), WG_SLICE("no")) == 0);
        answer_add_common(x, &response.fields, timing);
        x->late = LATE_BEGUN;
        x->status = 200;
        ops->head(x->stream, &response);
    }
    const struct wg_slice beat = wg_heartbeat(x->api);
    ops->data(x->stream, beat.ptr, beat.len);
    exchange_set_heartbeat(x, wg_usec_add(wg_loop_now(x->worker->loop), x->model->hold.heartbeat_every));
}
