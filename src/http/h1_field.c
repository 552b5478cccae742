/* Field sections of HTTP/1.1: where a head ends, its field lines, and what Connection, Content-Length and
 * Transfer-Encoding mean together. Whatever two parties could read differently is refused. The first lines
 * are the matter of h1_request.c and h1_response.c. */
#include "h1.h"

#define SPECIAL_T (WG_H1_TCHAR | WG_H1_VCHAR | WG_H1_URI)
#define SPECIAL   (WG_H1_VCHAR | WG_H1_URI)
#define NAME_T    (WG_H1_TCHAR | WG_H1_VCHAR | WG_H1_URI | WG_H1_HOST)

const uint8_t wg_h1_class[256] = {
    ['\t'] = WG_H1_VCHAR,
    [' '] = WG_H1_VCHAR,
    ['!'] = SPECIAL_T,
    ['"'] = WG_H1_VCHAR,
    ['#'] = WG_H1_TCHAR | WG_H1_VCHAR,
    ['$' ... '\''] = SPECIAL_T,
    ['(' ... ')'] = SPECIAL,
    ['*' ... '+'] = SPECIAL_T,
    [','] = SPECIAL,
    ['-' ... '.'] = NAME_T,
    ['/'] = SPECIAL,
    ['0' ... '9'] = NAME_T | WG_H1_DIGIT,
    [':' ... ';'] = SPECIAL,
    ['<'] = WG_H1_VCHAR,
    ['='] = SPECIAL,
    ['>'] = WG_H1_VCHAR,
    ['?' ... '@'] = SPECIAL,
    ['A' ... 'Z'] = NAME_T,
    ['['] = SPECIAL,
    ['\\'] = WG_H1_VCHAR,
    [']'] = SPECIAL,
    ['^'] = SPECIAL_T,
    ['_'] = NAME_T,
    ['`'] = SPECIAL_T,
    ['a' ... 'z'] = NAME_T,
    ['{'] = SPECIAL,
    ['|'] = SPECIAL_T,
    ['}'] = SPECIAL,
    ['~'] = NAME_T,
    [0x80 ... 0xff] = WG_H1_VCHAR,
};

/* The length of the blank line at p; 0 if there is none, -1 if the bytes do not say yet. CR without LF counts
 * as one: nothing good can follow it. */
static int blank_line(const char *p, size_t len)
{
    if (len == 0)
        return -1;
    if (*p == '\n')
        return 1;
    if (*p != '\r')
        return 0;
    return len == 1 ? -1 : 2;
}

size_t wg_h1_head_end(const char *data, size_t len, size_t *scanned)
{
    int blank = *scanned == 0 ? blank_line(data, len) : 0;
    if (blank > 0)
        return (size_t)blank;
    if (blank < 0)
        return 0;
    while (*scanned < len) {
        const char *lf = memchr(data + *scanned, '\n', len - *scanned);
        if (!lf) {
            *scanned = len;
            return 0;
        }
        size_t next = (size_t)(lf - data) + 1;
        blank = blank_line(data + next, len - next);
        if (blank > 0)
            return next + (size_t)blank;
        *scanned = next - (blank < 0 ? 1 : 0);
        if (blank < 0)
            return 0;
    }
    return 0;
}

enum wg_h1_result wg_h1_check_head(const char *data, size_t len, const char **ret_end, const char **ret_why)
{
    static const char crlf_crlf[] = "\r\n\r\n";
    if (len == 0)
        return wg_h1_bad(ret_why, "empty head");
    if (data[0] == '\r' || data[0] == '\n')
        return wg_h1_bad(ret_why, "empty line before the head");
    if (len < 4 || memcmp(data + len - 4, crlf_crlf, 4) != 0) {
        if (data[len - 1] == '\n')
            return wg_h1_bad(ret_why, "bare LF as line end");
        return wg_h1_bad(ret_why, "bare CR, or no blank line after the head");
    }
    *ret_end = data + len - 2;
    return WG_H1_OK;
}

