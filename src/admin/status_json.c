/* The status of everything as JSON: the shape is described in docs/admin.md. */
#include "status_json.h"

#include "json_out.h"

static void write_endpoint(struct json_out *json, const struct wg_status_endpoint *endpoint)
{
    json_out_open(json, NULL, '{');
    json_out_text(json, "address", endpoint->authority);
    json_out_text(json, "state", endpoint->state);
    json_out_u64(json, "in_use", endpoint->in_use);
    json_out_u64(json, "limit", endpoint->limit);
    json_out_i64(json, "tokens", endpoint->tokens);
    json_out_close(json, '}');
}

static void write_start(struct json_out *json, const struct wg_status_start *start)
{
    char began[32];

    wg_clock_format(start->wall_began, began);
    json_out_open(json, NULL, '{');
    json_out_text(json, "began", began);
    json_out_bool(json, "ok", start->ok);
    json_out_text(json, "reason", start->reason);
    json_out_open(json, "phases", '{');
    for (int phase = 0; phase < WG_PHASES; phase++) {
        if (start->phase[phase] >= 0)
            json_out_seconds(json, wg_phase_label((enum wg_phase)phase), start->phase[phase]);
    }
    json_out_close(json, '}');
    json_out_close(json, '}');
}

static void write_model(struct json_out *json, const struct wg_status_model *model)
{
    json_out_open(json, NULL, '{');
    json_out_text(json, "name", model->name);
    json_out_text(json, "state", wg_model_state_label(model->state));
    json_out_text(json, "phase", model->phase);
    json_out_text(json, "reason", model->reason);
    json_out_seconds(json, "eta_seconds", model->eta);
    json_out_seconds(json, "expected_start_seconds", model->expected_start > 0 ? model->expected_start : -1);
    json_out_seconds(json, "back_off_seconds", WG_MAX(model->back_off, 0));
    json_out_u64(json, "held", model->held);
    json_out_u64(json, "held_bytes", model->held_bytes);
    json_out_u64(json, "inflight", model->inflight);
    json_out_open(json, "endpoints", '[');
    for (size_t i = 0; i < model->n_endpoints; i++)
        write_endpoint(json, &model->endpoints[i]);
    json_out_close(json, ']');
    json_out_open(json, "last_starts", '[');
    for (size_t i = 0; i < model->n_starts; i++)
        write_start(json, &model->starts[i]);
    json_out_close(json, ']');
    json_out_close(json, '}');
}

/* Two reasons may share a label, an object's keys must not be twice: such are added up at the first of them.
 */
static uint64_t count_label(const struct wg_tenant_metrics *metrics, int first)
{
    const char *label = wg_outcome_label(first);
    uint64_t count = 0;

    for (int i = 0; i < WG_OUTCOME_COUNT; i++) {
        if (strcmp(wg_outcome_label(i), label) != 0)
            continue;
        if (i < first)
            return 0;
        count += atomic_load_explicit(&metrics->requests[i], memory_order_relaxed);
    }
    return count;
}

static void write_tenant(struct json_out *json, const struct wg_config_tenant *tenant)
{
    const struct wg_tenant_metrics *metrics = wg_metrics_tenant(tenant->name);

    json_out_open(json, NULL, '{');
    json_out_text(json, "name", tenant->name);
    json_out_open(json, "requests", '{');
    for (int outcome = 0; outcome < WG_OUTCOME_COUNT; outcome++) {
        uint64_t count = count_label(metrics, outcome);
        if (count > 0)
            json_out_u64(json, wg_outcome_label(outcome), count);
    }
    json_out_close(json, '}');
    json_out_close(json, '}');
}

static void write_process(struct json_out *json, const struct admin_process_status *process)
{
    const struct wg_process_metrics *metrics = wg_metrics_process();

    json_out_open(json, "process", '{');
    json_out_text(json, "version", process->version);
    json_out_seconds(json, "uptime_seconds", process->uptime);
    json_out_bool(json, "ready", process->ready);
    json_out_i64(json, "connections", atomic_load_explicit(&metrics->connections, memory_order_relaxed));
    json_out_i64(json, "buffered_bytes", atomic_load_explicit(&metrics->held_bytes, memory_order_relaxed));
    json_out_close(json, '}');
}

void admin_status_json(const struct wg_status *status, const struct wg_config *config,
                       const struct admin_process_status *process, struct wg_buf *out)
{
    struct json_out json = {.buf = out};

    json_out_open(&json, NULL, '{');
    write_process(&json, process);
    json_out_open(&json, "models", '[');
    for (size_t i = 0; i < status->n_models; i++)
        write_model(&json, &status->models[i]);
    json_out_close(&json, ']');
    json_out_open(&json, "tenants", '[');
    for (size_t i = 0; i < config->n_tenants; i++)
        write_tenant(&json, &config->tenants[i]);
    json_out_close(&json, ']');
    json_out_close(&json, '}');
    wg_buf_add_char(out, '\n');
}

bool admin_scaler_json(const struct wg_status *status, const char *name, struct wg_buf *out)
{
    for (size_t i = 0; i < status->n_models; i++) {
        const struct wg_status_model *model = &status->models[i];
        if (strcmp(model->name, name) != 0)
            continue;
        struct json_out json = {.buf = out};
        json_out_open(&json, NULL, '{');
        json_out_u64(&json, "held", model->held);
        json_out_u64(&json, "inflight", model->inflight);
        json_out_u64(&json, "demand", model->held + model->inflight);
        json_out_close(&json, '}');
        wg_buf_add_char(out, '\n');
        return true;
    }
    return false;
}
