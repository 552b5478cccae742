/* Reading and checking of texts with a form of their own, and the matching of addresses and paths. */
#include "value.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static int parse_port(struct wg_slice text, uint16_t *ret_port)
{
    uint64_t port;

    if (text.len > 5 || wg_slice_to_u64(text, &port) < 0 || port > UINT16_MAX)
        return -EINVAL;
    *ret_port = (uint16_t)port;
    return 0;
}

/* "host:port", "[v6]:port", "host": splits, without looking at the host. *ret_port is "" where there is none.
 */
static int split_host_port(struct wg_slice text, struct wg_slice *ret_host, struct wg_slice *ret_port,
                           bool *ret_v6)
{
    const char *colon;
    struct wg_slice rest = {0};

    *ret_v6 = text.len > 0 && text.ptr[0] == '[';
    if (*ret_v6) {
        const char *close = memchr(text.ptr, ']', text.len);
        if (close == NULL)
            return -EINVAL;
        *ret_host = wg_slice(text.ptr + 1, (size_t)(close - text.ptr) - 1);
        rest = wg_slice(close + 1, text.len - ret_host->len - 2);
    } else {
        colon = text.len > 0 ? memchr(text.ptr, ':', text.len) : NULL;
        *ret_host = colon == NULL ? text : wg_slice(text.ptr, (size_t)(colon - text.ptr));
        rest = wg_slice(text.ptr + ret_host->len, text.len - ret_host->len);
    }
    *ret_port = (struct wg_slice){0};
    if (rest.len == 0)
        return 0;
    if (rest.ptr[0] != ':' || rest.len == 1)
        return -EINVAL;
    *ret_port = wg_slice(rest.ptr + 1, rest.len - 1);
    return 0;
}

/* inet_pton on a slice. */
static bool parse_ip(int family, struct wg_slice text, void *out)
{
    char copy[INET6_ADDRSTRLEN];

    if (text.len == 0 || text.len >= sizeof(copy) || memchr(text.ptr, '\0', text.len) != NULL)
        return false;
    memcpy(copy, text.ptr, text.len);
    copy[text.len] = '\0';
    return inet_pton(family, copy, out) == 1;
}

int wg_address_parse(struct wg_slice text, struct wg_address *ret_address)
{
    struct wg_address address = {0};
    struct sockaddr_in *v4 = (struct sockaddr_in *)&address.sa;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&address.sa;
    char ip[INET6_ADDRSTRLEN];
    struct wg_slice host, port_text;
    uint16_t port;
    bool is_v6;

    if (split_host_port(text, &host, &port_text, &is_v6) < 0 || parse_port(port_text, &port) < 0)
        return -EINVAL;
    if (host.len == 0 && !is_v6) {
        host = WG_SLICE("::");
        is_v6 = true;
    }
    if (is_v6 && parse_ip(AF_INET6, host, &v6->sin6_addr)) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        address.len = sizeof(*v6);
        address.text = wg_xasprintf("[%s]:%u", inet_ntop(AF_INET6, &v6->sin6_addr, ip, sizeof(ip)), port);
    } else if (!is_v6 && parse_ip(AF_INET, host, &v4->sin_addr)) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        address.len = sizeof(*v4);
        address.text = wg_xasprintf("%s:%u", inet_ntop(AF_INET, &v4->sin_addr, ip, sizeof(ip)), port);
    } else {
        return -EINVAL;
    }
    *ret_address = address;
    return 0;
}

void wg_address_clear(struct wg_address *address)
{
    free(address->text);
    *address = (struct wg_address){0};
}

int value_cidr(struct wg_slice text, struct wg_cidr *ret_cidr)
{
    struct wg_cidr cidr = {.family = AF_INET, .bits = 32};
    struct wg_slice rest = text, ip;
    uint64_t bits;

    if (text.len == 0 || !wg_slice_split(&rest, '/', &ip))
        return -EINVAL;
    if (!parse_ip(AF_INET, ip, cidr.bytes)) {
        cidr.family = AF_INET6;
        cidr.bits = 128;
        if (!parse_ip(AF_INET6, ip, cidr.bytes))
            return -EINVAL;
    }
    if (rest.ptr != NULL) {
        if (rest.len > 3 || wg_slice_to_u64(rest, &bits) < 0 || bits > cidr.bits)
            return -EINVAL;
        cidr.bits = (unsigned)bits;
    }
    for (unsigned i = cidr.bits; i < 128; i++)
        cidr.bytes[i / 8] &= (uint8_t) ~(0x80u >> i % 8);
    *ret_cidr = cidr;
    return 0;
}

