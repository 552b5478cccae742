/* Our own answers: refusals in the path's shape, plain JSON, and the fields that each answer carries. */
#include "exchange.h"

#include <stdio.h>

#define BODY_MAX 8192

static void add(struct wg_fields *fields, const char *name, const char *value)
{
    WG_ASSERT(wg_fields_add(fields, wg_slice_str(name), wg_slice_str(value)) == 0);
}

void answer_add_common(struct exchange *x, struct wg_fields *fields, char timing[static 64])
{
    add(fields, "X-Request-Id", x->id);
    if (!x->waited || x->hold)
        return;
    snprintf(timing, 64, "hold;dur=%lld;desc=\"%s\"", (long long)(x->held_for / WG_USEC_PER_MSEC),
             x->waited_cold ? "cold" : "busy");
    add(fields, "Server-Timing", timing);
}

/* Settles first: the slot and the place are free before the client can come again. */
static void send_json(struct exchange *x, int outcome, struct wg_response *response, struct wg_buf *body)
{
    struct wg_stream *stream = x->stream;
    char timing[64];
    add(&response->fields, "Content-Type", "application/json");
    answer_add_common(x, &response->fields, timing);
    response->body = WG_BODY_LENGTH;
    response->content_length = body->len;
    x->status = response->status;
    x->answered = body->len;
    exchange_settle(x, outcome);
    if (!stream)
        return;
    stream->ops->head(stream, response);
    stream->ops->data(stream, body->data, body->len);
    stream->ops->end(stream, NULL);
}

void answer_json(struct exchange *x, struct wg_buf *body)
{
    struct wg_response response = {.status = 200};
    WG_ASSERT(!body->failed);
    send_json(x, WG_OUTCOME_OK, &response, body);
    wg_buf_clear(body);
}

/* A heartbeat has sent 200 already: one event says what went wrong, and the stream ends without [DONE]. */
static void refuse_late(struct exchange *x, enum wg_reason reason, const char *message)
{
    struct wg_stream *stream = x->stream;
    struct wg_buf event = WG_BUF_INIT(BODY_MAX);
    wg_error_event(&event, x->api, reason, message, wg_slice_str(x->id));
    exchange_settle(x, (int)reason);
    if (stream) {
        stream->ops->data(stream, event.data, event.len);
        stream->ops->end(stream, NULL);
    }
    wg_buf_clear(&event);
}

static void refuse(struct exchange *x, enum wg_reason reason, const char *message,
                   struct wg_response *response)
{
    if (x->late != LATE_NOT) {
        refuse_late(x, reason, message);
        return;
    }
    struct wg_buf body = WG_BUF_INIT(BODY_MAX);
    const bool about_model = reason == WG_REASON_MODEL_NOT_FOUND;
    wg_error_body(&body, x->api, reason, message, about_model ? "model" : NULL, wg_slice_str(x->id));
    response->status = wg_reason_info(reason)->status;
    send_json(x, (int)reason, response, &body);
    wg_buf_clear(&body);
}

void answer_refuse(struct exchange *x, enum wg_reason reason, const char *message)
{
    struct wg_response response = {0};
    if (reason == WG_REASON_INVALID_API_KEY)
        add(&response.fields, "WWW-Authenticate", "Bearer");
    refuse(x, reason, message, &response);
}

void answer_refuse_retry(struct exchange *x, enum wg_reason reason, const char *message, int retry_after,
                         bool never_retry)
{
    struct wg_response response = {0};
    char seconds[16];
    if (retry_after > 0) {
        snprintf(seconds, sizeof(seconds), "%d", retry_after);
        add(&response.fields, "Retry-After", seconds);
    }
    if (never_retry)
        add(&response.fields, "X-Should-Retry", "false");
    refuse(x, reason, message, &response);
}

void answer_refuse_method(struct exchange *x, const char *allow)
{
    struct wg_response response = {0};
    add(&response.fields, "Allow", allow);
    refuse(x, WG_REASON_METHOD_NOT_ALLOWED, NULL, &response);
}

void answer_malformed(void *owner WG_UNUSED, struct wg_front *front WG_UNUSED, int status, const char *why,
                      struct wg_buf *body)
{
    const enum wg_reason reason = status == 431   ? WG_REASON_HEADERS_TOO_LARGE
                                  : status == 408 ? WG_REASON_REQUEST_TIMEOUT
                                                  : WG_REASON_INVALID_REQUEST;
    char message[256];
    snprintf(message, sizeof(message), "The request could not be read: %s.", why);
    wg_error_body(body, WG_API_OPENAI, reason, message, NULL, WG_SLICE(""));
    wg_count(&wg_metrics_model(NULL)->requests[reason]);
}
