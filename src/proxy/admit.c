/* The checks of a request, in the contract's order: at the head framing (the front's), route, key, size; at
 * the end of the body JSON, model, permission. What passes is held or forwarded; a refusal is sent before the
 * rest of the body is read. */
#include "exchange.h"

#include "wakegate/tenant.h"

#include <stdio.h>
#include <stdlib.h>

#define CHARGE_STEP (16 * 1024) /* held bytes of a body of unknown length are taken in steps */

/* ---- at the head ---- */

static void note_credential(struct wg_slice *slot, bool *conflict, struct wg_slice value)
{
    if (slot->ptr && !wg_slice_eq(*slot, value))
        *conflict = true;
    *slot = value;
}

static struct wg_credentials credentials_of(const struct wg_fields *fields)
{
    struct wg_credentials found = {0};
    for (unsigned i = 0; i < fields->n; i++) {
        const struct wg_field *field = &fields->items[i];
        if (field->token == WG_TOKEN_AUTHORIZATION)
            note_credential(&found.authorization, &found.conflict, field->value);
        else if (field->token == WG_TOKEN_X_API_KEY)
            note_credential(&found.x_api_key, &found.conflict, field->value);
        else if (field->token == WG_TOKEN_API_KEY)
            note_credential(&found.api_key, &found.conflict, field->value);
    }
    return found;
}

static bool check_key(struct exchange *x, const struct wg_request *request)
{
    struct wg_credentials credentials = credentials_of(&request->fields);
    credentials.sans = wg_front_sans(x->stream->front);
    switch (wg_tenant_identify(exchange_config(x), &credentials, &x->tenant)) {
    case WG_IDENTITY_TENANT:
        return true;
    case WG_IDENTITY_CONFLICT:
        answer_refuse(
            x, WG_REASON_INVALID_REQUEST,
            "The request's API keys, or its key and the client's certificate, are not of one tenant.");
        return false;
    case WG_IDENTITY_UNKNOWN:
        break;
    }
    answer_refuse(x, WG_REASON_INVALID_API_KEY, NULL);
    return false;
}

static bool is_method(const struct wg_request *request, const char *method)
{
    return wg_slice_eq(request->method, wg_slice_str(method));
}

static bool check_method(struct exchange *x, const struct wg_request *request, enum route_kind kind)
{
    const bool reads = is_method(request, "GET") || is_method(request, "HEAD");
    if (kind == ROUTE_API && !is_method(request, "POST")) {
        answer_refuse_method(x, "POST");
        return false;
    }
    if ((kind == ROUTE_LIST || kind == ROUTE_ENTRY) && !reads) {
        answer_refuse_method(x, "GET, HEAD");
        return false;
    }
    x->no_wake = reads || is_method(request, "OPTIONS");
    return true;
}

/* Tunnels and echoes are served on no path. */
static bool refuse_tunnel(struct exchange *x, const struct wg_request *request)
{
    if (!is_method(request, "CONNECT") && !is_method(request, "TRACE"))
        return false;
    answer_refuse_method(x, "GET, HEAD, POST");
    return true;
}

static bool check_encoding(struct exchange *x, const struct wg_request *request)
{
    const struct wg_field *field = wg_fields_get(&request->fields, WG_TOKEN_CONTENT_ENCODING);
    if (!field || field->value.len == 0 || wg_slice_eq_nocase(field->value, WG_SLICE("identity")))
        return true;
    answer_refuse(x, WG_REASON_UNSUPPORTED_ENCODING, NULL);
    return false;
}

static void refuse_size(struct exchange *x, uint64_t max)
{
    char message[128];
    snprintf(message, sizeof(message), "The request body is larger than the %llu bytes allowed.",
             (unsigned long long)max);
    answer_refuse(x, WG_REASON_BODY_TOO_LARGE, message);
}

/* The limit that is known by now: the model's own, or the largest of the tenant's models. */
static uint64_t body_limit(const struct exchange *x)
{
    return x->model ? x->model->max_body_bytes : x->routes->max_body[x->tenant->index];
}

