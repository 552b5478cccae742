/* A model's life: its state machine, its queue of held requests, its endpoints and their slots, probes and
 * the ETA. One thread, control, decides; the service loop acts for it (targets and probes). Workers talk to
 * it by tickets and messages, and share with it only immutable views and the slot word of an endpoint. */
#pragma once

#include <stdatomic.h>

#include "wakegate/base/metrics.h"
#include "wakegate/config.h"
#include "wakegate/event.h"
#include "wakegate/target.h"

/* ---- the slot word: one atomic of {in use, limit, waiters, sealed}; every function may be called by any
 * thread ---- take fails when all slots are used, when somebody waits (newcomers do not overtake) or when it
 * is sealed. Control marks `waiters` before it looks for free slots, and a release tells whether the mark was
 * there: so either control sees the slot, or the releaser sees the mark. A sealed word gives nothing any
 * more; releases still count down. */
struct wg_slots {
    _Atomic uint64_t word;
};
enum wg_slot_taken { WG_SLOT_TAKEN, WG_SLOT_FULL, WG_SLOT_WAITERS, WG_SLOT_SEALED };

void wg_slots_init(struct wg_slots *slots, unsigned limit);
enum wg_slot_taken wg_slots_take(struct wg_slots *slots);
/* For a waiter, by control: ignores the mark. */
enum wg_slot_taken wg_slots_take_for_waiter(struct wg_slots *slots);
/* Gives one back; with grow, the limit rises by one up to grow_max in the same step. True if waiters are
 * marked: then control must be told (wg_activator_freed). */
WG_MUST_CHECK bool wg_slots_release(struct wg_slots *slots, bool grow, unsigned grow_max);
void wg_slots_mark_waiters(struct wg_slots *slots, bool waiting);
void wg_slots_set_limit(struct wg_slots *slots, unsigned limit);
/* For scale-down: seals only if nothing is in use; false otherwise. */
WG_MUST_CHECK bool wg_slots_seal_if_idle(struct wg_slots *slots);
/* For an endpoint that is set aside or gone: seals whatever is in use. */
void wg_slots_seal(struct wg_slots *slots);
void wg_slots_unseal(struct wg_slots *slots);
unsigned wg_slots_in_use(const struct wg_slots *slots);
unsigned wg_slots_limit(const struct wg_slots *slots);
bool wg_slots_sealed(const struct wg_slots *slots);

/* ---- endpoints and views ---- */

/* So many failures of live traffic in a row set an endpoint aside; until control has done so, others are
 * preferred to it. */
enum { WG_ENDPOINT_FAILURES = 3 };

/* One address that serves (or served) a model. Counted; shared by all threads. Plain members are immutable,
 * atomics are anybody's. */
struct wg_endpoint {
    _Atomic unsigned refs;
    uint64_t id; /* never used twice */
    struct sockaddr_storage address;
    socklen_t address_len;
    char authority[64];         /* "127.0.0.1:8000", for Host */
    _Atomic unsigned slots_max; /* concurrency.perEndpoint, to grow up to; a reload may change it */
    struct wg_slots slots;
    _Atomic int64_t tokens;    /* outstanding: added by who takes the slot (control for a ticket, else the
                                  worker), taken off by the worker */
    _Atomic int64_t last_used; /* monotonic; set by the worker just before it gives a slot back */
    _Atomic unsigned failures; /* in a row, of live traffic */
};
struct wg_endpoint *wg_endpoint_ref(struct wg_endpoint *endpoint);
struct wg_endpoint *wg_endpoint_unref(struct wg_endpoint *endpoint);

/* COLD: nothing serves and nothing was asked for. WAKING: asked for, nothing proved yet. WARM: at least one
 * endpoint serves. COOLING: sealed, on its way to the minimum. FAILED: the last wake failed; refusing until
 * the back-off is over. */
enum wg_model_state {
    WG_MODEL_COLD,
    WG_MODEL_WAKING,
    WG_MODEL_WARM,
    WG_MODEL_COOLING,
    WG_MODEL_FAILED,
    WG_MODEL_STATES
};
const char *wg_model_state_label(enum wg_model_state state);

/* What a worker needs to know of a model now. Immutable, counted. A new one is published at every change of
 * state, of the list of serving endpoints, or of the ETA. */
