/* What the world tells of a model: instances found, proved, lost, endpoints that fail, wakes that cannot
 * succeed. Here it is decided what of it is still true and what follows; how a model goes from state to state
 * is model.c's. */
#include "model.h"

#include <stdio.h>
#include <string.h>

#include "wakegate/base/log.h"

/* A model that serves for this long before it crashes is restarted at once, as if it had never crashed
 * before. */
#define STEADY_AFTER (60 * WG_USEC_PER_SEC)

/* ---- endpoints come and go ---- */

static void on_found(struct wg_model *model, const struct wg_agent_event *event)
{
    /* It goes with the others, even if the sleep is not ordered yet since requests are still in flight. */
    if (model->state == WG_MODEL_COOLING)
        return;
    char text[sizeof(event->text)];
    memcpy(text, event->text, sizeof(text));
    wg_model_forget_timeout(model);
    const struct wg_address address = {.sa = event->sa, .len = event->sa_len, .text = text};
    wg_records_add(&model->records, event->instance, ++model->activator->last_endpoint, &address,
                   model->spec->concurrency.per_endpoint);
}

static void on_proved(struct wg_model *model, const struct wg_agent_event *event)
{
    struct wg_record *record = wg_records_find(&model->records, event->instance);
    if (!record || record->state == WG_RECORD_SERVING)
        return;
    wg_info("model", model->name, "%s serves", record->endpoint->authority);
    record->steady = false;
    wg_record_set_state(&model->records, record, WG_RECORD_SERVING, model->spec->concurrency.ramp_start);
    wg_model_changed(model);
    if (model->state != WG_MODEL_WARM)
        wg_model_become_warm(model, event->at);
    wg_hold_dispatch(model);
}

/* All that could still come up refuses for good. */
static bool all_steady(struct wg_model *model)
{
    wg_list_foreach (node, &model->records.list) {
        const struct wg_record *record = WG_LIST_ENTRY(node, struct wg_record, link);
        if (record->state != WG_RECORD_LEAVING && !record->steady)
            return false;
    }
    return true;
}

static void on_not_ready(struct wg_model *model, const struct wg_agent_event *event)
{
    struct wg_record *record = wg_records_find(&model->records, event->instance);
    if (!record || record->state == WG_RECORD_SERVING)
        return;
    record->steady = event->steady && event->epoch == model->agent.epoch;
    if (model->state != WG_MODEL_WARM)
        wg_model_set_reason(model, event->text);
    if (model->state == WG_MODEL_WAKING && all_steady(model))
        wg_model_fail(model, event->text);
}

/* The first crash restarts at once, those that follow soon after a start wait longer each time. */
static void count_crash(struct wg_model *model)
{
    const wg_usec now = wg_model_now(model);
    model->crashes = now - model->since >= STEADY_AFTER ? 1 : model->crashes + 1;
    if (model->crashes < 2)
        return;
    wg_usec wait = model->spec->wake.backoff;
    for (unsigned i = 2; i < model->crashes && wait < model->spec->wake.max_backoff; i++)
        wait = wg_usec_add(wait, wait);
    model->not_before = wg_usec_add(now, WG_MIN(wait, model->spec->wake.max_backoff));
}

static size_t coming(const struct wg_model *model)
{
    return model->records.count[WG_RECORD_PROVING] + model->records.count[WG_RECORD_SUSPECT];
}

/* WARM without an endpoint that serves. */
static void lost_last(struct wg_model *model)
{
    if (model->turnover != WG_TURNOVER_NONE) {
        wg_turnover_begin(model);
    } else if (!model->agent.wakes || coming(model) > 0) {
        wg_model_begin_wake(model);
    } else {
        count_crash(model);
        if (model->queue.wakers > 0)
            wg_model_begin_wake(model);
        else
            wg_model_cool(model);
    }
}

