/* A copy of what control knows of its models, for /status and the like: taken in one go on control's thread.
 */
#include <stdio.h>
#include <stdlib.h>

#include "model.h"

static void fill_endpoints(const struct wg_model *model, struct wg_status_model *out)
{
    out->endpoints = wg_xcalloc(wg_records_count(&model->records) + 1, sizeof(out->endpoints[0]));
    wg_list_foreach (node, &model->records.list) {
        const struct wg_record *record = WG_LIST_ENTRY(node, struct wg_record, link);
        const struct wg_endpoint *endpoint = record->endpoint;
        struct wg_status_endpoint *to = &out->endpoints[out->n_endpoints++];
        to->id = endpoint->id;
        (void)snprintf(to->authority, sizeof(to->authority), "%s", endpoint->authority);
        to->state = wg_record_state_label(record->state);
        to->in_use = wg_slots_in_use(&endpoint->slots);
        to->limit = wg_slots_limit(&endpoint->slots);
        to->tokens = atomic_load_explicit(&endpoint->tokens, memory_order_relaxed);
    }
}

static void fill_starts(const struct wg_model *model, struct wg_status_model *out)
{
    const struct wg_status_start *start;
    while (out->n_starts < WG_STATUS_STARTS && (start = wg_history_get(&model->history, out->n_starts)))
        out->starts[out->n_starts++] = *start;
}

static void fill_model(const struct wg_model *model, struct wg_status_model *out)
{
    const int phase = wg_model_phase(model);
    const bool waking = model->state == WG_MODEL_WAKING, failed = model->state == WG_MODEL_FAILED;
    out->name = wg_xstrdup(model->name);
    out->state = model->state;
    out->phase = waking && phase >= 0 ? wg_phase_label((enum wg_phase)phase) : "";
    (void)snprintf(out->reason, sizeof(out->reason), "%s", model->detail[0] ? model->detail : model->reason);
    out->eta = waking ? wg_model_eta(model) : -1;
    out->expected_start = wg_eta_whole(&model->history);
    out->back_off = failed ? WG_MAX(model->retry_at - wg_model_now(model), 0) : 0;
    out->held = model->queue.count;
    out->held_bytes = model->queue.bytes;
    out->inflight = wg_records_in_use(&model->records);
    fill_endpoints(model, out);
    fill_starts(model, out);
}

void wg_activator_fill_status(struct wg_activator *activator, struct wg_status *status)
{
    status->models = wg_xcalloc(activator->n_models + 1, sizeof(status->models[0]));
    status->n_models = 0;
    for (uint32_t id = 0; id < activator->n_models; id++)
        if (activator->models[id]->agent.handle)
            fill_model(activator->models[id], &status->models[status->n_models++]);
}

void wg_status_clear(struct wg_status *status)
{
    for (size_t i = 0; i < status->n_models; i++) {
        free(status->models[i].name);
        free(status->models[i].endpoints);
    }
    free(status->models);
    status->models = NULL;
    status->n_models = 0;
}
