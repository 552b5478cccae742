/* HTTP calls to the slow world (probes, hooks, later the API server): libcurl's multi interface on a loop,
 * HTTP/1.1 forced. Belongs to the loop's thread. Never used for clients' requests. */
#pragma once

#include "wakegate/base/buf.h"
#include "wakegate/event.h"

struct wg_fetch;      /* the engine of one loop */
struct wg_fetch_call; /* one call under way */

enum wg_fetch_result {
    WG_FETCH_DONE,     /* an answer came, whatever its status */
    WG_FETCH_CONNECT,  /* refused, unreachable, or no connection in time */
    WG_FETCH_BROKEN,   /* connected, then reset, closed or nonsense before a complete answer */
    WG_FETCH_TIMEOUT,  /* connected, but no complete answer within `timeout` */
    WG_FETCH_TOO_LARGE /* the answer is larger than `max_answer` */
};

struct wg_fetch_answer {
    enum wg_fetch_result result;
    long status;          /* 0 unless DONE */
    struct wg_slice body; /* borrowed for the call */
    const char *error;    /* words for people when not DONE, else "" */
    wg_usec connected;    /* time from the start until the connection stood; -1 if it never did */
    wg_usec took;
};

struct wg_fetch_request {
    const char *method; /* "GET", "POST" */
    const char *url;
    struct wg_slice body; /* copied; empty: none. Sent as application/json */
    const char *bearer;   /* NULL or "": none; secret */
    wg_usec connect_timeout, timeout;
    size_t max_answer;
    bool fresh; /* a connection of its own, closed after the call */
    void (*done)(void *arg,
                 const struct wg_fetch_answer
                     *answer); /* exactly once, never from inside wg_fetch_start; not after cancel */
    void *arg;
};

struct wg_fetch *wg_fetch_new(struct wg_loop *loop);
/* Ends all calls under way without telling them. Not from inside a done(). NULL-safe. */
struct wg_fetch *wg_fetch_free(struct wg_fetch *fetch);
/* NULL if it could not be started (out of memory, an impossible URL or key). Valid until done is called. */
struct wg_fetch_call *wg_fetch_start(struct wg_fetch *fetch, const struct wg_fetch_request *request);
/* Closes its connection; done is not called. NULL-safe. */
void wg_fetch_cancel(struct wg_fetch_call *call);
