/* Header blocks of HTTP/2: fields are checked as they come, by the classes of the HTTP/1.1 parser, and the
 * whole is made into a request or trailers once the block is complete. */
#include "h2_head.h"

#include <stdlib.h>

#include "h1.h"

enum pseudo { METHOD, SCHEME, AUTHORITY, PATH, PSEUDO_COUNT };

enum { FIELD_OVERHEAD = 32, REFS_MAX = 2 * (WG_FIELDS_MAX + PSEUDO_COUNT) };

struct h2_head {
    size_t bytes, max_bytes;
    bool overflowed;
    bool is_head;
    const char *why; /* what was wrong with a field; then no more are stored */
    uint64_t seen;
    struct wg_slice pseudo[PSEUDO_COUNT]; /* ptr NULL: absent */
    struct wg_request request;
    struct wg_buf cookie;
    unsigned n_refs;
    nghttp2_rcbuf *refs[REFS_MAX];
};

struct h2_head *h2_head_new(size_t max_bytes)
{
    struct h2_head *head = WG_NEW(struct h2_head);
    head->max_bytes = max_bytes;
    wg_buf_init(&head->cookie, max_bytes);
    return head;
}

static void drop(struct h2_head *head)
{
    for (unsigned i = 0; i < head->n_refs; i++)
        nghttp2_rcbuf_decref(head->refs[i]);
    head->n_refs = 0;
}

struct h2_head *h2_head_free(struct h2_head *head)
{
    if (!head)
        return NULL;
    drop(head);
    wg_buf_clear(&head->cookie);
    free(head);
    return NULL;
}

/* ---- fields as they come ---- */

static void store(struct h2_head *head, nghttp2_rcbuf *buf)
{
    WG_ASSERT(head->n_refs < REFS_MAX);
    nghttp2_rcbuf_incref(buf);
    head->refs[head->n_refs++] = buf;
}

static const char *add_pseudo(struct h2_head *head, struct wg_slice name, struct wg_slice value)
{
    static const struct wg_slice names[PSEUDO_COUNT] = {
        [METHOD] = {":method", 7},
        [SCHEME] = {":scheme", 7},
        [AUTHORITY] = {":authority", 10},
        [PATH] = {":path", 5},
    };
    if (head->request.fields.n > 0)
        return "pseudo-header field after a regular one";
    for (unsigned i = 0; i < PSEUDO_COUNT; i++) {
        if (!wg_slice_eq(name, names[i]))
            continue;
        if (head->pseudo[i].ptr)
            return "pseudo-header field twice";
        head->pseudo[i] = value;
        head->is_head |= i == METHOD && wg_slice_eq(value, WG_SLICE("HEAD"));
        return NULL;
    }
    return "unknown pseudo-header field";
}

static bool is_lower_name(struct wg_slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (!wg_h1_is(name.ptr[i], WG_H1_TCHAR) || (name.ptr[i] >= 'A' && name.ptr[i] <= 'Z'))
            return false;
    }
    return name.len > 0;
}

/* Without the white space around it that HTTP/1.1 would trim (RFC 9113 8.2.1). */
static bool is_value(struct wg_slice value)
{
    return wg_h1_span(value, WG_H1_VCHAR) == value.len && wg_slice_trim(value).len == value.len;
}

static enum wg_h1_result add_field(struct h2_head *head, struct wg_slice name, struct wg_slice value)
{
    if (wg_slice_starts_with(name, WG_SLICE(":"))) {
        head->why = add_pseudo(head, name, value);
        return head->why ? WG_H1_BAD : WG_H1_OK;
    }
    if (!is_lower_name(name))
        return wg_h1_bad(&head->why, "byte that is not allowed in a field name");
    if (!is_value(value))
        return wg_h1_bad(&head->why, "control character in a field value, or white space around it");
    return wg_h1_add_field(&head->request.fields, &head->seen, name, value, &head->why);
}

static struct wg_slice bytes_of(nghttp2_rcbuf *buf)
{
    const nghttp2_vec vec = nghttp2_rcbuf_get_buf(buf);
    return wg_slice(vec.base, vec.len);
}

