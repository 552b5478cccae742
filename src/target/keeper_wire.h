/* What goes over the socket pair between us and the keeper: one message a packet, both ends the same program.
 */
#pragma once

#include <sys/types.h>

#include "wakegate/base/buf.h"
#include "wakegate/base/clock.h"

enum { WIRE_MAX = 64 * 1024, WIRE_TEXT_MAX = 512 };

enum order_kind {
    ORDER_START = 1, /* start a process; strings: working directory, arguments, NAME=value pairs */
    ORDER_STOP,      /* SIGTERM, after `patience` SIGKILL; a second one may shorten the patience */
    ORDER_END,       /* the last order: kill what was not told to stop, end when nothing is left */
};

/* Followed by its strings, each with its NUL. */
struct order {
    uint32_t kind;
    uint32_t n_args, n_env;
    uint64_t id;
    wg_usec patience;
};

enum event_kind {
    EVENT_STARTED = 1,  /* pid; the read end of its output comes along */
    EVENT_START_FAILED, /* text; the last of this id */
    EVENT_EXITED,       /* the main process; status as of waitpid */
    EVENT_GONE,         /* nothing of it is left; the last of this id */
};

struct keeper_event {
    uint32_t kind;
    int32_t pid, status;
    uint64_t id;
    char text[WIRE_TEXT_MAX];
};

/* The strings of an order, pointing into its packet. */
struct order_strings {
    char *dir, **args, **env; /* args ends with NULL; dir may be "" */
    size_t n_env;
};

/* -E2BIG if the packet would be too large. */
WG_MUST_CHECK int wire_pack_order(struct wg_buf *packet, const struct order *order, const char *dir,
                                  char *const *args, char *const *env);
/* Cuts a packet of `len` bytes into its strings; -EBADMSG if it is not whole. Free args and env. */
WG_MUST_CHECK int wire_unpack_order(char *packet, size_t len, struct order *ret_order,
                                    struct order_strings *ret_strings);

/* fd -1: none. 0 or -errno. */
WG_MUST_CHECK int wire_send_event(int socket, const struct keeper_event *event, int fd);
/* 1; 0 at end of file; -errno (-EAGAIN: nothing there). *ret_fd is -1 or the receiver's to close. */
WG_MUST_CHECK int wire_receive_event(int socket, struct keeper_event *ret_event, int *ret_fd);
