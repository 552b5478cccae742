/* The state machine of a model: cold, waking, warm, cooling, failed. Who waits is hold.c's, reloads are
 * turnover.c's, and what is done in the world is the agent's. */
#include "model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "wakegate/base/log.h"
#include "wakegate/base/quantity.h"

#define BIT(state) (1U << (state))

static void waking_timer(struct wg_model *model);
static void warm_timer(struct wg_model *model);
static void failed_timer(struct wg_model *model);

static const struct state_row {
    const char *label;
    unsigned next; /* the states that may follow */
    void (*timer)(struct wg_model *model);
} states[WG_MODEL_STATES] = {
    [WG_MODEL_COLD] = {"cold", BIT(WG_MODEL_WAKING) | BIT(WG_MODEL_WARM) | BIT(WG_MODEL_COOLING), NULL},
    [WG_MODEL_WAKING] = {"waking", BIT(WG_MODEL_WARM) | BIT(WG_MODEL_FAILED) | BIT(WG_MODEL_COOLING),
                         waking_timer},
    [WG_MODEL_WARM] = {"warm", BIT(WG_MODEL_WAKING) | BIT(WG_MODEL_COOLING), warm_timer},
    [WG_MODEL_COOLING] = {"cooling", BIT(WG_MODEL_COLD) | BIT(WG_MODEL_WAKING), NULL},
    [WG_MODEL_FAILED] = {"failed", BIT(WG_MODEL_WAKING) | BIT(WG_MODEL_WARM) | BIT(WG_MODEL_COOLING),
                         failed_timer},
};

const char *wg_model_state_label(enum wg_model_state state)
{
    WG_ASSERT(state < WG_MODEL_STATES);
    return states[state].label;
}

void wg_model_set_state(struct wg_model *model, enum wg_model_state state)
{
    const enum wg_model_state was = model->state;
    WG_ASSERT(states[was].next & BIT(state));
    model->state = state;
    model->since = wg_model_now(model);
    wg_timer_cancel(&model->timer);
    atomic_store_explicit(&model->metrics->state, (int)state, memory_order_relaxed);
    wg_info("model", model->name, "%s", states[state].label);
    wg_model_changed(model);
    if (was == WG_MODEL_WARM)
        wg_hold_turn_cold(model);
}

static void on_timer(struct wg_timer *timer)
{
    struct wg_model *model = WG_CONTAINER_OF(timer, struct wg_model, timer);
    WG_CHECK_OBJ(model, WG_MODEL_MAGIC);
    WG_ASSERT(states[model->state].timer);
    states[model->state].timer(model);
}

/* ---- what others see ---- */

static struct wg_view *view_new(const struct wg_model *model)
{
    const size_t n = model->records.count[WG_RECORD_SERVING];
    struct wg_view *view = wg_xcalloc(1, sizeof(*view) + n * sizeof(struct wg_endpoint *));
    atomic_init(&view->refs, 1);
    view->model_id = model->id;
    view->state = model->state;
    view->expected_at = model->state == WG_MODEL_WAKING ? model->wake.expected_at : WG_USEC_NEVER;
    view->expected_start = wg_eta_whole(&model->history);
    wg_list_foreach (node, &model->records.list) {
        const struct wg_record *record = WG_LIST_ENTRY(node, struct wg_record, link);
        if (record->state == WG_RECORD_SERVING)
            view->endpoints[view->n_endpoints++] = wg_endpoint_ref(record->endpoint);
    }
    return view;
}

static void on_changed(struct wg_deferred *deferred)
{
    struct wg_model *model = WG_CONTAINER_OF(deferred, struct wg_model, changed);
    WG_CHECK_OBJ(model, WG_MODEL_MAGIC);
    struct wg_view *view = view_new(model);
    wg_activator_publish(model->activator, view, NULL);
    wg_view_unref(view);
}

void wg_model_changed(struct wg_model *model)
{
    wg_loop_defer(model->activator->loop, &model->changed);
}

void wg_model_publish(struct wg_model *model)
{
    if (!wg_list_linked(&model->changed.link))
        return;
    wg_deferred_cancel(&model->changed);
    on_changed(&model->changed);
}

wg_usec wg_model_eta(const struct wg_model *model)
{
    const wg_usec whole = wg_eta_whole(&model->history);
    switch (model->state) {
    case WG_MODEL_WARM:
        return 0;
    case WG_MODEL_WAKING:
        if (model->wake.expected_at == WG_USEC_NEVER || model->wake.expected_at <= wg_model_now(model))
            return -1;
        return model->wake.expected_at - wg_model_now(model);
    case WG_MODEL_COLD:
    case WG_MODEL_COOLING:
    case WG_MODEL_FAILED:
    default:
        return whole > 0 ? whole : -1;
    }
}