static void on_lost(struct wg_model *model, const struct wg_agent_event *event)
{
    struct wg_record *record = wg_records_find(&model->records, event->instance);
    if (!record)
        return;
    wg_warn("model", model->name, "%s is lost: %s", record->endpoint->authority, event->text);
    wg_model_set_reason(model, event->text);
    wg_model_forget_timeout(model);
    wg_record_set_state(&model->records, record, WG_RECORD_LEAVING, 0);
    wg_records_sweep(&model->records);
    wg_model_changed(model);
    if (model->records.count[WG_RECORD_SERVING] > 0)
        return;
    /* A wake that is ordered anew brings up another one; the one under way has lost all it had. */
    if (model->state == WG_MODEL_WARM)
        lost_last(model);
    else if (model->state == WG_MODEL_WAKING && model->agent.wakes && coming(model) == 0 &&
             event->epoch == model->agent.epoch)
        wg_model_fail(model, event->text);
}

void wg_model_suspect(struct wg_model *model, const struct wg_endpoint *endpoint)
{
    struct wg_record *record = wg_records_find_endpoint(&model->records, endpoint);
    if (!record || record->state != WG_RECORD_SERVING)
        return;
    if (model->records.count[WG_RECORD_SERVING] == 1) {
        atomic_store(&record->endpoint->failures, 0);
        return;
    }
    wg_warn("model", model->name, "%s fails requests; it is set aside until it is proved again",
            endpoint->authority);
    wg_record_set_state(&model->records, record, WG_RECORD_SUSPECT, 0);
    wg_agent_prove(model->agent.handle, record->instance);
    wg_model_changed(model);
}

void wg_model_freed(struct wg_model *model)
{
    wg_records_sweep(&model->records);
    wg_hold_dispatch(model);
    wg_turnover_advance(model);
}

/* ---- what the agent tells ---- */

static void on_phase(struct wg_model *model, const struct wg_agent_event *event)
{
    wg_model_reach(model, event->phase, event->at);
}

static void on_trouble(struct wg_model *model, const struct wg_agent_event *event)
{
    if (model->state == WG_MODEL_WAKING)
        wg_model_set_reason(model, event->text);
}

static void on_failed(struct wg_model *model, const struct wg_agent_event *event)
{
    wg_model_forget_timeout(model);
    if (model->state == WG_MODEL_WAKING)
        wg_model_fail(model, event->text);
}

static void on_detail(struct wg_model *model, const struct wg_agent_event *event)
{
    (void)snprintf(model->detail, sizeof(model->detail), "%s", event->text);
}

static void on_asleep(struct wg_model *model, const struct wg_agent_event *event WG_UNUSED)
{
    model->agent.sleeping = false;
    if (model->turnover != WG_TURNOVER_NONE)
        wg_turnover_advance(model);
    else if (model->state == WG_MODEL_COOLING)
        wg_model_set_state(model, WG_MODEL_COLD);
}

/* Which events are still true: those about instances, unless a sleep has condemned them since; those about a
 * wake or a sleep, only if it is the one last ordered. */
enum freshness { SINCE_SLEEP, THIS_ORDER, ANY_TIME };

static const struct event_row {
    enum freshness freshness;
    void (*handle)(struct wg_model *model, const struct wg_agent_event *event);
} events[WG_AGENT_EVENTS] = {
    [WG_AGENT_FOUND] = {SINCE_SLEEP, on_found},         [WG_AGENT_LOST] = {ANY_TIME, on_lost},
    [WG_AGENT_TROUBLE] = {THIS_ORDER, on_trouble},      [WG_AGENT_PHASE] = {THIS_ORDER, on_phase},
    [WG_AGENT_FAILED] = {THIS_ORDER, on_failed},        [WG_AGENT_ASLEEP] = {THIS_ORDER, on_asleep},
    [WG_AGENT_DETAIL] = {THIS_ORDER, on_detail},        [WG_AGENT_PROVED] = {SINCE_SLEEP, on_proved},
    [WG_AGENT_NOT_READY] = {SINCE_SLEEP, on_not_ready},
};

void wg_model_event(struct wg_model *model, const struct wg_agent_event *event)
{
    if (!model->agent.handle || event->agent_id != model->agent.id)
        return;
    const uint64_t oldest[] = {
        [SINCE_SLEEP] = model->agent.slept, [THIS_ORDER] = model->agent.epoch, [ANY_TIME] = 0};
    const struct event_row *row = &events[event->kind];
    if (event->epoch >= oldest[row->freshness])
        row->handle(model, event);
}
