/* Our side of the keeper: the processes that it has for us. */
#pragma once

#include "wakegate/base/list.h"
#include "wakegate/target.h"

struct keeper_child; /* a process, from the order to start it until nothing of it is left */

struct keeper_start {
    const char *label; /* whose it is, for the log */
    uint16_t port;     /* that it will listen on */
    const char *dir;   /* "" = Wakegate's own */
    char *const *args; /* the program first */
    size_t n_args;
    char *const *env; /* NAME=value, in addition to Wakegate's own */
    size_t n_env;
};

/* Never called from inside a call of ours. The child is no more once start_failed or gone has returned. */
struct keeper_child_handler {
    /* The descriptor is the handler's; -1 if we had none free to receive it. */
    void (*started)(void *arg, pid_t pid, int output);
    void (*start_failed)(void *arg, const char *why);
    void (*exited)(void *arg, const char *why); /* the main process: "exited with status 1" */
    void (*gone)(void *arg);                    /* all of it */
};

/* 0; -E2BIG when command and environment are too large for an order; -EPIPE when the keeper is dead. */
WG_MUST_CHECK int keeper_start(struct wg_keeper *keeper, const struct keeper_start *start,
                               const struct keeper_child_handler *handler, void *arg,
                               struct keeper_child **ret_child);
/* SIGTERM now, SIGKILL after `patience`. A second call may shorten it. */
void keeper_stop(struct keeper_child *child, wg_usec patience);

/* Whose process has the port, or will have it: its label, and whether it is being stopped; NULL if nobody's.
 */
const char *keeper_port_holder(const struct wg_keeper *keeper, uint16_t port, bool *ret_stopping);
pid_t keeper_pid(const struct wg_keeper *keeper);