int wg_model_phase(const struct wg_model *model)
{
    for (int phase = WG_PHASES - 1; phase >= 0; phase--)
        if (model->wake.at[phase] >= 0)
            return phase;
    return -1;
}

void wg_model_tell_progress(const struct wg_model *model, struct wg_buf *out)
{
    static const char *const words[WG_PHASES] = {
        [WG_PHASE_PATCHED] = "scaled up",       [WG_PHASE_POD_CREATED] = "pod created",
        [WG_PHASE_SCHEDULED] = "scheduled",     [WG_PHASE_IMAGE_PULLED] = "image pulled",
        [WG_PHASE_STARTED] = "process started", [WG_PHASE_LISTENING] = "listening",
        [WG_PHASE_ANSWERING] = "answering",
    };
    const char *separator = "";
    for (int phase = 0; phase < WG_PHASES; phase++) {
        if (model->wake.at[phase] < 0)
            continue;
        (void)wg_buf_addf(out, "%s%s", separator, words[phase]);
        separator = ", ";
    }
    if (model->reason[0] != '\0')
        (void)wg_buf_addf(out, "%s%s", separator, model->reason);
    if (out->len == 0)
        (void)wg_buf_add_str(out, "nothing has come up yet");
}

void wg_model_set_reason(struct wg_model *model, const char *why)
{
    (void)snprintf(model->reason, sizeof(model->reason), "%s", why);
    model->detail[0] = '\0';
}

/* ---- waking ---- */

/* Where the furthest phase leaves us, by past starts. */
static void expect(struct wg_model *model)
{
    struct wg_wake *wake = &model->wake;
    const int phase = wg_model_phase(model);
    const wg_usec from = phase < 0 ? -1 : wg_eta_from(&model->history, (enum wg_phase)phase);
    const wg_usec whole = wg_eta_whole(&model->history);
    if (from >= 0)
        wake->expected_at = wake->at[phase] + from;
    else
        wake->expected_at = whole > 0 ? wake->began + whole : WG_USEC_NEVER;
    wg_model_changed(model);
}

static bool nothing_up(const struct wg_model *model)
{
    return wg_records_count(&model->records) == model->records.count[WG_RECORD_LEAVING];
}

static void start_wake(struct wg_model *model)
{
    model->wake.started = true;
    wg_model_set_reason(model, "");
    model->agent.sleeping = false;
    wg_timer_set(&model->timer, wg_usec_add(wg_model_now(model), model->spec->wake.timeout));
    wg_agent_wake(model->agent.handle, ++model->agent.epoch);
}

void wg_model_begin_wake(struct wg_model *model)
{
    const wg_usec now = wg_model_now(model);
    const bool on_its_way = model->state == WG_MODEL_FAILED && model->wake.timed_out;
    model->wake = (struct wg_wake){.cold = nothing_up(model) && !on_its_way,
                                   .repeats = on_its_way,
                                   .began = WG_MAX(now, model->not_before)};
    for (int phase = 0; phase < WG_PHASES; phase++)
        model->wake.at[phase] = -1;
    wg_records_forget_steady(&model->records);
    wg_model_set_state(model, WG_MODEL_WAKING);
    expect(model);
    if (now >= model->not_before) {
        start_wake(model);
        return;
    }
    char human[32];
    wg_duration_human(model->not_before - now, human);
    wg_warn("model", model->name, "starts again in %s, after %u crashes", human, model->crashes);
    wg_timer_set(&model->timer, model->not_before);
}

void wg_model_wake(struct wg_model *model)
{
    if (model->turnover != WG_TURNOVER_NONE || model->state == WG_MODEL_WARM ||
        model->state == WG_MODEL_WAKING)
        return;
    wg_model_begin_wake(model);
}

void wg_model_reach(struct wg_model *model, enum wg_phase phase, wg_usec at)
{
    if (model->state != WG_MODEL_WAKING || model->wake.at[phase] >= 0)
        return;
    model->wake.at[phase] = WG_MAX(at, model->wake.began);
    wg_debug("model", model->name, "%s", wg_phase_label(phase));
    expect(model);
}

/* The books of a wake that is over: targets that nobody wakes keep none, and what was up before does not tell
 * how long a start takes. */
