/* The tickets of a model: who may wait, for how long, and who is served next. Every ticket that is taken in
 * leaves by exactly one of dispatch, refusal and leave, and goes home exactly once. */
#include "model.h"

#include <stdarg.h>
#include <stdio.h>

#include "wakegate/base/quantity.h"

/* Retry-After, in seconds. */
enum { RETRY_NONE = 0, RETRY_MIN = 1, RETRY_DEFAULT = 5, RETRY_MAX = 59 };

/* ---- going home ---- */

static void send_home(struct wg_ticket *ticket, enum wg_verdict verdict)
{
    WG_ASSERT(!ticket->returned && !ticket->lane);
    wg_timer_cancel(&ticket->deadline);
    ticket->verdict = verdict;
    ticket->returned = true;
    ticket->mail.deliver = ticket->mail_home;
    wg_mailbox_post(ticket->home, &ticket->mail);
}

void wg_hold_refuse(struct wg_ticket *ticket, enum wg_reason reason, int retry_after, const char *message)
{
    ticket->reason = reason;
    ticket->retry_after = retry_after;
    (void)snprintf(ticket->message, sizeof(ticket->message), "%s", message ? message : "");
    send_home(ticket, WG_VERDICT_REFUSE);
}

/* What is left until the model should answer, in whole seconds. */
static int retry_after(const struct wg_model *model)
{
    const wg_usec eta = wg_model_eta(model);
    if (eta < 0 || model->state == WG_MODEL_WARM)
        return RETRY_DEFAULT;
    const wg_usec seconds = eta / WG_USEC_PER_SEC + (eta % WG_USEC_PER_SEC > 0);
    return (int)WG_MIN(WG_MAX(seconds, RETRY_MIN), RETRY_MAX);
}

/* A failed wake is not worth a retry; a busy model is, but not by all at once. */
static int retry_for(const struct wg_model *model, enum wg_reason reason)
{
    if (reason == WG_REASON_MODEL_WAKE_FAILED)
        return RETRY_NONE;
    if (reason == WG_REASON_MODEL_BUSY)
        return RETRY_MIN + (int)(model->queue.count % RETRY_DEFAULT);
    return retry_after(model);
}

static void refuse(struct wg_model *model, struct wg_ticket *ticket, enum wg_reason reason,
                   const char *format, ...) WG_PRINTF(4, 5);
static void refuse(struct wg_model *model, struct wg_ticket *ticket, enum wg_reason reason,
                   const char *format, ...)
{
    char message[sizeof(ticket->message)];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    wg_hold_refuse(ticket, reason, retry_for(model, reason), message);
}

/* ---- in and out of the queue ---- */

static void enqueue(struct wg_model *model, struct wg_ticket *ticket)
{
    wg_queue_add(&model->queue, ticket);
    wg_gauge_add(&model->metrics->held, 1);
    wg_gauge_add(&model->metrics->held_bytes, (int64_t)ticket->bytes);
}

static void left_queue(struct wg_model *model, const struct wg_ticket *ticket)
{
    wg_gauge_add(&model->metrics->held, -1);
    wg_gauge_add(&model->metrics->held_bytes, -(int64_t)ticket->bytes);
    wg_histogram_add(&model->metrics->hold, WG_MAX(wg_model_now(model) - ticket->arrived, 0));
}

static void dequeue(struct wg_model *model, struct wg_ticket *ticket)
{
    wg_queue_remove(&model->queue, ticket);
    left_queue(model, ticket);
}

/* When nothing waits any more, newcomers may take slots themselves again. */
static void after_queue(struct wg_model *model)
{
    if (model->queue.count > 0)
        return;
    wg_records_mark_waiters(&model->records, false);
    if (model->turnover == WG_TURNOVER_REMOVE && model->state == WG_MODEL_WARM)
        wg_turnover_begin(model);
}