void value_cidr_format(const struct wg_cidr *cidr, char out[static 64])
{
    char ip[INET6_ADDRSTRLEN];

    snprintf(out, 64, "%s/%u", inet_ntop(cidr->family, cidr->bytes, ip, sizeof(ip)), cidr->bits);
}

static bool bits_equal(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;

    return memcmp(a, b, whole) == 0 && (rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0);
}

bool wg_cidr_contains(const struct wg_cidr *cidrs, size_t n, const struct sockaddr *address)
{
    const uint8_t *bytes;
    int family = address->sa_family;

    if (family == AF_INET) {
        bytes = (const uint8_t *)&((const struct sockaddr_in *)(const void *)address)->sin_addr;
    } else if (family == AF_INET6) {
        const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
        bytes = v6->s6_addr;
        if (IN6_IS_ADDR_V4MAPPED(v6)) { /* an IPv4 client of a socket that takes both */
            family = AF_INET;
            bytes += 12;
        }
    } else {
        return false;
    }
    for (size_t i = 0; i < n; i++)
        if (cidrs[i].family == family && bits_equal(cidrs[i].bytes, bytes, cidrs[i].bits))
            return true;
    return false;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int value_sha256(struct wg_slice hex, uint8_t out[static 32])
{
    uint8_t bytes[32];

    if (hex.len != 64)
        return -EINVAL;
    for (size_t i = 0; i < 32; i++) {
        int high = hex_digit(hex.ptr[2 * i]), low = hex_digit(hex.ptr[2 * i + 1]);
        if (high < 0 || low < 0)
            return -EINVAL;
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    memcpy(out, bytes, 32);
    return 0;
}

const char *value_check_name(struct wg_slice text)
{
    if (text.len == 0 || text.len > 256)
        return "must have 1 to 256 bytes";
    if (wg_slice_has_control(text))
        return "must not have control characters";
    return NULL;
}

const char *value_check_file(struct wg_slice text)
{
    return text.len == 0 ? "must not be empty" : NULL;
}

static bool has_space_or_control(struct wg_slice text)
{
    return wg_slice_has_control(text) || (text.len > 0 && memchr(text.ptr, ' ', text.len) != NULL);
}

const char *value_check_san(struct wg_slice text)
{
    if (text.len == 0 || text.len > 512)
        return "must have 1 to 512 bytes";
    if (has_space_or_control(text))
        return "must not have spaces or control characters";
    return NULL;
}

static bool host_name(struct wg_slice host)
{
    for (size_t i = 0; i < host.len; i++) {
        char c = host.ptr[i], low = (char)(c | 0x20);
        if (!(low >= 'a' && low <= 'z') && !(c >= '0' && c <= '9') && c != '.' && c != '-' && c != '_')
            return false;
    }
    return host.len > 0 && host.len <= 253 && host.ptr[0] != '-';
}

/* The authority of an http URL. */
static int parse_authority(struct wg_slice text, struct wg_slice *ret_host, uint16_t *ret_port)
{
    struct in6_addr v6;
    struct wg_slice port;
    bool is_v6;

    if (split_host_port(text, ret_host, &port, &is_v6) < 0)
        return -EINVAL;
    if (is_v6 ? !parse_ip(AF_INET6, *ret_host, &v6) : !host_name(*ret_host))
        return -EINVAL;
    *ret_port = 80;
    if (port.len > 0 && (parse_port(port, ret_port) < 0 || *ret_port == 0))
        return -EINVAL;
    return 0;
}

/* What is behind "http://", split before its path; NULL or what is wrong. */
static const char *split_url(struct wg_slice text, struct wg_slice *ret_authority, struct wg_slice *ret_path)
{
    static const struct wg_slice scheme = {"http://", 7};

    if (wg_slice_starts_with(text, WG_SLICE("https://")))
        return "has https, which is not available in this version";
    if (!wg_slice_starts_with(text, scheme))
        return "must begin with http://";
    text = wg_slice(text.ptr + scheme.len, text.len - scheme.len);
    size_t len = 0;
    while (len < text.len && strchr("/?#", text.ptr[len]) == NULL)
        len++;
    *ret_authority = wg_slice(text.ptr, len);
    *ret_path = wg_slice(text.ptr + len, text.len - len);
    if (len > 0 && memchr(text.ptr, '@', len) != NULL)
        return "must not have a user name or password in it";
    return NULL;
}

const char *value_check_endpoint(struct wg_slice text)
{
    struct wg_slice authority, path, host;
    uint16_t port;

    const char *wrong = split_url(text, &authority, &path);
    if (wrong != NULL)
        return wrong;
    if (path.len > 0 && !wg_slice_eq(path, WG_SLICE("/")))
        return "must be http://HOST[:PORT] without a path: the request's own path is used";
    return parse_authority(authority, &host, &port) < 0 ? "must be http://HOST[:PORT]" : NULL;
}

int value_endpoint(struct wg_slice text, struct wg_config_endpoint *ret_endpoint)
{
    struct wg_slice authority, path, host;
    uint16_t port;

    if (value_check_endpoint(text) != NULL || split_url(text, &authority, &path) != NULL ||
        parse_authority(authority, &host, &port) < 0)
        return -EINVAL;
    *ret_endpoint = (struct wg_config_endpoint){.host = wg_slice_dup(host), .port = port};
    return 0;
}

const char *value_check_hook(struct wg_slice text)
{
    struct wg_slice authority, path, host;
    uint16_t port;

    if (text.len == 0)
        return NULL;
    const char *wrong = split_url(text, &authority, &path);
    if (wrong != NULL)
        return wrong;
    if (has_space_or_control(text) || memchr(text.ptr, '#', text.len) != NULL ||
        parse_authority(authority, &host, &port) < 0)
        return "must be http://HOST[:PORT]/PATH";
    return NULL;
}

const char *value_check_probe_path(struct wg_slice text)
{
    if (text.len == 0)
        return NULL;
    if (text.ptr[0] != '/')
        return "must begin with \"/\"";
    if (text.len > 1024 || has_space_or_control(text) || memchr(text.ptr, '#', text.len) != NULL)
        return "must be a path without spaces, of at most 1024 bytes";
    return NULL;
}

const char *value_check_path(struct wg_slice text)
{
    struct wg_slice rest = text, segment;

    if (text.len == 0 || text.ptr[0] != '/')
        return "must begin with \"/\"";
    if (text.len > 1024 || has_space_or_control(text) || memchr(text.ptr, '#', text.len) != NULL ||
        memchr(text.ptr, '?', text.len) != NULL)
        return "must be a path without query and spaces, of at most 1024 bytes";
    while (wg_slice_split(&rest, '/', &segment))
        if (segment.len > 1 && memchr(segment.ptr, '*', segment.len) != NULL)
            return "\"*\" stands for one whole segment";
    return NULL;
}

/* The repetitions {n,m} of an expression multiply when nested; regcomp writes them all out. */
const char *value_check_regex(struct wg_slice text)
{
    uint64_t copies = 1;

    if (text.len > 1024)
        return "must have at most 1024 bytes";
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] != '{')
            continue;
        uint64_t largest = 1, number = 0;
        for (i++; i < text.len && ((text.ptr[i] >= '0' && text.ptr[i] <= '9') || text.ptr[i] == ','); i++) {
            number = text.ptr[i] == ','
                         ? 0
                         : WG_MIN(number * 10 + (uint64_t)(text.ptr[i] - '0'), (uint64_t)100000);
            largest = WG_MAX(largest, number);
        }
        copies = WG_MIN(copies * largest, (uint64_t)1000000);
        i--;
    }
    return copies > 1000 ? "has repetitions {n} that multiply to more than 1000" : NULL;
}

