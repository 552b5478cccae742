/* Towards the model: the request's head and body as the model gets them, and the start of the connection. */
#include "exchange.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

static void add_field(struct wg_buf *head, struct wg_slice name, struct wg_slice value)
{
    wg_buf_add_slice(head, name);
    wg_buf_add(head, ": ", 2);
    wg_buf_add_slice(head, value);
    wg_buf_add(head, "\r\n", 2);
}

static bool is_forwarding_field(enum wg_token token)
{
    return token == WG_TOKEN_X_FORWARDED_FOR || token == WG_TOKEN_X_FORWARDED_HOST ||
           token == WG_TOKEN_X_FORWARDED_PROTO || token == WG_TOKEN_FORWARDED;
}

/* Hop-by-hop fields, the tenant's key, framing, and what we write ourselves stay behind. */
static bool passes(const struct wg_field *field, bool trusted)
{
    const unsigned dropped = WG_FIELD_HOP | WG_FIELD_FRAMING | WG_FIELD_SECRET | WG_FIELD_OURS_REQ;
    if (field->hop || field->token == WG_TOKEN_EXPECT || field->token == WG_TOKEN_HOST ||
        field->token == WG_TOKEN_X_REQUEST_ID || field->token == WG_TOKEN_X_GATEWAY_MODEL_NAME ||
        field->token == WG_TOKEN_PREFER || field->token == WG_TOKEN_ACCEPT_ENCODING)
        return false;
    if (is_forwarding_field(field->token) && (!trusted || field->token == WG_TOKEN_X_FORWARDED_FOR))
        return false;
    if (field->token == WG_TOKEN_TRACEPARENT)
        return true;
    return is_forwarding_field(field->token) || !(wg_token_flags(field->token) & dropped);
}

static void peer_text(const struct sockaddr_storage *peer, char out[static INET6_ADDRSTRLEN])
{
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)peer)->sin6_addr;
    const void *address = &((const struct sockaddr_in *)peer)->sin_addr;
    int family = peer->ss_family;
    if (family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(v6)) { /* an IPv4 client of a socket that takes both */
        family = AF_INET;
        address = v6->s6_addr + 12;
    } else if (family == AF_INET6) {
        address = v6;
    }
    if (!inet_ntop(family, address, out, INET6_ADDRSTRLEN))
        snprintf(out, INET6_ADDRSTRLEN, "unknown");
}

/* From a trusted gateway its own list is kept and it is added; anybody else's word counts for nothing. */
static void add_forwarding(struct exchange *x, const struct wg_request *request, bool trusted,
                           const struct sockaddr_storage *peer)
{
    char address[INET6_ADDRSTRLEN];
    peer_text(peer, address);
    wg_buf_add_str(&x->head, "x-forwarded-for: ");
    for (unsigned i = 0; trusted && i < request->fields.n; i++) {
        if (request->fields.items[i].token != WG_TOKEN_X_FORWARDED_FOR)
            continue;
        wg_buf_add_slice(&x->head, request->fields.items[i].value);
        wg_buf_add_str(&x->head, ", ");
    }
    wg_buf_addf(&x->head, "%s\r\n", address);
    if (!trusted || !wg_fields_get(&request->fields, WG_TOKEN_X_FORWARDED_PROTO))
        add_field(&x->head, WG_SLICE("x-forwarded-proto"),
                  wg_front_tls(x->stream->front) ? WG_SLICE("https") : WG_SLICE("http"));
    if ((!trusted || !wg_fields_get(&request->fields, WG_TOKEN_X_FORWARDED_HOST)) &&
        request->authority.len > 0)
        add_field(&x->head, WG_SLICE("x-forwarded-host"), request->authority);
}

static void add_trace(struct exchange *x)
{
    wg_buf_addf(&x->head, "traceparent: 00-%016llx%016llx-%016llx-00\r\n",
                (unsigned long long)worker_random(x->worker), (unsigned long long)worker_random(x->worker),
                (unsigned long long)worker_random(x->worker) | 1);
}

