/* One request to the admin: checked at its head, acted upon at its end, answered at once or by mail from
 * control. The client may leave while control has the question: so a request is counted, once for its stream
 * and once while it is lent. */
#include "server.h"

#include <errno.h>
#include <stdlib.h>

#include "json_out.h"
#include "refusal.h"
#include "routes.h"
#include "status_json.h"
#include "wakegate/base/log.h"
#include "wakegate/tenant.h"

#define REQUEST_MAGIC 0x61727173U
#define PAGE_MAX      ((size_t)64 * 1024 * 1024)

struct admin_request {
    uint32_t magic;
    unsigned refs;
    struct wg_admin *admin;
    struct wg_list link;
    struct wg_stream *stream; /* NULL once it is answered or gone */
    const struct admin_route *route;
    char *model; /* the configured name, if the route names one */
    bool refused;
    struct admin_refusal refusal; /* found at the head */
    size_t body_len;
    struct wg_deferred turn_end; /* leaves the front's callback before it answers, and before it is freed */
    struct wg_status status;     /* one of the two is lent to control */
    struct wg_order order;
};

/* ---- life ---- */

/* Needs no server any more: it is in no list of it. */
static void run_free(struct wg_deferred *deferred)
{
    struct admin_request *request = WG_CONTAINER_OF(deferred, struct admin_request, turn_end);

    wg_status_clear(&request->status);
    free(request->model);
    request->magic = 0;
    free(request);
}

/* The last one leaves it to the end of the turn. */
static void request_unref(struct admin_request *request)
{
    WG_ASSERT(request->refs > 0);
    if (--request->refs > 0)
        return;
    wg_list_remove(&request->link);
    wg_deferred_cancel(&request->turn_end);
    wg_deferred_init(&request->turn_end, run_free);
    wg_loop_reap(request->admin->loop, &request->turn_end);
}

void admin_requests_free(struct wg_admin *admin)
{
    while (!wg_list_empty(&admin->requests)) {
        struct admin_request *request =
            WG_LIST_ENTRY(wg_list_first(&admin->requests), struct admin_request, link);
        request->refs = 1; /* what it was lent to has ended */
        request_unref(request);
    }
}

/* ---- answers ---- */

static void add_field(struct wg_response *response, struct wg_slice name, const char *value)
{
    int error = wg_fields_add(&response->fields, name, wg_slice_str(value));
    WG_ASSERT(error == 0);
}

static void send_response(struct admin_request *request, struct wg_response *response, struct wg_slice body)
{
    struct wg_stream *stream = request->stream;

    request->stream = NULL;
    response->body = WG_BODY_LENGTH;
    response->content_length = body.len;
    add_field(response, WG_SLICE("cache-control"), "no-store");
    stream->ops->head(stream, response);
    if (body.len > 0)
        stream->ops->data(stream, body.ptr, body.len);
    stream->ops->end(stream, NULL);
    request_unref(request);
}

static void refuse(struct admin_request *request, const struct admin_refusal *refusal)
{
    struct wg_response response = {.status = refusal->status};
    struct wg_buf body = WG_BUF_INIT(4096);

    admin_refusal_json(refusal, NULL, &body);
    WG_ASSERT(!body.failed);

    add_field(&response, WG_SLICE("content-type"), "application/json");
    if (refusal->status == 405)
        add_field(&response, WG_SLICE("allow"), admin_route_allow(request->route));
    if (refusal->status == 401)
        add_field(&response, WG_SLICE("www-authenticate"), "Bearer");
    send_response(request, &response, wg_buf_slice(&body));
    wg_buf_clear(&body);
}

static void refuse_reason(struct admin_request *request, enum wg_reason reason)
{
    struct admin_refusal refusal = admin_refusal_of(reason);
    refuse(request, &refusal);
}