int wg_h1_version(const char *p)
{
    static const char prefix[] = "HTTP/";
    for (size_t i = 0; i < sizeof(prefix) - 1; i++) {
        if (p[i] != prefix[i])
            return -1;
    }
    p += sizeof(prefix) - 1;
    if (!wg_h1_is(p[0], WG_H1_DIGIT) || p[1] != '.' || !wg_h1_is(p[2], WG_H1_DIGIT))
        return -1;
    if (p[0] != '1' || p[2] > '1')
        return 0;
    return p[2] == '1' ? 11 : 10;
}

/* ---- field lines ---- */

static const char *why_not_name(const char *start, const char *p)
{
    bool empty = p == start;
    switch (*p) {
    case ':':
        return "empty field name";
    case ' ':
    case '\t':
        return empty ? "folded field line" : "space in a field name or before its colon";
    case '\n':
        return "bare LF as line end, or field without a colon";
    case '\r':
        return empty ? "empty line inside the head" : "field without a colon";
    default:
        return "byte that is not allowed in a field name";
    }
}

static const char *why_not_value(const char *p)
{
    switch (*p) {
    case '\n':
        return "bare LF as line end";
    case '\r':
        return "bare CR in a field value";
    case '\0':
        return "NUL in a field value";
    default:
        return "control character in a field value";
    }
}

/* White space around a framing field is legal, and read differently by too many. One leading run of spaces is
 * what honest senders write. */
static bool framing_padded(const char *colon, struct wg_slice value, const char *line_end)
{
    return value.ptr + value.len != line_end || memchr(colon, '\t', (size_t)(value.ptr - colon)) != NULL;
}

enum wg_h1_result wg_h1_add_field(struct wg_fields *fields, uint64_t *seen, struct wg_slice name,
                                  struct wg_slice value, const char **ret_why)
{
    _Static_assert(WG_TOKEN_COUNT <= 64, "one bit for each token");
    if (WG_UNLIKELY(wg_fields_add(fields, name, value) < 0))
        return wg_h1_too_large(ret_why, "too many fields");
    enum wg_token token = fields->items[fields->n - 1].token;
    if ((wg_token_flags(token) & WG_FIELD_SINGLE) && (*seen & UINT64_C(1) << token))
        return wg_h1_bad(ret_why, wg_token_repeated(token));
    *seen |= UINT64_C(1) << token;
    return WG_H1_OK;
}

/* Parses one line at *at and moves *at behind it. */
static enum wg_h1_result parse_field(const char **at, struct wg_fields *fields, uint64_t *seen,
                                     const char **ret_why)
{
    const char *start = *at, *p = start;
    while (wg_h1_is(*p, WG_H1_TCHAR))
        p++;
    if (WG_UNLIKELY(p == start || *p != ':'))
        return wg_h1_bad(ret_why, why_not_name(start, p));
    const char *colon = p++;
    while (*p == ' ' || *p == '\t')
        p++;
    struct wg_slice name = wg_slice(start, (size_t)(colon - start)), value = wg_slice(p, 0);
    while (wg_h1_is(*p, WG_H1_VCHAR))
        p++;
    if (WG_UNLIKELY(p[0] != '\r' || p[1] != '\n'))
        return wg_h1_bad(ret_why, why_not_value(p));
    *at = p + 2;
    value.len = (size_t)(p - value.ptr);
    while (value.len > 0 && (value.ptr[value.len - 1] == ' ' || value.ptr[value.len - 1] == '\t'))
        value.len--;

    enum wg_h1_result result = wg_h1_add_field(fields, seen, name, value, ret_why);
    if (result != WG_H1_OK)
        return result;
    if (WG_UNLIKELY((wg_token_flags(fields->items[fields->n - 1].token) & WG_FIELD_FRAMING) &&
                    framing_padded(colon, value, p)))
        return wg_h1_bad(ret_why, "white space around the value of a framing field");
    return WG_H1_OK;
}

