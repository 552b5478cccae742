/* Faults between the options of one model, and its defaults that depend on its target and its probe. */
#include <stdlib.h>

#include "check.h"
#include "file.h"
#include "wakegate/base/quantity.h"

/* Which target was given decides; that there is exactly one is checked where it is read. */
static void set_target(const struct spot *spot, struct wg_config_model *model)
{
    model->target = spot_find(spot, "target.process") != NULL ? WG_TARGET_PROCESS : WG_TARGET_STATIC;
}

static bool mentions_port(const struct wg_strings *command)
{
    for (size_t i = 0; i < command->n; i++)
        if (strstr(command->items[i], "{port}") != NULL)
            return true;
    return false;
}

static void check_process(const struct spot *spot, const struct wg_config_model *model)
{
    const struct wg_config_process *process = &model->process;

    if (process->command.n == 0)
        return;
    if (process->command.items[0][0] == '\0')
        spot_fault(spot, "target.process.command", "the name of the program is empty");
    if (process->port == 0 && !mentions_port(&process->command))
        spot_fault(
            spot, "target.process.command",
            "must have {port} in it, so that the program learns its port, unless target.process.port is set");
}

static bool idle_by_default(const struct wg_config_model *model)
{
    const struct option *option = option_find("models[].idle.timeout");
    wg_usec usual = 0;

    return wg_duration_parse(wg_slice_str(option->fallback), &usual) == 0 && model->idle_timeout == usual;
}

static void check_static(const struct spot *spot, const struct wg_config_model *model)
{
    bool wakes = model->static_.wake.url[0] != '\0', sleeps = model->static_.sleep.url[0] != '\0';

    if (sleeps && !wakes)
        spot_fault(spot, "target.static.sleep", "needs a wake hook too, or the model would sleep for ever");
    if (!wakes && !sleeps && !idle_by_default(model) && model->idle_timeout != WG_USEC_NEVER)
        spot_warning(spot, "idle.timeout", "does nothing: the target has no hooks");
    if (!wakes && model->preload)
        spot_warning(spot, "preload", "does nothing: the target has no wake hook");
}

static void check_concurrency(const struct spot *spot, struct wg_config_model *model)
{
    enum { PROCESS_SLOTS = 4 };
    unsigned *most = &model->concurrency.per_endpoint, *first = &model->concurrency.ramp_start;
    bool first_given = spot_find(spot, "concurrency.rampStart") != NULL;

    if (model->target == WG_TARGET_PROCESS) {
        if (spot_find(spot, "concurrency.perEndpoint") == NULL)
            *most = WG_MAX(PROCESS_SLOTS, first_given ? *first : 0);
        if (!first_given)
            *first = PROCESS_SLOTS;
    }
    if (!first_given)
        *first = WG_MIN(*first, *most);
    if (*first > *most)
        spot_fault(spot, "concurrency.rampStart", "must not be more than perEndpoint, which is %u", *most);
}

static void compile_expect(const struct spot *spot, struct wg_config_probe *probe)
{
    char why[128];

    if (probe->expect[0] == '\0')
        return;
    int r = regcomp(&probe->expect_regex, probe->expect, REG_EXTENDED | REG_NOSUB);
    if (r == 0)
        return;
    regerror(r, &probe->expect_regex, why, sizeof(why));
    spot_fault(spot, "probe.expect", "is no POSIX extended regular expression: %s", why);
    probe->expect[0] = '\0'; /* so that a compiled one is there if and only if it is not empty */
}

static void check_probe(const struct spot *spot, struct wg_config_probe *probe)
{
    static const char *const paths[] = {
        [WG_PROBE_CHAT] = "/v1/chat/completions",
        [WG_PROBE_COMPLETIONS] = "/v1/completions",
        [WG_PROBE_EMBEDDINGS] = "/v1/embeddings",
        [WG_PROBE_TCP] = "",
    };
    static const char *const meaningless[] = {"probe.path", "probe.body", "probe.expect"};

    for (size_t i = 0; probe->kind == WG_PROBE_TCP && i < WG_COUNT_OF(meaningless); i++) {
        const struct node *node = spot_find(spot, meaningless[i]);
        if (node != NULL && node->kind == NODE_SCALAR && node->text[0] != '\0')
            spot_fault(spot, meaningless[i], "does not go with probe.kind: tcp, which asks nothing");
    }
    if (probe->path[0] == '\0') {
        free(probe->path);
        probe->path = wg_xstrdup(paths[probe->kind]);
    }
    compile_expect(spot, probe);
}

static void check_sizes(const struct spot *spot, const struct wg_config *config,
                        const struct wg_config_model *model)
{
    if (model->max_body_bytes > config->limits.max_held_bytes)
        spot_warning(spot, "maxBodyBytes",
                     "is larger than limits.maxHeldBytes: such a body can never be taken");
    if (model->max_body_bytes > model->hold.max_bytes)
        spot_warning(spot, "maxBodyBytes", "is larger than hold.maxBytes: such a body can never be held");
    if (model->wake.backoff > model->wake.max_backoff)
        spot_fault(spot, "wake.backoff", "must not be longer than wake.maxBackoff");
}

static void read_upstream_key(const struct spot *spot, struct wg_config_model *model)
{
    const char *wrong = NULL;

    if (model->upstream_key_file[0] != '\0') {
        model->upstream_key = file_read_secret(spot->reading->file, model->upstream_key_file, &wrong);
        if (model->upstream_key == NULL)
            spot_fault(spot, "upstreamKey.file", "%.200s: %s", model->upstream_key_file, wrong);
    }
    if (model->upstream_key == NULL)
        model->upstream_key = wg_xstrdup("");
}

void check_model(const struct spot *spot, const struct wg_config *config, struct wg_config_model *model)
{
    set_target(spot, model);
    if (model->target == WG_TARGET_PROCESS)
        check_process(spot, model);
    else
        check_static(spot, model);
    check_concurrency(spot, model);
    check_probe(spot, &model->probe);
    check_sizes(spot, config, model);
    read_upstream_key(spot, model);
}
