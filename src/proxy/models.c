/* GET /v1/models: what the tenant may use, and how each model is doing. Never wakes anything. */
#include "exchange.h"

/* An entry has a name of at most 256 bytes, escaped at most six-fold, and a fixed rest. */
#define ENTRY_MAX 2048

static const char *shown_state(enum wg_model_state state)
{
    return state == WG_MODEL_COOLING ? "cold" : wg_model_state_label(state);
}

static long seconds_left(const struct exchange *x, const struct wg_view *view)
{
    const wg_usec now = wg_loop_now(x->worker->loop);
    switch (view->state) {
    case WG_MODEL_WARM:
        return 0;
    case WG_MODEL_WAKING:
        if (view->expected_at == WG_USEC_NEVER)
            return -1;
        return (long)((WG_MAX(view->expected_at - now, 0) + WG_USEC_PER_SEC - 1) / WG_USEC_PER_SEC);
    default:
        return view->expected_start > 0
                   ? (long)((view->expected_start + WG_USEC_PER_SEC - 1) / WG_USEC_PER_SEC)
                   : -1;
    }
}

static void add_entry(const struct exchange *x, const struct wg_config_model *model, struct wg_buf *out)
{
    const struct wg_view *view = worker_view(x->worker, x->routes->plan->model_ids[model->index]);
    wg_model_entry(out, wg_slice_str(model->name), view ? shown_state(view->state) : "cold",
                   view ? seconds_left(x, view) : -1);
}

void models_list(struct exchange *x)
{
    const struct wg_config *config = exchange_config(x);
    struct wg_buf body = WG_BUF_INIT(config->n_models * ENTRY_MAX + 256);
    bool first = true;
    wg_buf_add_str(&body, "{\"object\": \"list\", \"data\": [");
    for (size_t i = 0; i < config->n_models; i++) {
        if (!wg_config_tenant_may(x->tenant, &config->models[i]))
            continue;
        if (!first)
            wg_buf_add_str(&body, ", ");
        first = false;
        add_entry(x, &config->models[i], &body);
    }
    wg_buf_add_str(&body, "]}\n");
    answer_json(x, &body);
}

void models_entry(struct exchange *x, const struct wg_config_model *model)
{
    struct wg_buf body = WG_BUF_INIT(ENTRY_MAX + 16);
    add_entry(x, model, &body);
    wg_buf_add_char(&body, '\n');
    answer_json(x, &body);
}
