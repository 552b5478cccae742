/* The call of a hook: a request to whoever puts a model to sleep or wakes it, tried again while that may
 * help. */
#pragma once

#include "wakegate/config.h"
#include "wakegate/fetch.h"

struct hook;

struct hook_order {
    const struct wg_config_hook *hook;
    const char *name;  /* "wake hook" */
    const char *model; /* for the log */
    /* No more tries than this (0: any number), and none after so long. An answer that more tries will not
     * change is the last one anyway. */
    unsigned tries;
    wg_usec patience;
    void (*trouble)(void *arg, const char *why); /* a try that is repeated; NULL: nobody minds */
    /* why is NULL when it was answered with a 2xx. Exactly once, never from inside a call; the hook is no
     * more when it returns. */
    void (*done)(void *arg, const char *why);
    void *arg;
};

struct hook *hook_call(struct wg_loop *loop, struct wg_fetch *fetch, const struct hook_order *order);
/* Its patience begins anew. */
void hook_renew(struct hook *hook);
/* done is not called. NULL-safe, returns NULL. */
struct hook *hook_cancel(struct hook *hook);