/* Sends the page and clears it. */
static void send_page(struct admin_request *request, int status, const char *type, struct wg_buf *page)
{
    struct wg_response response = {.status = status};

    if (page->failed) {
        refuse(request, &admin_internal);
    } else {
        add_field(&response, WG_SLICE("content-type"), type);
        send_response(request, &response, wg_buf_slice(page));
    }
    wg_buf_clear(page);
}

static void send_text(struct admin_request *request, int status, const char *text)
{
    struct wg_buf page = WG_BUF_INIT(1024);

    wg_buf_add_str(&page, text);
    send_page(request, status, "text/plain; charset=utf-8", &page);
}

/* ---- questions to control ---- */

static void status_came(struct wg_mail *mail, void *receiver)
{
    struct wg_admin *admin = WG_CAST(wg_admin, receiver, ADMIN_MAGIC);
    struct admin_request *request = WG_CONTAINER_OF(mail, struct admin_request, status.mail);
    struct wg_buf page = WG_BUF_INIT(PAGE_MAX);

    WG_CHECK_OBJ(request, REQUEST_MAGIC);
    if (request->stream && request->route->page == ADMIN_SCALER) {
        if (admin_scaler_json(&request->status, request->model, &page))
            send_page(request, 200, "application/json", &page);
        else
            refuse(request, &admin_no_model);
    } else if (request->stream) {
        struct admin_process_status process = {.version = WAKEGATE_VERSION,
                                               .uptime = wg_clock_monotonic() - admin->started,
                                               .ready = atomic_load(admin->ready)};
        admin_status_json(&request->status, admin->config, &process, &page);
        send_page(request, 200, "application/json", &page);
    }
    request_unref(request);
}

static void ask_status(struct admin_request *request)
{
    struct wg_status *status = &request->status;

    request->refs++;
    *status = (struct wg_status){.home = request->admin->mailbox};
    wg_mail_init(&status->mail, status_came);
    wg_activator_status(request->admin->activator, status);
}

static void answer_order(struct admin_request *request)
{
    bool wake = request->order.command == WG_COMMAND_WAKE;
    struct wg_buf page = WG_BUF_INIT(PAGE_MAX);
    struct json_out json = {.buf = &page};

    switch (request->order.ret_error) {
    case 0:
        json_out_open(&json, NULL, '{');
        json_out_text(&json, "model", request->model);
        json_out_text(&json, "status", wake ? "waking" : "sleeping");
        json_out_close(&json, '}');
        wg_buf_add_char(&page, '\n');
        send_page(request, 202, "application/json", &page);
        break;
    case -ENOENT:
        refuse(request, &admin_no_model);
        break;
    case -EBUSY:
        refuse(request, &admin_busy);
        break;
    case -EOPNOTSUPP:
        refuse(request, &admin_no_hook);
        break;
    default:
        refuse(request, &admin_internal);
    }
}

static void order_came(struct wg_mail *mail, void *receiver)
{
    struct admin_request *request = WG_CONTAINER_OF(mail, struct admin_request, order.mail);

    (void)WG_CAST(wg_admin, receiver, ADMIN_MAGIC);
    WG_CHECK_OBJ(request, REQUEST_MAGIC);
    wg_info("admin", request->model, "%s ordered: %s",
            request->order.command == WG_COMMAND_WAKE ? "wake" : "sleep",
            request->order.ret_error == 0 ? "accepted" : strerror(-request->order.ret_error));
    if (request->stream)
        answer_order(request);
    request_unref(request);
}

static void ask_order(struct admin_request *request)
{
    struct wg_order *order = &request->order;

    request->refs++;
    *order = (struct wg_order){
        .home = request->admin->mailbox,
        .model = request->model,
        .command = request->route->page == ADMIN_WAKE ? WG_COMMAND_WAKE : WG_COMMAND_SLEEP,
    };
    wg_mail_init(&order->mail, order_came);
    wg_activator_order(request->admin->activator, order);
}

/* ---- pages ---- */

