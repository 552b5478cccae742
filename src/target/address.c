/* Makes socket addresses and their text. */
#include "address.h"

#include <arpa/inet.h>
#include <string.h>

void address_make(const struct sockaddr *sa, socklen_t len, uint16_t port, struct wg_address *ret_address)
{
    struct wg_address address = {.len = len};
    char ip[INET6_ADDRSTRLEN] = "";
    WG_ASSERT(len <= sizeof(address.sa));
    memcpy(&address.sa, sa, len);
    if (sa->sa_family == AF_INET6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&address.sa;
        in6->sin6_port = htons(port);
        inet_ntop(AF_INET6, &in6->sin6_addr, ip, sizeof(ip));
        address.text = wg_xasprintf("[%s]:%u", ip, (unsigned)port);
    } else {
        struct sockaddr_in *in = (struct sockaddr_in *)&address.sa;
        in->sin_port = htons(port);
        inet_ntop(AF_INET, &in->sin_addr, ip, sizeof(ip));
        address.text = wg_xasprintf("%s:%u", ip, (unsigned)port);
    }
    *ret_address = address;
}

void address_loopback(int family, uint16_t port, struct wg_address *ret_address)
{
    const struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    if (family == AF_INET6)
        address_make((const struct sockaddr *)&in6, sizeof(in6), port, ret_address);
    else
        address_make((const struct sockaddr *)&in, sizeof(in), port, ret_address);
}

bool address_equal(const struct wg_address *a, const struct wg_address *b)
{
    return a->len == b->len && strcmp(a->text, b->text) == 0;
}
