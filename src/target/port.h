/* Ports of model processes on this machine: a free one, and who listens where. */
#pragma once

#include <sys/types.h>

#include "wakegate/config.h"
#include "wakegate/target.h"

/* A port of 127.0.0.1 that nobody has, is no process's of the keeper, and is not in the range from which the
 * system takes the ports of outgoing connections; 0 if there is none. */
uint16_t port_choose(const struct wg_keeper *keeper);
/* True if a server could listen on 127.0.0.1:port now. */
bool port_is_free(uint16_t port);

enum port_owner {
    PORT_SILENT,   /* nobody listens */
    PORT_OURS,     /* a process below `leader`; or nobody can tell */
    PORT_STRANGER, /* somebody else */
};

/* Who listens on the port of this machine, where a connection to loopback would arrive. *ret_address (a clear
 * one) and *ret_stranger (0 if unknown) are set as far as they apply. */
enum port_owner port_owner(uint16_t port, pid_t leader, struct wg_address *ret_address, pid_t *ret_stranger);