static void book_wake(struct wg_model *model, enum wg_wake_result result)
{
    if (!model->agent.wakes)
        return;
    wg_count(&model->metrics->wakes[result]);
    const struct wg_wake *wake = &model->wake;
    if (result == WG_WAKE_OK && !wake->cold)
        return;
    struct wg_status_start start = {.ok = result == WG_WAKE_OK};
    start.wall_began = wg_clock_wall() - (wg_clock_monotonic() - wake->began);
    for (int phase = 0; phase < WG_PHASES; phase++) {
        start.phase[phase] = wake->at[phase] < 0 ? -1 : wake->at[phase] - wake->began;
        if (start.ok && start.phase[phase] >= 0)
            wg_histogram_add(&model->metrics->cold_start[phase], start.phase[phase]);
    }
    if (!start.ok)
        (void)snprintf(start.reason, sizeof(start.reason), "%.*s", (int)sizeof(start.reason) - 1,
                       model->reason);
    wg_history_add(&model->history, &start);
}

/* ---- failing ---- */

static void grow_backoff(struct wg_model *model)
{
    const wg_usec longest = model->spec->wake.max_backoff;
    model->backoff =
        model->backoff == 0 ? model->spec->wake.backoff : wg_usec_add(model->backoff, model->backoff);
    model->backoff = WG_MIN(model->backoff, longest);
    model->retry_at = wg_usec_add(wg_model_now(model), model->backoff);
}

/* FAILED goes back to sleep when nobody wants it, but not before a new wake would be allowed. */
static void arm_failed(struct wg_model *model)
{
    const wg_usec idle = model->agent.wakes ? model->spec->idle_timeout : WG_USEC_NEVER;
    wg_timer_set(&model->timer, WG_MAX(model->retry_at, wg_usec_add(model->since, idle)));
}

static void failed_timer(struct wg_model *model)
{
    wg_model_cool(model);
}

/* `message` is the clients', for `reason`. */
static void fail(struct wg_model *model, enum wg_wake_result result, enum wg_reason reason,
                 const char *message)
{
    wg_warn("model", model->name, "%s", message);
    book_wake(model, result);
    grow_backoff(model);
    wg_model_set_state(model, WG_MODEL_FAILED);
    arm_failed(model);
    wg_hold_refuse_all(model, reason, message);
}

void wg_model_fail(struct wg_model *model, const char *why)
{
    wg_model_set_reason(model, why);
    struct wg_buf message = WG_BUF_INIT(1024);
    (void)wg_buf_addf(&message, "%s could not be started: %s", model->name, why);
    fail(model, WG_WAKE_FAILED, WG_REASON_MODEL_WAKE_FAILED, wg_buf_str(&message));
    wg_buf_clear(&message);
}

void wg_model_forget_timeout(struct wg_model *model)
{
    model->wake.timed_out = false;
    model->wake.repeats = false;
}

/* What the wake before had started has hung through this one too. */
static bool hangs(const struct wg_model *model)
{
    const bool runs = model->wake.at[WG_PHASE_STARTED] >= 0 || !nothing_up(model);
    return model->wake.repeats && model->agent.wakes && runs;
}

/* The next wake, which starts anew, waits until all of it is gone. */
static void put_down(struct wg_model *model)
{
    wg_warn("model", model->name,
            "no answer in two wakes in a row: what they waited for is stopped, the next wake starts it anew");
    wg_model_forget_timeout(model);
    wg_records_dismiss(&model->records);
    wg_model_order_sleep(model);
    wg_model_changed(model);
}

static void waking_timer(struct wg_model *model)
{
    if (!model->wake.started) {
        start_wake(model);
        return;
    }
    char human[32];
    wg_duration_human(wg_model_now(model) - model->wake.began, human);
    struct wg_buf message = WG_BUF_INIT(2048);
    (void)wg_buf_addf(&message, "%s did not start within %s: ", model->name, human);
    wg_model_tell_progress(model, &message);
    if (model->reason[0] == '\0')
        wg_model_set_reason(model, "it did not answer in time");
    model->wake.timed_out = true;
    fail(model, WG_WAKE_TIMEOUT, WG_REASON_MODEL_WAKE_TIMEOUT, wg_buf_str(&message));
    wg_buf_clear(&message);
    if (hangs(model))
        put_down(model);
}

/* ---- warm ---- */

/* Never shorter than the model takes to start. */
static wg_usec idle_limit(const struct wg_model *model)
{
    if (!model->agent.wakes || model->spec->idle_timeout == WG_USEC_NEVER)
        return WG_USEC_NEVER;
    return WG_MAX(model->spec->idle_timeout, wg_eta_whole(&model->history));
}

