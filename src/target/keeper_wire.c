/* Packs and unpacks the messages between us and the keeper; decides nothing. */
#include "keeper_wire.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int wire_pack_order(struct wg_buf *packet, const struct order *order, const char *dir, char *const *args,
                    char *const *env)
{
    wg_buf_init(packet, WIRE_MAX);
    wg_buf_add(packet, order, sizeof(*order));
    if (order->kind == ORDER_START) {
        wg_buf_add(packet, dir, strlen(dir) + 1);
        for (uint32_t i = 0; i < order->n_args; i++)
            wg_buf_add(packet, args[i], strlen(args[i]) + 1);
        for (uint32_t i = 0; i < order->n_env; i++)
            wg_buf_add(packet, env[i], strlen(env[i]) + 1);
    }
    return packet->failed ? -E2BIG : 0;
}

/* The next string of the packet, NULL if there is none. */
static char *take_string(char **at, const char *end)
{
    char *text = *at;
    char *nul = memchr(text, '\0', (size_t)(end - text));
    if (nul)
        *at = nul + 1;
    return nul ? text : NULL;
}

static char **take_strings(char **at, const char *end, size_t n)
{
    if (n > (size_t)(end - *at)) /* each has a NUL at least */
        return NULL;
    char **strings = wg_xcalloc(n + 1, sizeof(*strings));
    for (size_t i = 0; i < n; i++) {
        strings[i] = take_string(at, end);
        if (!strings[i]) {
            free(strings);
            return NULL;
        }
    }
    return strings;
}

int wire_unpack_order(char *packet, size_t len, struct order *ret_order, struct order_strings *ret_strings)
{
    struct order order;
    struct order_strings strings = {0};
    if (len < sizeof(order))
        return -EBADMSG;
    memcpy(&order, packet, sizeof(order));
    if (order.kind == ORDER_START) {
        char *at = packet + sizeof(order);
        const char *end = packet + len;
        strings.dir = take_string(&at, end);
        strings.args = strings.dir && order.n_args > 0 ? take_strings(&at, end, order.n_args) : NULL;
        strings.env = strings.args ? take_strings(&at, end, order.n_env) : NULL;
        strings.n_env = order.n_env;
        if (!strings.env) {
            free(strings.args);
            return -EBADMSG;
        }
    } else if (order.kind != ORDER_STOP && order.kind != ORDER_END) {
        return -EBADMSG;
    }
    *ret_order = order;
    *ret_strings = strings;
    return 0;
}

union fd_space {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

int wire_send_event(int socket, const struct keeper_event *event, int fd)
{
    union fd_space space = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)event, .iov_len = sizeof(*event)};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = &space;
        message.msg_controllen = sizeof(space.bytes);
        space.header.cmsg_level = SOL_SOCKET;
        space.header.cmsg_type = SCM_RIGHTS;
        space.header.cmsg_len = CMSG_LEN(sizeof(fd));
        memcpy(CMSG_DATA(&space.header), &fd, sizeof(fd));
    }
    ssize_t sent;
    do
        sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : 0;
}

int wire_receive_event(int socket, struct keeper_event *ret_event, int *ret_fd)
{
    union fd_space space = {0};
    struct keeper_event event = {0};
    struct iovec iov = {.iov_base = &event, .iov_len = sizeof(event)};
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &space, .msg_controllen = sizeof(space.bytes)};
    ssize_t got;
    do
        got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got <= 0)
        return got < 0 ? -errno : 0;

    int fd = -1;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    if (got != sizeof(event)) {
        if (fd >= 0)
            close(fd);
        return -EBADMSG;
    }
    event.text[sizeof(event.text) - 1] = '\0';
    *ret_event = event;
    *ret_fd = fd;
    return 1;
}
