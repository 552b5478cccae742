/* Names to addresses, on a short-lived thread of its own for each question: getaddrinfo may take its time. */
#pragma once

#include "wakegate/config.h"
#include "wakegate/event.h"

struct resolve; /* a question under way */

enum { RESOLVE_MAX = 64 }; /* addresses of one name; more are left out */

struct resolve_answer {
    struct wg_address
        *addresses; /* borrowed; IPv4 if there is any, else IPv6: one server is not two endpoints */
    size_t n;
    const char *error; /* words, "" if it worked */
};

/* `done` comes by the mailbox, on its loop, exactly once unless cancelled. 0 or -errno. */
WG_MUST_CHECK int resolve_start(struct wg_mailbox *mailbox, const char *host, uint16_t port,
                                void (*done)(void *arg, const struct resolve_answer *answer), void *arg,
                                struct resolve **ret_resolve);
/* Does not wait for the thread. NULL-safe, returns NULL. */
struct resolve *resolve_cancel(struct resolve *resolve);
/* A host that is an address already: true, and no question is needed. */
bool resolve_is_address(const char *host, uint16_t port, struct wg_address *ret_address);