/* Takes `bytes` more of limits.maxHeldBytes; all or nothing. */
static bool charge(struct exchange *x, uint64_t bytes)
{
    struct wg_process_metrics *process = wg_metrics_process();
    const int64_t before =
        atomic_fetch_add_explicit(&process->held_bytes, (int64_t)bytes, memory_order_relaxed);
    if ((uint64_t)before + bytes <= exchange_config(x)->limits.max_held_bytes) {
        x->charged += bytes;
        return true;
    }
    wg_gauge_add(&process->held_bytes, -(int64_t)bytes);
    answer_refuse_retry(
        x, WG_REASON_HOLD_FULL,
        "Requests that wait or still arrive take all the memory that limits.maxHeldBytes allows. "
        "Try again shortly.",
        5, false);
    return false;
}

static bool charge_body(struct exchange *x, uint64_t bytes)
{
    if (!charge(x, bytes))
        return false;
    x->room += bytes;
    return true;
}

/* Over HTTP/2 a large head may cost its client some bytes (HPACK): what is kept of it counts like the body.
 */
static bool charge_head(struct exchange *x)
{
    return charge(x, x->head.cap + strlen(x->path) + (x->accept_encoding ? strlen(x->accept_encoding) : 0));
}

static bool check_size(struct exchange *x, const struct wg_request *request)
{
    if (request->body != WG_BODY_LENGTH)
        return true;
    x->declared = request->content_length;
    if (x->declared > body_limit(x)) {
        refuse_size(x, body_limit(x));
        return false;
    }
    return x->declared == 0 || charge_body(x, x->declared);
}

/* What reads the body: multipart where the type says so, else JSON; a named model's body may be neither, its
 * first byte tells. */
static void choose_reader(struct exchange *x, const struct wg_request *request, enum route_kind kind)
{
    const struct wg_field *type = wg_fields_get(&request->fields, WG_TOKEN_CONTENT_TYPE);
    if (type)
        x->multipart = wg_multipart_new(type->value);
    if (x->multipart || request->body == WG_BODY_NONE)
        return;
    if (kind == ROUTE_API)
        x->skim = worker_take_skim(x->worker);
    else
        x->sniff = true;
}

static bool is_trusted(const struct exchange *x)
{
    const struct wg_config *config = exchange_config(x);
    return config->n_trusted_peers > 0 &&
           wg_cidr_contains(config->trusted_peers, config->n_trusted_peers,
                            (const struct sockaddr *)wg_front_peer(x->stream->front));
}

/* The gateway in front has read the body already and tells the model. */
static bool take_gateway_model(struct exchange *x, const struct wg_request *request, bool trusted)
{
    const struct wg_field *field = wg_fields_get(&request->fields, WG_TOKEN_X_GATEWAY_MODEL_NAME);
    if (!trusted || !field || x->model)
        return true;
    x->model = wg_config_model(exchange_config(x), field->value);
    x->named = x->model != NULL;
    if (!x->model)
        answer_refuse(x, WG_REASON_MODEL_NOT_FOUND, NULL);
    return x->model != NULL;
}

static bool check_model(struct exchange *x)
{
    if (!wg_config_tenant_may(x->tenant, x->model)) {
        answer_refuse(x, WG_REASON_MODEL_NOT_ALLOWED, NULL);
        return false;
    }
    if (!wg_config_path_allowed(x->model, wg_slice_str(x->path))) {
        answer_refuse(x, WG_REASON_NOT_FOUND, "This model does not serve this path.");
        return false;
    }
    return true;
}

/* `kind`: what is refused, at its place among the checks: a name only behind the key, or names could be tried
 * without one. */
static bool refuse_route(struct exchange *x, const struct route *route, enum route_kind kind,
                         enum wg_reason reason)
{
    if (route->kind != kind)
        return false;
    answer_refuse(x, reason, NULL);
    return true;
}