enum wg_h1_result wg_h1_parse_fields(const char *p, const char *end, struct wg_fields *ret_fields,
                                     const char **ret_why)
{
    uint64_t seen = 0;
    ret_fields->n = 0;
    while (p < end) {
        enum wg_h1_result result = parse_field(&p, ret_fields, &seen, ret_why);
        if (result != WG_H1_OK)
            return result;
    }
    return WG_H1_OK;
}

/* ---- framing ---- */

enum { CONNECTION_OPTIONS_MAX = 32 };

struct connection_options {
    unsigned n;
    bool close, keep_alive;
};

/* A field that Connection names is for this hop only; but nobody makes us lose what we decide by. */
static void mark_hop(struct wg_fields *fields, struct wg_slice name)
{
    for (unsigned i = 0; i < fields->n; i++) {
        struct wg_field *field = &fields->items[i];
        if (!field->hop && wg_slice_eq_nocase(field->name, name) &&
            !(wg_token_flags(field->token) & WG_FIELD_KEPT))
            field->hop = true;
    }
}

static enum wg_h1_result parse_connection(struct wg_fields *fields, struct wg_slice value,
                                          struct connection_options *options, const char **ret_why)
{
    struct wg_slice option;
    while (wg_slice_split(&value, ',', &option)) {
        if (++options->n > CONNECTION_OPTIONS_MAX)
            return wg_h1_bad(ret_why, "too many options in Connection");
        option = wg_slice_trim(option);
        if (option.len == 0)
            continue;
        if (wg_h1_span(option, WG_H1_TCHAR) < option.len)
            return wg_h1_bad(ret_why, "Connection is not a list of names");
        if (wg_slice_eq_nocase(option, WG_SLICE("close")))
            options->close = true;
        else if (wg_slice_eq_nocase(option, WG_SLICE("keep-alive")))
            options->keep_alive = true;
        else
            mark_hop(fields, option);
    }
    return WG_H1_OK;
}

static enum wg_h1_result parse_length(struct wg_slice value, struct wg_h1_framing *framing,
                                      const char **ret_why)
{
    if (wg_slice_to_u64(value, &framing->length) < 0 || framing->length > INT64_MAX)
        return wg_h1_bad(ret_why, "Content-Length is not one decimal number below 2^63");
    framing->has_length = true;
    return WG_H1_OK;
}

static enum wg_h1_result parse_coding(struct wg_slice value, unsigned version, struct wg_h1_framing *framing,
                                      const char **ret_why)
{
    if (!wg_slice_eq_nocase(value, WG_SLICE("chunked")))
        return wg_h1_bad(ret_why, "Transfer-Encoding is not just chunked");
    if (version < 11)
        return wg_h1_bad(ret_why, "Transfer-Encoding in HTTP/1.0");
    framing->chunked = true;
    return WG_H1_OK;
}

enum wg_h1_result wg_h1_parse_framing(struct wg_fields *fields, unsigned version,
                                      struct wg_h1_framing *ret_framing, const char **ret_why)
{
    struct wg_h1_framing framing = {0};
    struct connection_options options = {0};
    for (unsigned i = 0; i < fields->n; i++) {
        struct wg_slice value = fields->items[i].value;
        enum wg_h1_result result = WG_H1_OK;
        switch (fields->items[i].token) {
        case WG_TOKEN_CONNECTION:
            result = parse_connection(fields, value, &options, ret_why);
            break;
        case WG_TOKEN_CONTENT_LENGTH:
            result = parse_length(value, &framing, ret_why);
            break;
        case WG_TOKEN_TRANSFER_ENCODING:
            result = parse_coding(value, version, &framing, ret_why);
            break;
        default:
            break;
        }
        if (result != WG_H1_OK)
            return result;
    }
    if (framing.chunked && framing.has_length)
        return wg_h1_bad(ret_why, "both Transfer-Encoding and Content-Length");
    framing.keep_alive = !options.close && (version >= 11 || options.keep_alive);
    *ret_framing = framing;
    return WG_H1_OK;
}
