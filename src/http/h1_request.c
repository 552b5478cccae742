/* The strict parser of HTTP/1.1 request heads: request line, forms of the target, Host, framing. One pass,
 * nothing allocated, nothing copied. */
#include "h1.h"

static enum wg_h1_result parse_version(const char *p, unsigned *ret_version, const char **ret_why)
{
    int version = wg_h1_version(p);
    if (version >= 0 && p[WG_H1_VERSION_LEN] == '\n')
        return wg_h1_bad(ret_why, "bare LF as line end");
    if (version < 0 || p[WG_H1_VERSION_LEN] != '\r' || p[WG_H1_VERSION_LEN + 1] != '\n')
        return wg_h1_bad(ret_why, "request line does not end in an HTTP version");
    if (version == 0) {
        *ret_why = "HTTP version is neither 1.0 nor 1.1";
        return WG_H1_VERSION;
    }
    *ret_version = (unsigned)version;
    return WG_H1_OK;
}

/* method SP target SP version CRLF; *at moves behind it. */
static enum wg_h1_result parse_line(const char **at, struct wg_request *request, const char **ret_why)
{
    const char *start = *at, *p = start;
    while (wg_h1_is(*p, WG_H1_TCHAR))
        p++;
    request->method = wg_slice(start, (size_t)(p - start));
    if (request->method.len == 0 || *p != ' ')
        return wg_h1_bad(ret_why, "request line does not start with a method and one space");
    if (request->method.len > WG_H1_METHOD_MAX)
        return wg_h1_bad(ret_why, "method is too long");

    start = ++p;
    while (wg_h1_is(*p, WG_H1_URI))
        p++;
    request->target = wg_slice(start, (size_t)(p - start));
    if (request->target.len > WG_H1_TARGET_MAX)
        return wg_h1_too_large(ret_why, "request target is longer than 8 KiB");
    if (*p == '\r' || *p == '\n')
        return wg_h1_bad(ret_why, "request line without an HTTP version");
    if (*p != ' ')
        return wg_h1_bad(ret_why, "byte that is not allowed in a request target");
    if (request->target.len == 0)
        return wg_h1_bad(ret_why, "empty request target, or more than one space before it");
    p++;
    enum wg_h1_result result = parse_version(p, &request->version, ret_why);
    if (result == WG_H1_OK)
        *at = p + WG_H1_VERSION_LEN + 2;
    return result;
}

const char *wg_h1_split_target(struct wg_request *request)
{
    struct wg_slice target = request->target;
    bool asterisk = wg_slice_eq(target, WG_SLICE("*"));
    if (asterisk && !wg_slice_eq(request->method, WG_SLICE("OPTIONS")))
        return "target * is for OPTIONS only";
    if (!asterisk && !wg_slice_starts_with(target, WG_SLICE("/")))
        return "request target does not start with /";
    const char *mark = memchr(target.ptr, '?', target.len);
    size_t path = mark ? (size_t)(mark - target.ptr) : target.len;
    request->path = wg_slice(target.ptr, path);
    request->query = mark ? wg_slice(mark + 1, target.len - path - 1) : wg_slice(target.ptr + path, 0);
    return NULL;
}

/* The length of "http://" or "https://" at the start; 0 if there is neither. */
static size_t scheme_len(struct wg_slice target)
{
    static const struct wg_slice schemes[] = {{"http://", 7}, {"https://", 8}};
    for (size_t i = 0; i < WG_COUNT_OF(schemes); i++) {
        size_t len = schemes[i].len;
        if (target.len > len && wg_slice_eq_nocase(wg_slice(target.ptr, len), schemes[i]))
            return len;
    }
    return 0;
}

/* Splits an absolute target into *ret_authority and, in request->target, the origin form. */
static const char *split_absolute(struct wg_request *request, size_t scheme, struct wg_slice *ret_authority)
{
    const char *start = request->target.ptr + scheme, *end = request->target.ptr + request->target.len,
               *p = start;
    while (p < end && *p != '/' && *p != '?')
        p++;
    *ret_authority = wg_slice(start, (size_t)(p - start));
    if (ret_authority->len == 0)
        return "address in the request target has no valid host";
    if (p < end && *p == '?')
        return "absolute target with a query but no path";
    if (p < end)
        request->target = wg_slice(p, (size_t)(end - p));
    else
        request->target = wg_slice_eq(request->method, WG_SLICE("OPTIONS")) ? WG_SLICE("*") : WG_SLICE("/");
    return NULL;
}

/* Recognises the form of the target; *ret_authority is that of an absolute one, else empty. Returns what is
 * wrong, or NULL. */
static const char *parse_target(struct wg_request *request, struct wg_slice *ret_authority)
{
    const char *why = NULL;
    bool has_port = false;
    *ret_authority = wg_slice(request->target.ptr, 0);
    if (wg_slice_eq(request->method, WG_SLICE("CONNECT"))) {
        if (!wg_h1_is_authority(request->target, &has_port) || !has_port)
            why = "target of CONNECT is not host:port";
        request->path = request->query = wg_slice(request->target.ptr, 0);
        return why;
    }
    size_t scheme = scheme_len(request->target);
    if (scheme > 0)
        why = split_absolute(request, scheme, ret_authority);
    return why ? why : wg_h1_split_target(request);
}

static const char *check_host(struct wg_request *request, struct wg_slice absolute)
{
    bool has_port = false;
    const struct wg_field *host = wg_fields_get(&request->fields, WG_TOKEN_HOST);
    if (absolute.len > 0 && !wg_h1_is_authority(absolute, &has_port))
        return "address in the request target has no valid host";
    request->authority = absolute;
    if (!host)
        return request->version >= 11 ? "no Host field" : NULL;
    if (!wg_h1_is_authority(host->value, &has_port))
        return "Host is not a valid host and port";
    if (absolute.len > 0 && !wg_slice_eq_nocase(absolute, host->value))
        return "Host differs from the request target";
    request->authority = host->value;
    return NULL;
}

bool wg_h1_expects_continue(const struct wg_request *request)
{
    const struct wg_field *expect = wg_fields_get(&request->fields, WG_TOKEN_EXPECT);
    bool has_body = request->body == WG_BODY_CHUNKED || request->content_length > 0;
    return expect && request->version >= 11 && has_body &&
           wg_slice_eq_nocase(expect->value, WG_SLICE("100-continue"));
}

enum wg_h1_result wg_h1_parse_request(const char *data, size_t len, struct wg_request *ret_request,
                                      const char **ret_why)
{
    struct wg_h1_framing framing;
    struct wg_slice absolute;
    const char *p = data, *end;
    enum wg_h1_result result = wg_h1_check_head(data, len, &end, ret_why);
    if (result == WG_H1_OK)
        result = parse_line(&p, ret_request, ret_why);
    if (result == WG_H1_OK)
        result = wg_h1_parse_fields(p, end, &ret_request->fields, ret_why);
    if (result == WG_H1_OK)
        result = wg_h1_parse_framing(&ret_request->fields, ret_request->version, &framing, ret_why);
    if (result != WG_H1_OK)
        return result;

    const char *why = parse_target(ret_request, &absolute);
    if (!why)
        why = check_host(ret_request, absolute);
    if (why)
        return wg_h1_bad(ret_why, why);
    ret_request->body = framing.chunked      ? WG_BODY_CHUNKED
                        : framing.has_length ? WG_BODY_LENGTH
                                             : WG_BODY_NONE;
    ret_request->content_length = framing.length;
    ret_request->keep_alive = framing.keep_alive;
    ret_request->expect_continue = wg_h1_expects_continue(ret_request);
    return WG_H1_OK;
}
