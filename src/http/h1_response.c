/* The strict parser of HTTP/1.1 response heads: status line and framing (RFC 9112 6.3). A model server is
 * trusted no more than a client. */
#include "h1.h"

/* HTTP/1.x SP 3DIGIT [SP reason] CRLF; *at moves behind it. The reason is checked and forgotten. */
static enum wg_h1_result parse_line(const char **at, struct wg_response *response, const char **ret_why)
{
    const char *p = *at;
    int version = wg_h1_version(p);
    if (version < 0)
        return wg_h1_bad(ret_why, "answer does not start with an HTTP version");
    p += WG_H1_VERSION_LEN;
    if (version == 0) {
        *ret_why = "HTTP version is neither 1.0 nor 1.1";
        return WG_H1_VERSION;
    }
    response->version = (unsigned)version;
    if (*p != ' ')
        return wg_h1_bad(ret_why, "no space before the status");
    int status = 0;
    for (int i = 0; i < 3; i++) {
        if (!wg_h1_is(*++p, WG_H1_DIGIT))
            return wg_h1_bad(ret_why, "status is not three digits");
        status = status * 10 + (*p - '0');
    }
    if (status < 100 || status > 599)
        return wg_h1_bad(ret_why, "status is not between 100 and 599");
    response->status = status;
    p++;
    if (*p == ' ') {
        while (wg_h1_is(*p, WG_H1_VCHAR))
            p++;
    }
    if (p[0] == '\n')
        return wg_h1_bad(ret_why, "bare LF as line end");
    if (p[0] != '\r' || p[1] != '\n')
        return wg_h1_bad(ret_why, "byte that is not allowed in a status line");
    *at = p + 2;
    return WG_H1_OK;
}

static enum wg_h1_result set_body(struct wg_response *response, const struct wg_h1_framing *framing,
                                  bool to_head, const char **ret_why)
{
    bool announced = framing->chunked || framing->length > 0;
    if (response->status < 200 && (framing->chunked || framing->has_length))
        return wg_h1_bad(ret_why, "interim answer with a body");
    response->content_length = framing->length;
    response->keep_alive = framing->keep_alive;
    if (to_head || response->status < 200 || response->status == 204 || response->status == 304) {
        response->body = WG_BODY_NONE;
        /* A body that comes against the rules would be read as the next answer. */
        if (response->status == 204 && announced)
            response->keep_alive = false;
    } else if (framing->chunked) {
        response->body = WG_BODY_CHUNKED;
    } else if (framing->has_length) {
        response->body = WG_BODY_LENGTH;
    } else {
        response->body = WG_BODY_CLOSE;
        response->keep_alive = false;
    }
    return WG_H1_OK;
}

enum wg_h1_result wg_h1_parse_response(const char *data, size_t len, struct wg_slice request_method,
                                       struct wg_response *ret_response, const char **ret_why)
{
    struct wg_h1_framing framing;
    const char *p = data, *end;
    enum wg_h1_result result = wg_h1_check_head(data, len, &end, ret_why);
    if (result == WG_H1_OK)
        result = parse_line(&p, ret_response, ret_why);
    if (result == WG_H1_OK)
        result = wg_h1_parse_fields(p, end, &ret_response->fields, ret_why);
    if (result == WG_H1_OK)
        result = wg_h1_parse_framing(&ret_response->fields, ret_response->version, &framing, ret_why);
    if (result != WG_H1_OK)
        return result;
    return set_body(ret_response, &framing, wg_slice_eq(request_method, WG_SLICE("HEAD")), ret_why);
}