void forward_prepare(struct exchange *x, const struct wg_request *request, struct wg_slice path, bool trusted,
                     const struct sockaddr_storage *peer)
{
    struct wg_buf *head = &x->head;
    wg_buf_add_slice(head, request->method);
    wg_buf_add_char(head, ' ');
    wg_buf_add_slice(head, path);
    if (request->query.ptr && request->target.len > request->path.len) {
        wg_buf_add_char(head, '?');
        wg_buf_add_slice(head, request->query);
    }
    wg_buf_add_str(head, " HTTP/1.1\r\n");
    for (unsigned i = 0; i < request->fields.n; i++)
        if (passes(&request->fields.items[i], trusted))
            add_field(head, request->fields.items[i].name, request->fields.items[i].value);
    add_field(head, WG_SLICE("x-request-id"), wg_slice_str(x->id));
    add_forwarding(x, request, trusted, peer);
    if (!wg_fields_get(&request->fields, WG_TOKEN_TRACEPARENT))
        add_trace(x);
    const struct wg_field *encoding = wg_fields_get(&request->fields, WG_TOKEN_ACCEPT_ENCODING);
    if (encoding)
        x->accept_encoding = wg_slice_dup(encoding->value);
}

void forward_edit_body(struct exchange *x)
{
    const struct wg_skim_result *seen = exchange_skimmed(x);
    const char *name = x->model->upstream_model;
    if (name[0] == '\0' || !seen->has_model)
        return;
    struct wg_buf value = WG_BUF_INIT(8 * WG_MODEL_NAME_MAX);
    if (x->skim) {
        wg_buf_add_char(&value, '"');
        wg_buf_add_json(&value, wg_slice_str(name));
        wg_buf_add_char(&value, '"');
    } else {
        wg_buf_add_str(&value, name);
    }
    WG_ASSERT(!value.failed);
    wg_chain_splice(&x->body, x->worker->pool, seen->model_at, seen->model_size, value.data, value.len);
    wg_buf_clear(&value);
}

static bool sends_length(const struct exchange *x)
{
    return x->body.len > 0 || strcmp(x->method, "POST") == 0 || strcmp(x->method, "PUT") == 0 ||
           strcmp(x->method, "PATCH") == 0;
}

void forward_start(struct exchange *x)
{
    const struct wg_config_model *model = x->model;
    struct wg_buf head = WG_BUF_INIT(2 * x->head.max + 4096);
    wg_buf_add_slice(&head, wg_buf_slice(&x->head));
    add_field(&head, WG_SLICE("host"), wg_slice_str(x->endpoint->authority));
    /* Behind a heartbeat, whose head names no encoding, only plain text can follow. */
    if (x->accept_encoding && x->late == LATE_NOT && x->heartbeat_at == WG_USEC_NEVER)
        add_field(&head, WG_SLICE("accept-encoding"), wg_slice_str(x->accept_encoding));
    if (model->upstream_key[0])
        wg_buf_addf(&head, "authorization: Bearer %s\r\n", model->upstream_key);
    if (sends_length(x)) {
        wg_buf_add_str(&head, "content-length: ");
        wg_buf_add_u64(&head, x->body.len);
        wg_buf_add(&head, "\r\n", 2);
    }
    wg_buf_add(&head, "\r\n", 2);
    WG_ASSERT(!head.failed);
    const struct wg_back_request request = {
        .endpoint_id = x->endpoint->id,
        .address = (const struct sockaddr *)&x->endpoint->address,
        .address_len = x->endpoint->address_len,
        .method = wg_slice_str(x->method),
        .head = &head,
        .body = &x->body,
        .connect_timeout = model->timeouts.connect,
        .reuse = model->timeouts.reuse,
    };
    exchange_set_state(x, EXCHANGE_CONNECT);
    x->back = wg_back_start(x->worker->backs, &request, &relay_handler, x);
}
