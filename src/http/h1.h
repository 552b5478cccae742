/* What the HTTP/1.1 request, response and chunk parsers share, and HTTP/2's heads with them. Private to this
 * room. */
#pragma once

#include "wakegate/http.h"

/* Character classes of RFC 9110 and RFC 3986, narrowed where parties are known to read a byte differently. */
enum {
    WG_H1_TCHAR = 1 << 0, /* of a token: method, field name */
    WG_H1_VCHAR = 1 << 1, /* of a field value: no control but HTAB; bytes from 0x80 are opaque */
    WG_H1_URI = 1 << 2,   /* of a request target */
    WG_H1_HOST = 1 << 3,  /* of a host name */
    WG_H1_DIGIT = 1 << 4,
};
extern const uint8_t wg_h1_class[256];

static inline bool wg_h1_is(char c, unsigned classes)
{
    return (wg_h1_class[(unsigned char)c] & classes) != 0;
}

/* How many bytes at the start are of these classes. */
static inline size_t wg_h1_span(struct wg_slice s, unsigned classes)
{
    size_t len = 0;
    while (len < s.len && wg_h1_is(s.ptr[len], classes))
        len++;
    return len;
}

/* The reason to give when a field with WG_FIELD_SINGLE comes twice. */
const char *wg_token_repeated(enum wg_token token);

/* Checks that a head is whole and ends in CRLF CRLF; *ret_end is then the place of the blank line. Since
 * every line before it ends in LF, a scan over a class that has no LF in it needs no other bound. */
enum wg_h1_result wg_h1_check_head(const char *data, size_t len, const char **ret_end, const char **ret_why);

/* Adds a field whose bytes were checked: BAD if it may come only once and did already. *seen, a bit for each
 * token, is 0 before the first. */
enum wg_h1_result wg_h1_add_field(struct wg_fields *fields, uint64_t *seen, struct wg_slice name,
                                  struct wg_slice value, const char **ret_why);

/* Parses the field lines in [p, end), the blank line not included; end[-1] is LF unless there are none. */
enum wg_h1_result wg_h1_parse_fields(const char *p, const char *end, struct wg_fields *ret_fields,
                                     const char **ret_why);

/* What Connection, Content-Length and Transfer-Encoding say together. */
struct wg_h1_framing {
    bool chunked, has_length;
    uint64_t length;
    bool keep_alive; /* by version and Connection */
};
/* Also marks the fields that Connection names as hop-by-hop. version: 10 or 11. */
enum wg_h1_result wg_h1_parse_framing(struct wg_fields *fields, unsigned version,
                                      struct wg_h1_framing *ret_framing, const char **ret_why);

/* host[:port], never empty: a name, IPv4, or IPv6 in brackets; no user information. */
bool wg_h1_is_authority(struct wg_slice authority, bool *ret_has_port);

enum { WG_H1_METHOD_MAX = 32, WG_H1_TARGET_MAX = 8 * 1024 };
/* Splits request->target into path and query. Returns what is wrong unless it is a path or, for OPTIONS, "*".
 */
const char *wg_h1_split_target(struct wg_request *request);
/* By the Expect field; version and body are known. */
bool wg_h1_expects_continue(const struct wg_request *request);
/* Framing, routing, credential and content fields may not (RFC 9110 6.5.1). */
bool wg_h1_may_be_trailer(const struct wg_field *field);

/* Reads "HTTP/d.d" at p (inside a checked head): 10 or 11; 0 for another version, -1 if it is not one. */
int wg_h1_version(const char *p);
enum { WG_H1_VERSION_LEN = 8 };

static inline enum wg_h1_result wg_h1_bad(const char **ret_why, const char *why)
{
    *ret_why = why;
    return WG_H1_BAD;
}

static inline enum wg_h1_result wg_h1_too_large(const char **ret_why, const char *why)
{
    *ret_why = why;
    return WG_H1_TOO_LARGE;
}