void wg_hold_leave(struct wg_ticket *ticket)
{
    if (!ticket->returned) {
        struct wg_model *model = ticket->model;
        dequeue(model, ticket);
        send_home(ticket, WG_VERDICT_LEFT);
        after_queue(model);
    }
    /* From here on the ticket may be gone. */
    ticket->leave.deliver = ticket->leave_home;
    wg_mailbox_post(ticket->home, &ticket->leave);
}

void wg_hold_refuse_all(struct wg_model *model, enum wg_reason reason, const char *message)
{
    struct wg_ticket *ticket;
    while ((ticket = wg_queue_pop(&model->queue))) {
        left_queue(model, ticket);
        wg_hold_refuse(ticket, reason, retry_for(model, reason), message);
    }
    after_queue(model);
}

/* ---- clocks ---- */

static wg_usec client_limit(const struct wg_ticket *ticket)
{
    return ticket->client_wait == WG_USEC_NEVER ? WG_USEC_NEVER
                                                : wg_usec_add(ticket->arrived, ticket->client_wait);
}

static void arm(struct wg_model *model, struct wg_ticket *ticket)
{
    const wg_usec own = ticket->waited_cold ? ticket->cold_deadline
                                            : wg_usec_add(ticket->arrived, model->spec->hold.busy_timeout);
    wg_timer_set(&ticket->deadline, WG_MIN(own, client_limit(ticket)));
}

static void refuse_waking(struct wg_model *model, struct wg_ticket *ticket)
{
    refuse(model, ticket, WG_REASON_MODEL_COLD, "%s is not up, and this method does not wake it.",
           model->name);
}

static void expire_cold(struct wg_model *model, struct wg_ticket *ticket)
{
    if (!ticket->may_wake) {
        refuse_waking(model, ticket);
        return;
    }
    char waited[32];
    wg_duration_human(WG_MAX(wg_model_now(model) - ticket->arrived, 0), waited);
    struct wg_buf progress = WG_BUF_INIT(2048);
    wg_model_tell_progress(model, &progress);
    if (wg_model_now(model) >= ticket->cold_deadline)
        refuse(model, ticket, WG_REASON_MODEL_WAKE_TIMEOUT, "%s did not start within %s: %s", model->name,
               waited, wg_buf_str(&progress));
    else
        refuse(model, ticket, WG_REASON_MODEL_COLD,
               "%s is not up after %s, for as long as the client was ready to wait: %s", model->name, waited,
               wg_buf_str(&progress));
    wg_buf_clear(&progress);
}

static void on_deadline(struct wg_timer *timer)
{
    struct wg_ticket *ticket = WG_CONTAINER_OF(timer, struct wg_ticket, deadline);
    struct wg_model *model = ticket->model;
    WG_CHECK_OBJ(model, WG_MODEL_MAGIC);
    dequeue(model, ticket);
    if (model->state == WG_MODEL_WARM)
        wg_hold_refuse(ticket, WG_REASON_MODEL_BUSY, retry_for(model, WG_REASON_MODEL_BUSY), NULL);
    else
        expire_cold(model, ticket);
    after_queue(model);
}

static void turn_cold(struct wg_ticket *ticket, void *arg)
{
    ticket->waited_cold = true;
    if (ticket->may_wake)
        arm(WG_CAST(wg_model, arg, WG_MODEL_MAGIC), ticket);
    else
        wg_timer_set(&ticket->deadline, 0); /* it waited for a slot, not for a start */
}

void wg_hold_turn_cold(struct wg_model *model)
{
    wg_queue_each(&model->queue, turn_cold, model);
}

/* ---- at the door: each check answers true when it has refused ---- */

static bool check_shutting(struct wg_model *model, struct wg_ticket *ticket)
{
    if (!model->activator->shutting)
        return false;
    wg_hold_refuse(ticket, WG_REASON_SHUTTING_DOWN, RETRY_DEFAULT, NULL);
    return true;
}

static bool check_removed(struct wg_model *model, struct wg_ticket *ticket)
{
    if (model->agent.handle && model->turnover != WG_TURNOVER_REMOVE)
        return false;
    wg_hold_refuse(ticket, WG_REASON_MODEL_NOT_FOUND, RETRY_NONE, NULL);
    return true;
}

