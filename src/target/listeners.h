/* Who listens on a port, without touching it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A listening TCP socket as the kernel tells it. */
struct listener {
    int family; /* of the loopback address that leads to it: AF_INET or AF_INET6 */
    unsigned long inode;
};

/* Those that listen on the port and are reached by a loopback address; how many, at most `max`. Asks the
 * kernel's socket diagnosis (sock_diag(7)), whose cost does not grow with the connections of the machine;
 * where a kernel has none, /proc/net. */
size_t listeners_find(uint16_t port, struct listener *listeners, size_t max);
