/* What a wake acts on: one interface, several kinds of target. A target knows how to bring instances of its
 * model up and down and where they listen; it does not know whether they answer (the prober's), nor who waits
 * for them (control's). Everything here runs on the service loop, but for wg_keeper_fork, which runs before
 * any thread exists. */
#pragma once

#include "wakegate/base/metrics.h"
#include "wakegate/config.h"
#include "wakegate/event.h"
#include "wakegate/fetch.h"

/* ---- the keeper: the parent of every model process ----
 * A small single-threaded process forked at start. It is the child subreaper, starts and stops whole process
 * groups on orders over a socket pair, reports exits, and on end of file (we died, however) kills all it has.
 */
struct wg_keeper;
struct wg_keeper_seat; /* our end of the socket pair, from fork to attach */

/* Before any thread exists, with no secrets in memory yet. 0 or -errno. In the child it never returns. */
WG_MUST_CHECK int wg_keeper_fork(struct wg_keeper_seat **ret_seat);
/* Nobody will attach: the keeper ends, and is gone when this returns. NULL-safe. */
struct wg_keeper_seat *wg_keeper_seat_free(struct wg_keeper_seat *seat);
/* Takes the seat. */
struct wg_keeper *wg_keeper_attach(struct wg_keeper_seat *seat, struct wg_loop *loop);
/* False once it died under us: no model process lives any more, and none can be started. */
bool wg_keeper_alive(const struct wg_keeper *keeper);
/* Ends the keeper. After the targets were freed: their processes have been told to stop and are waited for,
 * each as long as its stopTimeout; whatever is left then is killed, and the keeper is gone when this returns.
 * NULL-safe. */
struct wg_keeper *wg_keeper_free(struct wg_keeper *keeper);

/* ---- targets ---- */
struct wg_target;

struct wg_target_env {
    struct wg_loop *loop;
    struct wg_keeper *keeper;
    struct wg_fetch *fetch;
};

/* Upward calls, on the service loop, never from inside a call to the target. */
struct wg_target_handler {
    /* An instance has an address and may be probed. `instance` is never used twice: an address that comes
     * back is another instance. */
    void (*found)(void *arg, uint64_t instance, const struct wg_address *address);
    /* It is gone (a process exited, a name no longer resolves to it). `why` in words: "exited with status 1".
     */
    void (*lost)(void *arg, uint64_t instance, const char *why);
    /* A phase of the wake was reached at a monotonic time. `answering` is the prober's to tell. */
    void (*phase)(void *arg, enum wg_phase phase, wg_usec at);
    /* The wake under way is held up by something that may pass by itself: `why` in words, for who asks how
     * far it is; "" when that has passed. */
    void (*trouble)(void *arg, const char *why);
    /* The wake under way cannot succeed; `why` in words for the client and the log. */
    void (*failed)(void *arg, const char *why);
    /* After lost or failed: the same `why` with more of what the process had printed, for operators alone. */
    void (*detail)(void *arg, const char *why);
    /* The sleep under way is done: nothing runs any more (or the sleep hook answered). */
    void (*asleep)(void *arg);
};

/* Keeps a reference to config, copies env and handler. A target without anything to wake (static without a
 * wake hook) tells what it found from its first turn on; all others start asleep. A process that ends while
 * nobody listens yet is a failed wake; one that ends later is lost, even if it has answered no probe yet. */
struct wg_target *wg_target_new(const struct wg_target_env *env, struct wg_config *config,
                                const struct wg_config_model *model, const struct wg_target_handler *handler,
                                void *arg);
/* Brings an instance up unless one is up or coming. Found, phase, failed and lost tell the rest. During a
 * sleep under way the wake starts when that sleep is done (asleep is then not told). What it repeats until it
 * works (a hook) ends with wake.timeout. */
void wg_target_wake(struct wg_target *target);
/* Brings all instances down; each is lost, then asleep is told, once. Ends a wake under way. */
void wg_target_sleep(struct wg_target *target);
/* No handler is called after it; a process is stopped in the background all the same. NULL-safe. */
struct wg_target *wg_target_free(struct wg_target *target);
/* False for a static target without hooks: it neither wakes nor idles. */
bool wg_target_wakes(const struct wg_config_model *model);