static void admit_inference(struct exchange *x, const struct wg_request *request, const struct route *route)
{
    const bool trusted = is_trusted(x);
    free(x->path);
    x->path = wg_slice_dup(route->rest);
    if (route->kind == ROUTE_NAMED) {
        x->model = route->model;
        x->named = true;
    }
    if (!take_gateway_model(x, request, trusted))
        return;
    if (x->model && !check_model(x))
        return;
    if (!check_encoding(x, request) || !check_size(x, request))
        return;
    x->client_wait = patience_prefer(&request->fields);
    x->announced = patience_announced(&request->fields);
    choose_reader(x, request, route->kind);
    forward_prepare(x, request, route->rest, trusted, wg_front_peer(x->stream->front));
    if (x->head.failed) {
        answer_refuse(x, WG_REASON_HEADERS_TOO_LARGE, NULL);
        return;
    }
    if (!charge_head(x))
        return;
    exchange_set_state(x, EXCHANGE_BODY);
    x->stream->ops->want_body(x->stream);
}

static void note_request(struct exchange *x, const struct wg_request *request)
{
    const size_t len = WG_MIN(request->method.len, sizeof(x->method) - 1);
    memcpy(x->method, request->method.ptr, len);
    x->api = wg_api_of_path(request->path);
    x->path = wg_slice_dup(request->path);
    const struct wg_field *id = wg_fields_get(&request->fields, WG_TOKEN_X_REQUEST_ID);
    if (id && id->value.len > 0 && id->value.len < sizeof(x->id) && !wg_slice_has_control(id->value)) {
        memcpy(x->id, id->value.ptr, id->value.len);
        return;
    }
    snprintf(x->id, sizeof(x->id), "%016llx%016llx", (unsigned long long)worker_random(x->worker),
             (unsigned long long)worker_random(x->worker));
}

void *admit_head(void *owner, struct wg_stream *stream, const struct wg_request *request)
{
    struct exchange *x = exchange_new(client_worker(owner), stream);
    const struct route route = routes_find(x->routes, request->path);
    note_request(x, request);
    if (route.rest.ptr)
        x->api = wg_api_of_path(route.rest);
    if (refuse_tunnel(x, request) || refuse_route(x, &route, ROUTE_NONE, WG_REASON_NOT_FOUND) ||
        !check_method(x, request, route.kind) || !check_key(x, request) ||
        refuse_route(x, &route, ROUTE_UNKNOWN, WG_REASON_MODEL_NOT_FOUND))
        return x;
    if (route.kind == ROUTE_LIST) {
        models_list(x);
    } else if (route.kind == ROUTE_ENTRY) {
        if (wg_config_tenant_may(x->tenant, route.model))
            models_entry(x, route.model);
        else
            answer_refuse(x, WG_REASON_MODEL_NOT_ALLOWED, NULL);
    } else {
        admit_inference(x, request, &route);
    }
    return x;
}

/* ---- the body ---- */

static void refuse_body(struct exchange *x, const char *why)
{
    char message[512];
    snprintf(message, sizeof(message), "The request body could not be read: %s.", why);
    answer_refuse(x, WG_REASON_INVALID_REQUEST, message);
}

static bool looks_like_json(const char *data, size_t len)
{
    size_t i = 0;
    while (i < len && strchr(" \t\r\n", data[i]) && data[i])
        i++;
    return i == len || data[i] == '{' || data[i] == '[';
}

static const char *feed_reader(struct exchange *x, const char *data, size_t len)
{
    if (x->sniff && looks_like_json(data, len))
        x->skim = worker_take_skim(x->worker);
    x->sniff = false;
    if (x->skim && wg_skim_feed(x->skim, data, len) < 0)
        return wg_skim_error(x->skim);
    if (x->multipart && wg_multipart_feed(x->multipart, data, len) < 0)
        return wg_multipart_error(x->multipart);
    return NULL;
}

/* The limits of the model apply as soon as its name is read. */
static bool learn_model(struct exchange *x)
{
    const struct wg_skim_result *seen = exchange_skimmed(x);
    if (x->model || !seen || !seen->has_model)
        return true;
    x->model = wg_config_model(exchange_config(x), wg_slice(seen->model, seen->model_len));
    if (x->model && WG_MAX(x->declared, x->received) > x->model->max_body_bytes) {
        refuse_size(x, x->model->max_body_bytes);
        return false;
    }
    return true;
}

