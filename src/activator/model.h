/* One model as control sees it. The state machine is in model.c, what it reacts to in events.c, its waiting
 * tickets in hold.c, what a reload does to it in turnover.c. Control's thread. */
#pragma once

#include "control.h"
#include "endpoints.h"
#include "eta.h"
#include "queue.h"

#define WG_MODEL_MAGIC 0x30de1000

/* What a reload has in store for a model whose instances must go first. */
enum wg_turnover {
    WG_TURNOVER_NONE,
    WG_TURNOVER_REPLACE, /* another target takes over once this one is down */
    WG_TURNOVER_REMOVE,  /* it is gone from the configuration */
};

/* The wake under way, or the last one. */
struct wg_wake {
    bool started;          /* the order is out; before that it waits for `not_before` */
    bool cold;             /* nothing was up, or on its way, when it began */
    bool timed_out;        /* what it has started may still come up */
    bool repeats;          /* waits for nothing but what the one before, that timed out, had started */
    wg_usec began;         /* monotonic; phases count from here */
    wg_usec at[WG_PHASES]; /* monotonic; -1: not seen */
    wg_usec expected_at;   /* NEVER: unknown */
};

struct wg_model {
    uint32_t magic;
    uint32_t id;
    struct wg_activator *activator;
    char *name;
    struct wg_model_metrics *metrics;
    struct wg_config *config; /* a reference; of `spec` */
    const struct wg_config_model *spec;

    enum wg_model_state state;  /* changed by wg_model_set_state only */
    wg_usec since;              /* when it came into it */
    struct wg_timer timer;      /* the state's own */
    struct wg_deferred changed; /* a new view is to be published at the end of the turn */

    struct wg_queue queue;
    struct wg_records records;
    struct wg_wake wake;
    struct wg_history history;
    char reason[320]; /* the last thing that went wrong; "" once it is warm again */
    char detail[448]; /* the same for operators; "": nothing more than `reason` */

    wg_usec backoff;    /* length of the last back-off; 0: the last wake went well */
    wg_usec retry_at;   /* FAILED refuses until then */
    unsigned crashes;   /* in a row, each soon after it became warm */
    wg_usec not_before; /* no start before this, after crashes */

    struct {
        struct wg_agent *handle; /* NULL: not configured */
        uint64_t id;
        uint64_t epoch; /* of the last order */
        uint64_t slept; /* of the last sleep: what is older is about instances that are condemned */
        bool sleeping;  /* asleep has not been told since */
        bool wakes;     /* its target can be woken and put to sleep */
    } agent;
    enum wg_turnover turnover;
};

struct wg_model *wg_model_new(struct wg_activator *activator, uint32_t id, const char *name);
/* Its tickets must be gone. */
struct wg_model *wg_model_free(struct wg_model *model);

static inline wg_usec wg_model_now(const struct wg_model *model)
{
    return wg_loop_now(model->activator->loop);
}

/* ---- model.c: the state machine ---- */

void wg_model_set_state(struct wg_model *model, enum wg_model_state state);
/* Something that views show is different. */
void wg_model_changed(struct wg_model *model);
/* Publishes at once what is still to be published. */
void wg_model_publish(struct wg_model *model);
/* Wakes unless it is warm or waking; during a turnover does nothing, the wake follows it. */
void wg_model_wake(struct wg_model *model);
/* Whatever state it is in, WARM included. */
void wg_model_begin_wake(struct wg_model *model);
/* The wake under way has reached a phase. */
void wg_model_reach(struct wg_model *model, enum wg_phase phase, wg_usec at);
/* The wake under way cannot succeed: all who wait are told why. */
void wg_model_fail(struct wg_model *model, const char *why);
/* Something has come or gone: what the last wake left is not all that the next one waits for. */
void wg_model_forget_timeout(struct wg_model *model);
/* An endpoint was proved at `at`, while none served. */
void wg_model_become_warm(struct wg_model *model, wg_usec at);
void wg_model_set_reason(struct wg_model *model, const char *why);
/* Puts it to sleep, whatever is in use. */
void wg_model_cool(struct wg_model *model);
/* -EBUSY when something is held or in flight; -EOPNOTSUPP; 0: on its way, or so already. */
WG_MUST_CHECK int wg_model_sleep(struct wg_model *model);
/* Orders the agent to sleep, unless that is under way. */
void wg_model_order_sleep(struct wg_model *model);
/* Options have changed: clocks follow. */
void wg_model_reset_clocks(struct wg_model *model);
/* What is expected to be left until it answers: 0 when it is warm, -1 when unknown or overdue. */
wg_usec wg_model_eta(const struct wg_model *model);
/* How far the wake is, in words: "process started, listening, the probe got 503: Loading model". */
void wg_model_tell_progress(const struct wg_model *model, struct wg_buf *out);
/* The last phase that the wake has reached; -1: none. */
int wg_model_phase(const struct wg_model *model);

/* ---- events.c: what the world tells ---- */

/* A slot was given back while waiters were marked. */
void wg_model_freed(struct wg_model *model);
void wg_model_suspect(struct wg_model *model, const struct wg_endpoint *endpoint);
/* An event of its agent; stale ones are ignored. */
void wg_model_event(struct wg_model *model, const struct wg_agent_event *event);

/* ---- hold.c: its waiting tickets ---- */

/* Control's members of a ticket that has just been lent, before anything else. */
void wg_hold_prepare(struct wg_ticket *ticket, struct wg_loop *loop);
/* Queues, dispatches or refuses; wakes the model if need be. */
void wg_hold_ticket(struct wg_model *model, struct wg_ticket *ticket);
/* The client is gone. */
void wg_hold_leave(struct wg_ticket *ticket);
/* Hands out slots for as long as there are slots and tickets. */
void wg_hold_dispatch(struct wg_model *model);
/* The model is not warm any more: all who wait now wait for a wake. */
void wg_hold_turn_cold(struct wg_model *model);
/* `message` NULL or "": the reason's own. */
void wg_hold_refuse_all(struct wg_model *model, enum wg_reason reason, const char *message);
/* For a ticket that never met a model. */
void wg_hold_refuse(struct wg_ticket *ticket, enum wg_reason reason, int retry_after, const char *message);

/* ---- turnover.c: what a reload does ---- */

/* spec belongs to config. The first time, or again. */
void wg_model_configure(struct wg_model *model, struct wg_config *config, const struct wg_config_model *spec);
/* It is not in the configuration any more. */
void wg_model_remove(struct wg_model *model);
/* All instances leave; goes on by wg_turnover_advance. */
void wg_turnover_begin(struct wg_model *model);
/* Whenever something it may wait for has happened. Nothing when there is no turnover. */
void wg_turnover_advance(struct wg_model *model);