struct wg_view {
    _Atomic unsigned refs;
    uint32_t model_id;
    enum wg_model_state state;
    wg_usec expected_at;    /* while WAKING: when it should answer (monotonic); NEVER: unknown */
    wg_usec expected_start; /* learned length of a cold start; 0: none yet */
    size_t n_endpoints;     /* those that serve */
    struct wg_endpoint *endpoints[];
};
struct wg_view *wg_view_ref(struct wg_view *view);
struct wg_view *wg_view_unref(struct wg_view *view);
/* The serving endpoint with the fewest outstanding tokens that gave a slot, or NULL: then the request must be
 * held. The caller adds its tokens, and releases the slot; no reference is added. */
struct wg_endpoint *wg_view_take(const struct wg_view *view);

/* A configuration that control has taken over: model_ids[i] is the id of config->models[i], the same for the
 * same name over reloads. Immutable, counted. */
struct wg_plan {
    _Atomic unsigned refs;
    struct wg_config *config;
    uint32_t n_ids; /* ids in use are below this */
    uint32_t model_ids[];
};
struct wg_plan *wg_plan_ref(struct wg_plan *plan);
struct wg_plan *wg_plan_unref(struct wg_plan *plan);

/* What control publishes to each subscriber, in order: first the views of new models, then the plan that
 * names them. */
struct wg_publication {
    struct wg_mail mail;  /* deliver is the subscriber's; it frees the publication with wg_publication_free */
    struct wg_view *view; /* one of the two, a reference that the receiver takes over */
    struct wg_plan *plan;
};
struct wg_publication *wg_publication_free(struct wg_publication *publication);

/* ---- tickets: a request that waits ---- */
enum wg_verdict {
    WG_VERDICT_NONE,
    WG_VERDICT_DISPATCH, /* `endpoint` (a reference) has a slot taken for it, and the ticket's tokens are
                            added to it */
    WG_VERDICT_REFUSE,   /* `reason`, `message`, `retry_after` say why */
    WG_VERDICT_LEFT,     /* the answer to a leave that found it waiting */
};

/* Made by the worker, lent to control by wg_activator_hold, given back exactly once through `mail` to the
 * mailbox named in it. A client that goes in the meantime: the worker calls wg_activator_leave(ticket) once
 * and keeps the ticket until BOTH have come back, `mail` and `leave` (the order is not fixed); a DISPATCH
 * that arrives then gives its slot and its tokens back. So neither side ever touches freed memory. */
struct wg_model;
struct wg_lane;
struct wg_ticket {
    struct wg_mail mail;  /* deliver is set by the worker before the hold */
    struct wg_mail leave; /* likewise */
    struct wg_mailbox *home;

    /* the worker's, read-only while lent */
    uint32_t model_id;
    const struct wg_config_tenant *tenant; /* of config; compared by name */
    struct wg_config *config;              /* a reference: the plan it was admitted under */
    uint64_t tokens;
    uint64_t bytes; /* of the held body and head */
    wg_usec arrived;
    wg_usec cold_deadline; /* monotonic: hold.timeout, or the shorter silent one */
    wg_usec client_wait;   /* `Prefer: wait`, a length; NEVER: none named */
    bool may_wake; /* false for GET, HEAD and OPTIONS: on a model that is not warm they are refused with
                      MODEL_COLD */
    bool again; /* came back after a dispatch that provably did not run: goes to the head of its queue, keeps
                   its clocks */
    void *exchange; /* the worker's own, not looked at */

    /* control's while lent, the worker's to read afterwards */
    enum wg_verdict verdict;
    struct wg_endpoint *endpoint;
    enum wg_reason reason;
    char message[320]; /* "" = the reason's own */
    int retry_after;   /* whole seconds, 1 to 59; 0: none, and x-should-retry: false */
    bool waited_cold; /* it met the model while it was not warm (for Server-Timing: "cold" or "busy"). For one
                         that comes `again` the worker sets it to what it was: who waited for a cold model
                         keeps that clock */

    /* control's alone */
    struct wg_list link;  /* its place in its lane */
    struct wg_lane *lane; /* its tenant's lane in the queue; NULL: it does not wait */
    struct wg_model *model;
    struct wg_timer deadline;
    bool returned;                               /* control has posted `mail` */
    void (*mail_home)(struct wg_mail *, void *); /* the worker's deliver, put back before the way home */
    void (*leave_home)(struct wg_mail *, void *);
};