void admit_body(void *arg, const char *data, size_t len)
{
    struct exchange *x = WG_CAST(exchange, arg, EXCHANGE_MAGIC);
    if (x->state != EXCHANGE_BODY)
        return;
    x->received += len;
    if (x->received > body_limit(x)) {
        refuse_size(x, body_limit(x));
        return;
    }
    if (x->received > x->room &&
        !charge_body(x, (x->received - x->room + CHARGE_STEP - 1) / CHARGE_STEP * CHARGE_STEP))
        return;
    const char *why = feed_reader(x, data, len);
    if (why) {
        refuse_body(x, why);
        return;
    }
    if (learn_model(x))
        wg_chain_append(&x->body, x->worker->pool, data, len);
}

static const char *finish_reader(struct exchange *x)
{
    if (x->skim && wg_skim_finish(x->skim) < 0)
        return wg_skim_error(x->skim);
    if (x->multipart && wg_multipart_finish(x->multipart) < 0)
        return wg_multipart_error(x->multipart);
    return NULL;
}

/* A path or gateway that names the model, and a body that names another one: nobody may slip past the limits
 * of either. */
static bool agrees(const struct exchange *x, const struct wg_skim_result *seen)
{
    if (!x->named || !seen || !seen->has_model)
        return true;
    const struct wg_slice name = wg_slice(seen->model, seen->model_len);
    return wg_config_model(exchange_config(x), name) == x->model ||
           wg_slice_eq(name, wg_slice_str(x->model->upstream_model));
}

static void refuse_unknown(struct exchange *x, const char *name)
{
    char message[WG_MODEL_NAME_MAX + 128];
    snprintf(message, sizeof(message),
             "The model `%s` does not exist here. GET /v1/models lists those that do.", name);
    answer_refuse(x, WG_REASON_MODEL_NOT_FOUND, message);
}

/* JSON, then the model: known, and allowed. False: refused. */
static bool check_body(struct exchange *x)
{
    const char *why = finish_reader(x);
    if (why) {
        refuse_body(x, why);
        return false;
    }
    const struct wg_skim_result *seen = exchange_skimmed(x);
    if (!agrees(x, seen)) {
        answer_refuse(x, WG_REASON_INVALID_REQUEST, "The body names another model than the request.");
        return false;
    }
    if (!x->named && (!seen || !seen->has_model)) {
        answer_refuse(x, WG_REASON_INVALID_REQUEST, "The request body names no model.");
        return false;
    }
    if (!x->model) {
        refuse_unknown(x, seen->model);
        return false;
    }
    return x->named || check_model(x);
}

void admit_body_end(void *arg, const struct wg_fields *trailers WG_UNUSED)
{
    struct exchange *x = WG_CAST(exchange, arg, EXCHANGE_MAGIC);
    if (x->state != EXCHANGE_BODY || !check_body(x))
        return;
    const struct wg_skim_result *seen = exchange_skimmed(x);
    const struct wg_config *config = exchange_config(x);
    if (seen) {
        x->streams = seen->stream && x->skim;
        x->tokens = wg_tokens_estimate(seen, config->tokens.default_max_tokens, config->tokens.per_image,
                                       wg_path_answers(wg_slice_str(x->path)));
        forward_edit_body(x);
    }
    worker_give_skim(x->worker, x->skim);
    x->skim = NULL;
    x->multipart = wg_multipart_free(x->multipart);
    hold_or_forward(x);
}

void admit_body_failed(void *arg, const char *why)
{
    struct exchange *x = WG_CAST(exchange, arg, EXCHANGE_MAGIC);
    if (x->state == EXCHANGE_BODY)
        refuse_body(x, why);
}

void admit_body_stalled(void *arg)
{
    struct exchange *x = WG_CAST(exchange, arg, EXCHANGE_MAGIC);
    if (x->state == EXCHANGE_BODY)
        answer_refuse(x, WG_REASON_REQUEST_TIMEOUT, NULL);
}