static void send_metrics(struct admin_request *request)
{
    const char *names[WG_MODEL_STATES];
    struct wg_buf page = WG_BUF_INIT(PAGE_MAX);

    for (int i = 0; i < WG_MODEL_STATES; i++)
        names[i] = wg_model_state_label((enum wg_model_state)i);
    wg_metrics_render(&page, names, WG_MODEL_STATES);
    send_page(request, 200, "text/plain; version=0.0.4; charset=utf-8", &page);
}

static void send_index(struct admin_request *request)
{
    struct wg_buf page = WG_BUF_INIT(PAGE_MAX);

    admin_route_index(&page);
    send_page(request, 200, "text/plain; charset=utf-8", &page);
}

static void send_health(struct admin_request *request)
{
    send_text(request, 200, "ok\n");
}

static void send_readiness(struct admin_request *request)
{
    bool ready = atomic_load(request->admin->ready);
    send_text(request, ready ? 200 : 503, ready ? "ready\n" : "not ready\n");
}

static void (*const pages[])(struct admin_request *request) = {
    [ADMIN_INDEX] = send_index,     [ADMIN_HEALTHZ] = send_health, [ADMIN_READYZ] = send_readiness,
    [ADMIN_METRICS] = send_metrics, [ADMIN_STATUS] = ask_status,   [ADMIN_SCALER] = ask_status,
    [ADMIN_WAKE] = ask_order,       [ADMIN_SLEEP] = ask_order,
};

/* ---- checks at the head ---- */

/* Empty if the field is absent; none of them comes twice, the front refuses that. */
static struct wg_slice field_value(const struct wg_fields *fields, enum wg_token token)
{
    const struct wg_field *field = wg_fields_get(fields, token);
    return field ? field->value : wg_slice(NULL, 0);
}

static bool has_key(const struct wg_config *config, const struct wg_fields *fields)
{
    const struct wg_credentials credentials = {
        .authorization = field_value(fields, WG_TOKEN_AUTHORIZATION),
        .x_api_key = field_value(fields, WG_TOKEN_X_API_KEY),
        .api_key = field_value(fields, WG_TOKEN_API_KEY),
    };
    return wg_keys_match(config->admin.keys, config->admin.n_keys, &credentials);
}

/* "http://HOST[:PORT]" of an address or of localhost: a name could have been pointed at us by its owner. */
static bool is_local_origin(struct wg_slice origin)
{
    const struct wg_slice scheme = WG_SLICE("http://"), localhost = WG_SLICE("localhost");
    struct wg_slice host;
    if (!wg_slice_starts_with(origin, scheme))
        return false;
    origin = wg_slice(origin.ptr + scheme.len, origin.len - scheme.len);
    if (origin.len > 0 && origin.ptr[0] == '[')
        return true;
    wg_slice_split(&origin, ':', &host);
    for (size_t i = 0; i < host.len; i++)
        if (!strchr("0123456789.", host.ptr[i]))
            return wg_slice_eq(host, localhost);
    return host.len > 0;
}

/* A page of another site can make a browser post to a loopback address; browsers say so in one of two ways.
 */
static bool from_other_site(const struct wg_fields *fields)
{
    const struct wg_field *site = wg_fields_find(fields, WG_SLICE("sec-fetch-site"));
    const struct wg_field *origin = wg_fields_find(fields, WG_SLICE("origin"));

    if (site && !wg_slice_eq(site->value, WG_SLICE("same-origin")) &&
        !wg_slice_eq(site->value, WG_SLICE("none")))
        return true;
    return origin && !is_local_origin(origin->value);
}

/* True if the sender may change something; else *ret_refusal. */
static bool may_change(const struct wg_admin *admin, const struct wg_fields *fields,
                       struct admin_refusal *ret_refusal)
{
    if (from_other_site(fields)) {
        *ret_refusal = admin_cross_site;
        return false;
    }
    if (admin->config->admin.n_keys == 0) {
        *ret_refusal = admin_no_keys;
        return admin->loopback;
    }
    *ret_refusal = admin_refusal_of(WG_REASON_INVALID_API_KEY);
    return has_key(admin->config, fields);
}

