/* Who listens on a port: from the kernel's socket diagnosis, or from its tables in /proc. */
#include "listeners.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "wakegate/base/obj.h"

enum {
    TCP_LISTENING = 0x0a,
    OTHERS_MAX = 1024, /* listeners come first in the table: behind so many others there are no more */
};

struct found {
    struct listener *listeners;
    size_t n, max;
};

/* The family of the loopback address that leads to who listens on `ip`; AF_UNSPEC if none does. */
static int reach(int family, const uint8_t *ip, bool v6_only)
{
    static const uint8_t any[16] = {0}, v4_loopback[4] = {127, 0, 0, 1}, v6_loopback[16] = {[15] = 1};
    static const uint8_t mapped[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};
    if (family == AF_INET)
        return memcmp(ip, any, 4) == 0 || memcmp(ip, v4_loopback, 4) == 0 ? AF_INET : AF_UNSPEC;
    if (memcmp(ip, any, 16) == 0)
        return v6_only ? AF_INET6 : AF_INET;
    if (memcmp(ip, mapped, 16) == 0)
        return AF_INET;
    return memcmp(ip, v6_loopback, 16) == 0 ? AF_INET6 : AF_UNSPEC;
}

static void add(struct found *found, int family, const uint8_t *ip, bool v6_only, unsigned long inode)
{
    const int leads = reach(family, ip, v6_only);
    if (leads != AF_UNSPEC && found->n < found->max)
        found->listeners[found->n++] = (struct listener){.family = leads, .inode = inode};
}

/* ---- socket diagnosis ---- */

static bool is_v6_only(struct nlmsghdr *message)
{
    struct inet_diag_msg *diag = NLMSG_DATA(message);
    unsigned left = message->nlmsg_len - (unsigned)NLMSG_LENGTH(sizeof(*diag));
    for (struct rtattr *attr = (struct rtattr *)(diag + 1); RTA_OK(attr, left); attr = RTA_NEXT(attr, left))
        if (attr->rta_type == INET_DIAG_SKV6ONLY)
            return *(const uint8_t *)RTA_DATA(attr) != 0;
    return false;
}

/* One datagram of the dump: 1 when it was the last, 0 when more follow, negative errno. */
static int take_datagram(struct nlmsghdr *message, unsigned len, uint16_t port, struct found *found)
{
    for (; NLMSG_OK(message, len); message = NLMSG_NEXT(message, len)) {
        if (message->nlmsg_type == NLMSG_DONE)
            return 1;
        if (message->nlmsg_type == NLMSG_ERROR)
            return -EOPNOTSUPP;
        if (message->nlmsg_len < NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
            continue;
        const struct inet_diag_msg *diag = NLMSG_DATA(message);
        if (ntohs(diag->id.idiag_sport) == port)
            add(found, diag->idiag_family, (const uint8_t *)diag->id.idiag_src, is_v6_only(message),
                diag->idiag_inode);
    }
    return 0;
}

/* 0, or a negative errno when this kernel cannot tell. */
static int ask_kernel(int family, uint16_t port, struct found *found)
{
    WG_AUTO_CLOSE int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    const struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 request;
    } ask = {
        .header = {.nlmsg_len = sizeof(ask),
                   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .request = {.sdiag_family = (uint8_t)family,
                    .sdiag_protocol = IPPROTO_TCP,
                    .idiag_states = 1U << TCP_LISTENING},
    };
    if (fd < 0 || send(fd, &ask, sizeof(ask), 0) < 0)
        return -errno;
    for (;;) {
        _Alignas(struct nlmsghdr) char buf[16384];
        const ssize_t len = recv(fd, buf, sizeof(buf), MSG_DONTWAIT); /* a dump is there when send returns */
        if (len <= 0)
            return len < 0 ? -errno : -EPIPE;
        const int result = take_datagram((struct nlmsghdr *)buf, (unsigned)len, port, found);
        if (result != 0)
            return result < 0 ? result : 0;
    }
}

/* ---- /proc/net ---- */

/* "00000000000000000000000001000000" or "0100007F": words of four bytes in the machine's order. */
static bool parse_ip(const char *text, int family, uint8_t *bytes)
{
    const size_t words = family == AF_INET ? 1 : 4;
    for (size_t i = 0; i < words; i++) {
        uint32_t word;
        if (sscanf(text + 8 * i, "%8" SCNx32, &word) != 1)
            return false;
        memcpy(bytes + 4 * i, &word, 4);
    }
    return true;
}

/* These tables do not tell a socket of IPv6 alone from a dual one, which is the usual kind. */
static bool take_line(const char *line, int family, uint16_t port, struct found *found)
{
    char ip_text[40];
    uint8_t ip[16];
    unsigned of_port, state;
    unsigned long inode;
    if (sscanf(line, " %*d: %32[0-9A-F]:%4x %*[0-9A-F]:%*x %2x %*x:%*x %*x:%*x %*x %*u %*d %lu", ip_text,
               &of_port, &state, &inode) != 4)
        return false;
    if (state == TCP_LISTENING && of_port == port && parse_ip(ip_text, family, ip))
        add(found, family, ip, false, inode);
    return state == TCP_LISTENING;
}

static void read_table(const char *path, int family, uint16_t port, struct found *found)
{
    char line[512];
    int others = 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    while (others < OTHERS_MAX && fgets(line, sizeof(line), file))
        others = take_line(line, family, port, found) ? 0 : others + 1;
    fclose(file);
}

size_t listeners_find(uint16_t port, struct listener *listeners, size_t max)
{
    struct found found = {.listeners = listeners, .max = max};
    if (ask_kernel(AF_INET, port, &found) == 0 && ask_kernel(AF_INET6, port, &found) == 0)
        return found.n;
    found.n = 0;
    read_table("/proc/net/tcp", AF_INET, port, &found);
    read_table("/proc/net/tcp6", AF_INET6, port, &found);
    return found.n;
}