static bool check_may_wake(struct wg_model *model, struct wg_ticket *ticket)
{
    if (ticket->may_wake || model->state == WG_MODEL_WARM)
        return false;
    refuse_waking(model, ticket);
    return true;
}

static bool check_backoff(struct wg_model *model, struct wg_ticket *ticket)
{
    const wg_usec left = model->retry_at - wg_model_now(model);
    if (model->state != WG_MODEL_FAILED || left <= 0)
        return false;
    char human[32];
    wg_duration_human(left, human);
    refuse(model, ticket, WG_REASON_MODEL_WAKE_FAILED,
           "%s could not be started: %.200s. It is not tried again for %s.", model->name, model->reason,
           human);
    return true;
}

static bool check_room(struct wg_model *model, struct wg_ticket *ticket)
{
    const struct wg_queue *queue = &model->queue;
    const uint64_t max_bytes = model->spec->hold.max_bytes;
    if (ticket->again || (queue->count < model->spec->hold.max_requests && queue->bytes <= max_bytes &&
                          ticket->bytes <= max_bytes - queue->bytes))
        return false;
    refuse(model, ticket, WG_REASON_HOLD_FULL, "%s", "");
    return true;
}

/* A wait that cannot be enough is not begun; the wake is, for those who come back. */
static bool check_patience(struct wg_model *model, struct wg_ticket *ticket)
{
    const wg_usec eta = wg_model_eta(model);
    if (model->state == WG_MODEL_WARM || ticket->client_wait == WG_USEC_NEVER || eta < 0 ||
        client_limit(ticket) >= wg_model_now(model) + eta)
        return false;
    char wait[32], expected[32];
    wg_duration_human(ticket->client_wait, wait);
    wg_duration_human(eta, expected);
    wg_model_wake(model);
    refuse(model, ticket, WG_REASON_MODEL_COLD,
           "%s is starting and should answer in %s; the client is ready to wait for %s.", model->name,
           expected, wait);
    return true;
}

static bool (*const checks[])(struct wg_model *model, struct wg_ticket *ticket) = {
    check_shutting, check_removed, check_may_wake, check_backoff, check_room, check_patience,
};

void wg_hold_prepare(struct wg_ticket *ticket, struct wg_loop *loop)
{
    ticket->verdict = WG_VERDICT_NONE;
    ticket->returned = false;
    ticket->endpoint = NULL;
    ticket->lane = NULL;
    ticket->model = NULL;
    wg_timer_init(&ticket->deadline, loop, on_deadline);
}

void wg_hold_ticket(struct wg_model *model, struct wg_ticket *ticket)
{
    ticket->model = model;
    ticket->waited_cold = (ticket->again && ticket->waited_cold) || model->state != WG_MODEL_WARM;
    for (size_t i = 0; i < WG_COUNT_OF(checks); i++)
        if (checks[i](model, ticket))
            return;
    enqueue(model, ticket);
    arm(model, ticket);
    wg_model_wake(model);
    wg_hold_dispatch(model);
}

/* ---- serving ---- */

static void dispatch(struct wg_model *model, struct wg_ticket *ticket, struct wg_endpoint *endpoint)
{
    left_queue(model, ticket);
    atomic_fetch_add_explicit(&endpoint->tokens, (int64_t)ticket->tokens, memory_order_relaxed);
    ticket->endpoint = wg_endpoint_ref(endpoint);
    send_home(ticket, WG_VERDICT_DISPATCH);
}

void wg_hold_dispatch(struct wg_model *model)
{
    if (model->queue.count == 0)
        return;
    /* Marked before looking: a slot that is given back from now on is either seen below, or told by its
     * releaser. */
    wg_records_mark_waiters(&model->records, true);
    struct wg_endpoint *endpoint;
    while (model->queue.count > 0 && (endpoint = wg_records_take(&model->records)))
        dispatch(model, wg_queue_pop(&model->queue), endpoint);
    after_queue(model);
}