bool h2_head_add(struct h2_head *head, nghttp2_rcbuf *name, nghttp2_rcbuf *value)
{
    const struct wg_slice name_bytes = bytes_of(name), value_bytes = bytes_of(value);
    if (head->overflowed)
        return false;
    head->bytes += name_bytes.len + value_bytes.len + FIELD_OVERHEAD;
    head->overflowed = head->bytes > head->max_bytes;
    if (!head->overflowed && !head->why) {
        enum wg_h1_result result = add_field(head, name_bytes, value_bytes);
        head->overflowed = result == WG_H1_TOO_LARGE;
        if (result == WG_H1_OK) {
            store(head, name);
            store(head, value);
        }
    }
    if (head->overflowed || head->why)
        drop(head);
    return !head->overflowed;
}

bool h2_head_overflowed(const struct h2_head *head)
{
    return head->overflowed;
}

bool h2_head_is_head(const struct h2_head *head)
{
    return head->is_head;
}

/* ---- the complete block ---- */

static enum wg_h1_result check_block(const struct h2_head *head, const char **ret_why)
{
    if (head->overflowed || head->cookie.failed)
        return wg_h1_too_large(ret_why, "header fields are too many or too large");
    return head->why ? wg_h1_bad(ret_why, head->why) : WG_H1_OK;
}

/* RFC 9113 8.2.2. */
static const char *check_connection_fields(const struct wg_fields *fields)
{
    for (unsigned i = 0; i < fields->n; i++) {
        switch (fields->items[i].token) {
        case WG_TOKEN_CONNECTION:
        case WG_TOKEN_KEEP_ALIVE:
        case WG_TOKEN_PROXY_CONNECTION:
        case WG_TOKEN_TRANSFER_ENCODING:
        case WG_TOKEN_UPGRADE:
            return "field about a connection, which HTTP/2 has none of";
        case WG_TOKEN_TE:
            if (!wg_slice_eq_nocase(fields->items[i].value, WG_SLICE("trailers")))
                return "TE is not just trailers";
            break;
        default:
            break;
        }
    }
    return NULL;
}

/* Empty ones are left out: an end of "; " is not what it seems to be once HTTP/1.1 has trimmed it. */
static void add_crumb(struct wg_buf *cookie, struct wg_slice crumb)
{
    if (crumb.len > 0 && cookie->len > 0)
        wg_buf_add(cookie, "; ", 2);
    wg_buf_add_slice(cookie, crumb);
}

/* Takes the host field out and joins cookie crumbs at the place of the first (RFC 9113 8.2.3). */
static void settle_fields(struct h2_head *head, struct wg_slice *ret_host)
{
    struct wg_fields *fields = &head->request.fields;
    struct wg_field *cookie = NULL;
    unsigned n = 0;
    for (unsigned i = 0; i < fields->n; i++) {
        const struct wg_field field = fields->items[i];
        if (field.token == WG_TOKEN_HOST) {
            *ret_host = field.value;
            continue;
        }
        if (field.token == WG_TOKEN_COOKIE) {
            add_crumb(&head->cookie, field.value);
            if (cookie)
                continue;
            cookie = &fields->items[n];
        }
        fields->items[n++] = field;
    }
    fields->n = n;
    if (cookie && head->cookie.len > 0)
        cookie->value = wg_buf_slice(&head->cookie);
}

static const char *check_method(struct h2_head *head)
{
    const struct wg_slice method = head->pseudo[METHOD];
    if (method.len == 0 || wg_h1_span(method, WG_H1_TCHAR) < method.len)
        return "no valid :method";
    if (method.len > WG_H1_METHOD_MAX)
        return "method is too long";
    head->request.method = method;
    return NULL;
}

/* :authority and Host are one (RFC 9113 8.3.1). */
static const char *check_authority(struct h2_head *head, struct wg_slice host)
{
    bool has_port = false;
    const struct wg_slice authority = head->pseudo[AUTHORITY];
    if (!authority.ptr && !host.ptr)
        return "neither :authority nor Host";
    if (host.ptr && !wg_h1_is_authority(host, &has_port))
        return "Host is not a valid host and port";
    if (authority.ptr && !wg_h1_is_authority(authority, &has_port))
        return ":authority is not a valid host and port";
    if (authority.ptr && host.ptr && !wg_slice_eq_nocase(authority, host))
        return "Host differs from :authority";
    head->request.authority = authority.ptr ? authority : host;
    return NULL;
}

