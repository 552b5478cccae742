/* What a reload does to a model: new options at once, another target after the old one is down (one instance
 * of a model at a time), removal after its last request. */
#include "model.h"

#include "wakegate/base/log.h"

static void adopt(struct wg_model *model, struct wg_config *config, const struct wg_config_model *spec)
{
    struct wg_config *old = model->config;
    model->config = wg_config_ref(config);
    model->spec = spec;
    wg_config_unref(old);
}

static void start_agent(struct wg_model *model)
{
    WG_ASSERT(!model->agent.handle);
    model->agent.id = ++model->activator->last_agent;
    model->agent.wakes = wg_target_wakes(model->spec);
    model->agent.sleeping = false;
    model->agent.handle = wg_agent_new(model->activator->service, model->id, model->agent.id,
                                       model->agent.epoch, model->config, model->spec);
    atomic_store_explicit(&model->metrics->state, (int)model->state, memory_order_relaxed);
    model->backoff = 0;
    model->crashes = 0;
    model->not_before = 0;
    wg_model_set_reason(model, "");
    wg_model_changed(model);
    /* What nobody can wake is up, or on its way, by itself. */
    if (model->queue.wakers > 0 || !model->agent.wakes || model->spec->preload)
        wg_model_wake(model);
}

static void stop_agent(struct wg_model *model)
{
    wg_agent_release(model->agent.handle);
    model->agent.handle = NULL;
    model->agent.sleeping = false;
}

static void finish(struct wg_model *model)
{
    const enum wg_turnover turnover = model->turnover;
    model->turnover = WG_TURNOVER_NONE;
    stop_agent(model);
    if (model->state != WG_MODEL_COLD)
        wg_model_set_state(model, WG_MODEL_COLD);
    if (turnover == WG_TURNOVER_REPLACE) {
        start_agent(model);
        return;
    }
    atomic_store_explicit(&model->metrics->state, -1, memory_order_relaxed);
    wg_info("model", model->name, "is gone");
}

void wg_turnover_advance(struct wg_model *model)
{
    if (model->turnover == WG_TURNOVER_NONE || model->state == WG_MODEL_WARM)
        return;
    if (model->state == WG_MODEL_COLD || !model->agent.wakes) {
        finish(model);
        return;
    }
    /* Requests in flight end first, then the instances, then the agent. */
    wg_records_dismiss(&model->records);
    if (wg_records_count(&model->records) > 0)
        return;
    if (model->agent.sleeping)
        return;
    if (model->agent.slept == model->agent.epoch && model->agent.slept > 0)
        finish(model);
    else
        wg_model_order_sleep(model);
}

void wg_turnover_begin(struct wg_model *model)
{
    wg_records_dismiss(&model->records);
    if (model->state != WG_MODEL_COLD && model->state != WG_MODEL_COOLING)
        wg_model_set_state(model, WG_MODEL_COOLING);
    if (model->turnover == WG_TURNOVER_REMOVE)
        wg_hold_refuse_all(model, WG_REASON_MODEL_WAKE_FAILED,
                           "The model was removed from the configuration.");
    wg_turnover_advance(model);
}

static void reconfigure(struct wg_model *model)
{
    wg_agent_configure(model->agent.handle, model->config, model->spec);
    wg_records_set_max(&model->records, model->spec->concurrency.per_endpoint);
    wg_model_reset_clocks(model);
}

void wg_model_configure(struct wg_model *model, struct wg_config *config, const struct wg_config_model *spec)
{
    const bool same = model->spec && wg_config_same_target(model->spec, spec);
    const bool draining = model->turnover == WG_TURNOVER_REMOVE && model->state == WG_MODEL_WARM;
    adopt(model, config, spec);
    if (!model->agent.handle) {
        start_agent(model);
    } else if (same && (model->turnover == WG_TURNOVER_NONE || draining)) {
        model->turnover = WG_TURNOVER_NONE;
        reconfigure(model);
    } else {
        const bool begun = model->turnover != WG_TURNOVER_NONE && !draining;
        model->turnover = WG_TURNOVER_REPLACE;
        if (!begun)
            wg_turnover_begin(model);
    }
}

void wg_model_remove(struct wg_model *model)
{
    if (!model->agent.handle || model->turnover == WG_TURNOVER_REMOVE)
        return;
    model->turnover = WG_TURNOVER_REMOVE;
    /* What a warm model holds is still served; what comes new is refused. */
    if (model->state != WG_MODEL_WARM || model->queue.count == 0)
        wg_turnover_begin(model);
}