static bool busy(const struct wg_model *model)
{
    return model->queue.count > 0 || wg_records_in_use(&model->records) > 0;
}

/* What is in use now may be given back now, and is idle from then on. */
static wg_usec idle_since(const struct wg_model *model)
{
    if (busy(model))
        return wg_model_now(model);
    return WG_MAX(model->since, wg_records_last_used(&model->records));
}

static void arm_idle(struct wg_model *model)
{
    wg_timer_set(&model->timer, wg_usec_add(idle_since(model), idle_limit(model)));
}

static void warm_timer(struct wg_model *model)
{
    const wg_usec limit = idle_limit(model);
    if (limit == WG_USEC_NEVER || model->turnover != WG_TURNOVER_NONE)
        return;
    /* A request may have come and gone since we looked: under the seal none can any more, so the second look
     * decides. */
    const bool sealed =
        wg_model_now(model) - idle_since(model) >= limit && wg_records_seal_if_idle(&model->records);
    if (sealed && wg_model_now(model) - idle_since(model) >= limit) {
        wg_model_cool(model);
        return;
    }
    if (sealed)
        wg_records_unseal(&model->records);
    arm_idle(model);
}

void wg_model_become_warm(struct wg_model *model, wg_usec at)
{
    if (model->state == WG_MODEL_WAKING) {
        wg_model_reach(model, WG_PHASE_ANSWERING, at);
        book_wake(model, WG_WAKE_OK);
        char human[32];
        wg_duration_human(at - model->wake.began, human);
        wg_info("model", model->name, "answers after %s, %zu held", human, model->queue.count);
    }
    model->backoff = 0;
    wg_model_set_reason(model, "");
    wg_model_set_state(model, WG_MODEL_WARM);
    arm_idle(model);
}

/* ---- cooling ---- */

void wg_model_order_sleep(struct wg_model *model)
{
    if (model->agent.sleeping)
        return;
    model->agent.sleeping = true;
    model->agent.slept = ++model->agent.epoch;
    wg_agent_sleep(model->agent.handle, model->agent.epoch);
}

void wg_model_cool(struct wg_model *model)
{
    wg_records_dismiss(&model->records);
    wg_model_set_state(model, WG_MODEL_COOLING);
    wg_model_order_sleep(model);
}

int wg_model_sleep(struct wg_model *model)
{
    if (!model->agent.wakes)
        return -EOPNOTSUPP;
    if (model->state == WG_MODEL_COLD || model->state == WG_MODEL_COOLING)
        return model->queue.count > 0 ? -EBUSY : 0;
    if (model->queue.count > 0 || !wg_records_seal_if_idle(&model->records))
        return -EBUSY;
    wg_model_cool(model);
    return 0;
}

/* ---- life ---- */

void wg_model_reset_clocks(struct wg_model *model)
{
    if (model->state == WG_MODEL_WARM) {
        arm_idle(model);
    } else if (model->state == WG_MODEL_WAKING && model->wake.started) {
        wg_timer_set(&model->timer, wg_usec_add(model->wake.began, model->spec->wake.timeout));
    } else if (model->state == WG_MODEL_FAILED) {
        model->retry_at = wg_model_now(model);
        arm_failed(model);
    }
}

struct wg_model *wg_model_new(struct wg_activator *activator, uint32_t id, const char *name)
{
    struct wg_model *model = WG_NEW(struct wg_model);
    model->magic = WG_MODEL_MAGIC;
    model->id = id;
    model->activator = activator;
    model->name = wg_xstrdup(name);
    model->metrics = wg_metrics_model(name);
    model->state = WG_MODEL_COLD;
    for (int phase = 0; phase < WG_PHASES; phase++)
        model->wake.at[phase] = -1;
    wg_timer_init(&model->timer, activator->loop, on_timer);
    wg_deferred_init(&model->changed, on_changed);
    wg_queue_init(&model->queue);
    wg_records_init(&model->records);
    return model;
}

struct wg_model *wg_model_free(struct wg_model *model)
{
    if (!model)
        return NULL;
    WG_ASSERT(model->queue.count == 0);
    wg_timer_cancel(&model->timer);
    wg_deferred_cancel(&model->changed);
    wg_records_clear(&model->records);
    wg_config_unref(model->config);
    free(model->name);
    model->magic = 0;
    free(model);
    return NULL;
}
