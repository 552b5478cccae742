/* HTTP calls to the slow world (probes, hooks, the API server): libcurl's multi interface on a loop,
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
    struct wg_slice body; /* borrowed for the call; empty if it went to `data` */
    wg_usec retry_after;  /* of the field Retry-After in seconds; 0: none */
    const char *error;    /* words for people when not DONE, else "" */
    wg_usec connected;    /* time from the start until the connection stood; -1 if it never did */
    wg_usec took;
};

/* How a server is told by its certificate, and we by ours. PEM texts, NULL: none; borrowed until the call is
 * done. */
struct wg_fetch_tls {
    const char *ca;          /* CAs to believe; NULL: the system's */
    const char *cert, *key;  /* ours; the key is secret */
    const char *server_name; /* expected in its certificate in place of the URL's host; NULL: that host */
    bool insecure;           /* its certificate is not looked at */
};

struct wg_fetch_request {
    const char *method; /* "GET", "POST" */
    const char *url;
    struct wg_slice body;           /* copied; empty: none */
    const char *content_type;       /* NULL: application/json */
    const char *bearer;             /* NULL or "": none; secret */
    const struct wg_fetch_tls *tls; /* for https; NULL: the system's CAs, no certificate of ours */
    wg_usec connect_timeout;
    wg_usec timeout;      /* of the whole call; NEVER: none */
    wg_usec idle_timeout; /* TIMEOUT as well when no byte has come for so long; 0: no such limit */
    size_t max_answer;    /* of the body, unless it goes to `data` */
    bool fresh;           /* a connection of its own, closed after the call */
    /* Not NULL: bodies of 2xx go here as they come and are not kept; false ends the call (BROKEN). Another
     * call may be started from inside, this one not be cancelled. */
    bool (*data)(void *arg, struct wg_slice data);
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
