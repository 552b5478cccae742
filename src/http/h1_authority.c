/* The grammar of an authority, host[:port], as Host and request targets carry it. Narrower than RFC 3986: no
 * user information, no percent-encoding and no delimiters in names, since what is no host name anywhere only
 * serves to confuse. */
#include "h1.h"

#include <arpa/inet.h>

enum { NAME_MAX_LEN = 255 };

/* The length of "[IPv6]" at the start; 0 if it is not one. */
static size_t ip_literal(struct wg_slice s)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;
    const char *close = memchr(s.ptr, ']', s.len);
    if (!close)
        return 0;
    size_t len = (size_t)(close - s.ptr) - 1;
    if (len >= sizeof(text) || memchr(s.ptr, '\0', len + 1))
        return 0;
    memcpy(text, s.ptr + 1, len);
    text[len] = '\0';
    return inet_pton(AF_INET6, text, &address) == 1 ? len + 2 : 0;
}

static size_t reg_name(struct wg_slice s)
{
    size_t len = wg_h1_span(s, WG_H1_HOST);
    return len <= NAME_MAX_LEN ? len : 0;
}

bool wg_h1_is_authority(struct wg_slice authority, bool *ret_has_port)
{
    if (authority.len == 0)
        return false;
    size_t host = authority.ptr[0] == '[' ? ip_literal(authority) : reg_name(authority);
    if (host == 0)
        return false;
    bool has_port = host < authority.len;
    if (has_port) {
        uint64_t port = 0;
        struct wg_slice digits = wg_slice(authority.ptr + host + 1, authority.len - host - 1);
        if (authority.ptr[host] != ':' || digits.len > 5 || wg_slice_to_u64(digits, &port) < 0 ||
            port > UINT16_MAX)
            return false;
    }
    *ret_has_port = has_port;
    return true;
}
