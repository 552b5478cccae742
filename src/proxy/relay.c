/* The answer's way from the model to the client, byte for byte and at once, with back-pressure; and what each
 * kind of broken back means: sent again if it provably never ran, else told to the client so that nothing cut
 * looks whole. */
#include "exchange.h"

#include <stdio.h>

#define LATE_NO_STREAM "The model server's answer is no event stream."

static void note_failure(struct exchange *x)
{
    if (!x->endpoint)
        return;
    const unsigned failures = atomic_fetch_add_explicit(&x->endpoint->failures, 1, memory_order_relaxed) + 1;
    if (failures % WG_ENDPOINT_FAILURES == 0)
        wg_activator_suspect(x->worker->activator, x->routes->plan->model_ids[x->model->index], x->endpoint);
}

static void note_success(struct exchange *x)
{
    x->healthy = true;
    if (x->endpoint && atomic_load_explicit(&x->endpoint->failures, memory_order_relaxed) != 0)
        atomic_store_explicit(&x->endpoint->failures, 0, memory_order_relaxed);
}

static void set_detail(struct exchange *x, const char *why)
{
    snprintf(x->detail_text, sizeof(x->detail_text), "%s", why);
    x->detail = x->detail_text;
}

static wg_usec in_future(const struct exchange *x, wg_usec wait)
{
    return wg_usec_add(wg_loop_now(x->worker->loop), wait);
}

static void on_connected(void *arg)
{
    struct exchange *x = WG_CAST(exchange, arg, EXCHANGE_MAGIC);
    exchange_set_state(x, EXCHANGE_SEND);
    exchange_set_deadline(x, in_future(x, x->model->timeouts.first_byte));
}

static bool is_event_stream(const struct wg_response *response)
{
    const struct wg_field *type = wg_fields_get(&response->fields, WG_TOKEN_CONTENT_TYPE);
    const struct wg_slice want = WG_SLICE("text/event-stream");
    return type && type->value.len >= want.len &&
           wg_slice_eq_nocase(wg_slice(type->value.ptr, want.len), want);
}

/* The client gets the model's head as it is, but for hop-by-hop fields and ours. */
static void pass_head(struct exchange *x, const struct wg_response *response)
{
    struct wg_response out = {
        .status = response->status, .body = response->body, .content_length = response->content_length};
    char timing[64];
    for (unsigned i = 0; i < response->fields.n; i++) {
        const struct wg_field *field = &response->fields.items[i];
        const bool dropped = field->hop || field->token == WG_TOKEN_X_REQUEST_ID ||
                             (wg_token_flags(field->token) & (WG_FIELD_HOP | WG_FIELD_FRAMING));
        if (!dropped && out.fields.n < WG_FIELDS_MAX - 2)
            out.fields.items[out.fields.n++] = *field;
    }
    answer_add_common(x, &out.fields, timing);
    x->status = response->status;
    if (out.body == WG_BODY_NONE) {
        /* Nothing follows; the end of the back's answer settles. */
        struct wg_stream *stream = x->stream;
        x->stream = NULL;
        stream->ops->head(stream, &out);
    } else {
        x->stream->ops->head(x->stream, &out);
    }
}

static void on_head(void *arg, const struct wg_response *response)
{
    struct exchange *x = WG_CAST(exchange, arg, EXCHANGE_MAGIC);
    x->first_byte_at = wg_loop_now(x->worker->loop);
    if (response->status >= 500)
        note_failure(x);
    else
        note_success(x);
    exchange_set_state(x, EXCHANGE_RELAY);
    exchange_set_heartbeat(x, WG_USEC_NEVER);
    exchange_set_deadline(x, in_future(x, x->model->timeouts.idle));
    if (wg_back_sent(x->back))
        exchange_free_request(x);
    if (x->late == LATE_BEGUN && wg_fields_get(&response->fields, WG_TOKEN_CONTENT_ENCODING)) {
        x->healthy = false;
        answer_refuse(x, WG_REASON_UPSTREAM_ERROR,
                      "The model server sent an encoded answer that nobody asked it for.");
        return;
    }
    if (x->late == LATE_NOT) {
        pass_head(x, response);
    } else if (response->status / 100 != 2 || !is_event_stream(response)) {
        x->late = LATE_FAILED;
        x->healthy = false;
        snprintf(x->detail_text, sizeof(x->detail_text), "the model server answered %d", response->status);
        x->detail = x->detail_text;
    }
}