/* Aliases name their model. */
static bool find_model(struct admin_request *request, struct wg_slice name)
{
    char *decoded = admin_name_decode(name);
    if (!decoded) {
        request->refusal = admin_refusal_of(WG_REASON_INVALID_REQUEST);
        return false;
    }
    const struct wg_config_model *model = wg_config_model(request->admin->config, wg_slice_str(decoded));
    free(decoded);
    if (!model) {
        request->refusal = admin_no_model;
        return false;
    }
    request->model = wg_xstrdup(model->name);
    return true;
}

/* True if the request may go on; else request->refusal says why not. */
static bool check_head(struct admin_request *request, const struct wg_request *head)
{
    struct wg_slice name;

    request->route = admin_route_find(head->path, &name);
    if (!request->route) {
        request->refusal = admin_refusal_of(WG_REASON_NOT_FOUND);
        return false;
    }
    if (!admin_route_takes(request->route, head->method)) {
        request->refusal = admin_refusal_of(WG_REASON_METHOD_NOT_ALLOWED);
        return false;
    }
    if (request->route->changes && !may_change(request->admin, &head->fields, &request->refusal))
        return false;
    if (head->body == WG_BODY_LENGTH && head->content_length > ADMIN_BODY_MAX) {
        request->refusal = admin_refusal_of(WG_REASON_BODY_TOO_LARGE);
        return false;
    }
    return !request->route->suffix || find_model(request, name);
}

/* ---- the front's calls ---- */

static void run_head_checked(struct wg_deferred *deferred)
{
    struct admin_request *request = WG_CONTAINER_OF(deferred, struct admin_request, turn_end);

    WG_CHECK_OBJ(request, REQUEST_MAGIC);
    if (!request->refused) {
        request->stream->ops->want_body(request->stream);
        return;
    }
    if (request->route && request->route->changes)
        wg_info("admin", request->model, "order refused: %s", request->refusal.code);
    refuse(request, &request->refusal);
}

void *admin_request_begin(struct wg_admin *admin, struct wg_stream *stream, const struct wg_request *head)
{
    struct admin_request *request = WG_NEW(struct admin_request);

    request->magic = REQUEST_MAGIC;
    request->refs = 1;
    request->admin = admin;
    request->stream = stream;
    wg_list_init(&request->link);
    wg_list_append(&admin->requests, &request->link);
    wg_deferred_init(&request->turn_end, run_head_checked);
    request->refused = !check_head(request, head);
    wg_loop_defer(admin->loop, &request->turn_end);
    return request;
}

void admin_request_body(void *x, const char *data, size_t len)
{
    struct admin_request *request = WG_CAST(admin_request, x, REQUEST_MAGIC);

    (void)data;
    request->body_len += len;
    if (request->body_len > ADMIN_BODY_MAX)
        refuse_reason(request, WG_REASON_BODY_TOO_LARGE);
}

void admin_request_body_end(void *x, const struct wg_fields *trailers)
{
    struct admin_request *request = WG_CAST(admin_request, x, REQUEST_MAGIC);

    (void)trailers;
    pages[request->route->page](request);
}

void admin_request_body_failed(void *x, const char *why)
{
    struct admin_request *request = WG_CAST(admin_request, x, REQUEST_MAGIC);

    wg_debug("admin", NULL, "bad request body: %s", why);
    refuse_reason(request, WG_REASON_INVALID_REQUEST);
}

void admin_request_body_stalled(void *x)
{
    refuse_reason(WG_CAST(admin_request, x, REQUEST_MAGIC), WG_REASON_REQUEST_TIMEOUT);
}

void admin_request_drained(void *x)
{
    (void)WG_CAST(admin_request, x, REQUEST_MAGIC);
}

void admin_request_gone(void *x)
{
    struct admin_request *request = WG_CAST(admin_request, x, REQUEST_MAGIC);

    WG_ASSERT(request->stream);
    request->stream = NULL;
    wg_deferred_cancel(&request->turn_end);
    request_unref(request);
}