/* ---- the activator ---- */
struct wg_activator;

struct wg_activator_env {
    struct wg_loop *control;
    struct wg_target_env service; /* loop, keeper, fetch of the service thread */
};

/* Both loops must not run yet. NULL if the system refuses. */
struct wg_activator *wg_activator_new(const struct wg_activator_env *env);
/* When neither loop runs any more. A ticket that is still lent goes home with SHUTTING_DOWN: its mailbox must
 * be alive then. */
struct wg_activator *wg_activator_free(struct wg_activator *activator);
/* Before the first wg_activator_configure: every publication is posted to this mailbox with this deliver. */
void wg_activator_subscribe(struct wg_activator *activator, struct wg_mailbox *mailbox,
                            void (*deliver)(struct wg_mail *mail, void *receiver));
/* Any thread: when it returns, nothing more is published to this mailbox, so that it may be freed while
 * control still runs (tickets and orders whose home it is must be back before). */
void wg_activator_unsubscribe(struct wg_activator *activator, struct wg_mailbox *mailbox);

/* Any thread; each posts a message to control. configure takes a reference of its own. */
void wg_activator_configure(struct wg_activator *activator, struct wg_config *config);
void wg_activator_hold(struct wg_activator *activator, struct wg_ticket *ticket);
void wg_activator_leave(struct wg_activator *activator, struct wg_ticket *ticket);
/* A slot of this endpoint was released while waiters were marked. */
void wg_activator_freed(struct wg_activator *activator, uint32_t model_id);
/* Live traffic failed on it three times in a row: set it aside and prove it again, unless it is the last. */
void wg_activator_suspect(struct wg_activator *activator, uint32_t model_id, struct wg_endpoint *endpoint);
/* Refuses all that wait, and all that come, with SHUTTING_DOWN: the grace is over. */
void wg_activator_shut(struct wg_activator *activator);

enum wg_command { WG_COMMAND_WAKE, WG_COMMAND_SLEEP };
/* For the admin. WAKE wakes as a request would, and does not mind a back-off. SLEEP seals and sleeps.
 * ret_error: -ENOENT for an unknown model; for SLEEP also -EBUSY when something is held or in flight,
 * -EOPNOTSUPP for a static target without hooks. 0 when it is begun or was so already. The answer comes at
 * once as `mail` of this order to `home`. */
struct wg_order {
    struct wg_mail mail; /* deliver is set by the asker, who frees it there */
    struct wg_mailbox *home;
    char *model;
    enum wg_command command;
    int ret_error;                               /* 0 or negative errno */
    void (*mail_home)(struct wg_mail *, void *); /* the activator's, as in wg_ticket */
};
void wg_activator_order(struct wg_activator *activator, struct wg_order *order);

/* A look at everything, for /status, /scaler and `wakegate status`. */
struct wg_status_start {
    wg_usec wall_began;
    wg_usec phase[WG_PHASES]; /* length since the wake began; -1: not seen */
    bool ok;
    char reason[160];
};
enum { WG_STATUS_STARTS = 20 };
struct wg_status_endpoint {
    uint64_t id;
    char authority[64];
    const char *state; /* "proving", "serving", "suspect", "leaving" */
    unsigned in_use, limit;
    int64_t tokens;
};
struct wg_status_model {
    char *name;
    enum wg_model_state state;
    const char *phase;      /* the last phase reached while WAKING, else "" */
    char reason[448];       /* the last thing that went wrong, "" if nothing */
    wg_usec eta;            /* left until it should answer; -1: unknown or not waking */
    wg_usec expected_start; /* learned; 0: none */
    wg_usec back_off;       /* left of the back-off while FAILED */
    uint64_t held, held_bytes, inflight;
    struct wg_status_endpoint *endpoints;
    size_t n_endpoints;
    struct wg_status_start starts[WG_STATUS_STARTS]; /* newest first */
    size_t n_starts;
};
struct wg_status {
    struct wg_mail mail; /* as in wg_order */
    struct wg_mailbox *home;
    struct wg_status_model *models;
    size_t n_models;
    void (*mail_home)(struct wg_mail *, void *); /* the activator's, as in wg_ticket */
};
void wg_activator_status(struct wg_activator *activator, struct wg_status *status);
void wg_status_clear(struct wg_status *status);