static const char *check_connect(struct h2_head *head)
{
    bool has_port = false;
    struct wg_request *request = &head->request;
    if (head->pseudo[SCHEME].ptr || head->pseudo[PATH].ptr)
        return "CONNECT with :scheme or :path";
    if (!head->pseudo[AUTHORITY].ptr || !wg_h1_is_authority(request->authority, &has_port) || !has_port)
        return "target of CONNECT is not host:port";
    request->target = request->authority;
    request->path = request->query = wg_slice(request->target.ptr, 0);
    return NULL;
}

static const char *check_target(struct h2_head *head)
{
    const struct wg_slice scheme = head->pseudo[SCHEME], path = head->pseudo[PATH];
    if (wg_slice_eq(head->request.method, WG_SLICE("CONNECT")))
        return check_connect(head);
    if (!wg_slice_eq_nocase(scheme, WG_SLICE("http")) && !wg_slice_eq_nocase(scheme, WG_SLICE("https")))
        return ":scheme is neither http nor https";
    if (path.len == 0)
        return "no :path";
    if (wg_h1_span(path, WG_H1_URI) < path.len)
        return "byte that is not allowed in a request target";
    head->request.target = path;
    return wg_h1_split_target(&head->request);
}

/* No Transfer-Encoding is left here, nor Connection: it is about Content-Length alone. */
static const char *check_body(struct h2_head *head, bool end_stream)
{
    const char *why = NULL;
    struct wg_h1_framing framing;
    struct wg_request *request = &head->request;
    request->version = 20;
    if (wg_h1_parse_framing(&request->fields, request->version, &framing, &why) != WG_H1_OK)
        return why;
    if (end_stream && framing.length > 0)
        return "Content-Length of a request without a body is not 0";
    request->body = framing.has_length ? WG_BODY_LENGTH : end_stream ? WG_BODY_NONE : WG_BODY_CHUNKED;
    request->content_length = framing.length;
    request->keep_alive = framing.keep_alive;
    request->expect_continue = wg_h1_expects_continue(request);
    return NULL;
}

enum wg_h1_result h2_head_request(struct h2_head *head, bool end_stream,
                                  const struct wg_request **ret_request, const char **ret_why)
{
    struct wg_slice host = {0};
    if (!head->overflowed && !head->why)
        settle_fields(head, &host);
    enum wg_h1_result result = check_block(head, ret_why);
    if (result != WG_H1_OK)
        return result;
    if (head->pseudo[PATH].len > WG_H1_TARGET_MAX)
        return wg_h1_too_large(ret_why, "request target is longer than 8 KiB");
    const char *why = check_connection_fields(&head->request.fields);
    if (!why)
        why = check_method(head);
    if (!why)
        why = check_authority(head, host);
    if (!why)
        why = check_target(head);
    if (!why)
        why = check_body(head, end_stream);
    if (why)
        return wg_h1_bad(ret_why, why);
    *ret_request = &head->request;
    return WG_H1_OK;
}

static const char *check_trailers(const struct h2_head *head)
{
    const struct wg_fields *fields = &head->request.fields;
    for (unsigned i = 0; i < PSEUDO_COUNT; i++) {
        if (head->pseudo[i].ptr)
            return "pseudo-header field in trailers";
    }
    if (wg_fields_get(fields, WG_TOKEN_CONTENT_LENGTH) || wg_fields_get(fields, WG_TOKEN_HOST))
        return "Content-Length or Host in trailers";
    return check_connection_fields(fields);
}

enum wg_h1_result h2_head_trailers(struct h2_head *head, const struct wg_fields **ret_fields,
                                   const char **ret_why)
{
    struct wg_fields *fields = &head->request.fields;
    enum wg_h1_result result = check_block(head, ret_why);
    if (result != WG_H1_OK)
        return result;
    const char *why = check_trailers(head);
    if (why)
        return wg_h1_bad(ret_why, why);
    unsigned n = 0;
    for (unsigned i = 0; i < fields->n; i++) {
        if (wg_h1_may_be_trailer(&fields->items[i]))
            fields->items[n++] = fields->items[i];
    }
    fields->n = n;
    *ret_fields = fields;
    return WG_H1_OK;
}