/* A segment that "*" may stand for: none that a server might read as another path, once it is decoded. */
static bool harmless_segment(struct wg_slice segment)
{
    size_t dots = 0, characters = 0;

    for (size_t i = 0; i < segment.len; i++, characters++) {
        int c = (unsigned char)segment.ptr[i];
        if (c == '%' && i + 2 < segment.len) {
            int high = hex_digit(segment.ptr[i + 1]), low = hex_digit(segment.ptr[i + 2]);
            if (high >= 0 && low >= 0) {
                c = high << 4 | low;
                i += 2;
            }
        }
        if (c == '/' || c == '\\' || c == '\0')
            return false;
        dots += c == '.';
    }
    return characters > 0 && !(dots == characters && dots <= 2);
}

static bool path_matches(struct wg_slice pattern, struct wg_slice path)
{
    struct wg_slice want, have;

    for (;;) {
        bool more = wg_slice_split(&pattern, '/', &want);
        if (wg_slice_split(&path, '/', &have) != more)
            return false;
        if (!more)
            return true;
        if (wg_slice_eq(want, WG_SLICE("*")) ? !harmless_segment(have) : !wg_slice_eq(want, have))
            return false;
    }
}

bool wg_config_path_allowed(const struct wg_config_model *model, struct wg_slice path)
{
    for (size_t i = 0; i < model->paths.n; i++)
        if (path_matches(wg_slice_str(model->paths.items[i]), path))
            return true;
    return false;
}