/* The answer had begun with a heartbeat: the failure is an event, told in the path's own shape. */
static void end_late(struct exchange *x, const char *fallback)
{
    struct wg_buf text = WG_BUF_INIT(1024);
    wg_error_text(wg_buf_slice(&x->late_text), 512, &text);
    answer_refuse(x, WG_REASON_UPSTREAM_ERROR, text.len > 0 ? wg_buf_str(&text) : fallback);
    wg_buf_clear(&text);
}

/* As much as the message needs: the client waits for it, and the answer may be long or never end. */
static void collect_late(struct exchange *x, const char *data, size_t len)
{
    const size_t room = x->late_text.max - x->late_text.len;
    wg_buf_add(&x->late_text, data, WG_MIN(len, room));
    if (len >= room)
        end_late(x, LATE_NO_STREAM);
}

static void on_data(void *arg, const char *data, size_t len)
{
    struct exchange *x = WG_CAST(exchange, arg, EXCHANGE_MAGIC);
    if (x->late == LATE_FAILED) {
        collect_late(x, data, len);
        return;
    }
    x->deadline = in_future(x, x->model->timeouts.idle); /* the timer finds out when it fires */
    if (!x->stream)
        return;
    x->answered += len;
    x->stream->ops->data(x->stream, data, len);
    if (x->stream && x->stream->ops->pending(x->stream) > WG_PENDING_HIGH) {
        wg_back_pause(x->back, true);
        exchange_set_deadline(x, WG_USEC_NEVER); /* it is the client who is slow: the front's clock runs */
    }
}

static void on_end(void *arg, const struct wg_fields *trailers)
{
    struct exchange *x = WG_CAST(exchange, arg, EXCHANGE_MAGIC);
    x->back = NULL;
    if (x->late == LATE_FAILED) {
        end_late(x, LATE_NO_STREAM);
        return;
    }
    struct wg_stream *stream = x->stream;
    exchange_settle(x, WG_OUTCOME_OK);
    if (stream)
        stream->ops->end(stream, trailers);
}

/* After the head: the client must see that it is cut. */
static void break_off(struct exchange *x, enum wg_reason outcome)
{
    struct wg_stream *stream = x->stream;
    x->healthy = false;
    exchange_settle(x, (int)outcome);
    if (stream)
        stream->ops->abort(stream);
}

static void on_error(void *arg, enum wg_back_error error, const char *why)
{
    struct exchange *x = WG_CAST(exchange, arg, EXCHANGE_MAGIC);
    x->back = NULL;
    set_detail(x, why);
    note_failure(x);
    switch (error) {
    case WG_BACK_CONNECT:
    case WG_BACK_UNSENT:
        hold_again(x);
        break;
    case WG_BACK_RESET:
        answer_refuse(x, WG_REASON_UPSTREAM_ERROR,
                      "The model server closed the connection without an answer.");
        break;
    case WG_BACK_BAD:
        answer_refuse(x, WG_REASON_UPSTREAM_ERROR, "The model server's answer is not valid HTTP.");
        break;
    case WG_BACK_BROKEN:
        if (x->late == LATE_FAILED)
            end_late(x, "The model server broke off.");
        else
            break_off(x, WG_REASON_UPSTREAM_ERROR);
        break;
    }
}

const struct wg_back_handler relay_handler = {
    .connected = on_connected,
    .head = on_head,
    .data = on_data,
    .end = on_end,
    .error = on_error,
};

void relay_drained(void *arg)
{
    struct exchange *x = WG_CAST(exchange, arg, EXCHANGE_MAGIC);
    if (!x->back || x->state != EXCHANGE_RELAY)
        return;
    exchange_set_deadline(x, in_future(x, x->model->timeouts.idle));
    wg_back_pause(x->back, false);
}

void relay_timed_out(struct exchange *x)
{
    note_failure(x);
    if (x->state == EXCHANGE_SEND) {
        set_detail(x, "no answer within timeouts.firstByte");
        answer_refuse(x, WG_REASON_UPSTREAM_TIMEOUT, NULL);
    } else if (x->state == EXCHANGE_RELAY) {
        set_detail(x, "the answer stood still for longer than timeouts.idle");
        if (x->late == LATE_FAILED)
            end_late(x, "The model server broke off.");
        else
            break_off(x, WG_REASON_UPSTREAM_TIMEOUT);
    }
}
