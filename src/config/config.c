/* The configuration as a counted whole: made from a file or from text, compared, asked, and freed. */
#include "wakegate/config.h"

#include <ctype.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "file.h"
#include "print.h"
#include "types.h"
#include "wakegate/base/map.h"

enum { FILE_MAX = 1024 * 1024 };

static void clear_model(struct wg_config_model *model)
{
    if (model->probe.expect != NULL && model->probe.expect[0] != '\0')
        regfree(&model->probe.expect_regex);
    model->upstream_key = file_wipe(model->upstream_key);
}

static void config_free(struct wg_config *config)
{
    for (size_t i = 0; i < config->n_models; i++)
        clear_model(&config->models[i]);
    for (size_t i = 0; i < n_options; i++)
        if (option_is_member(&options[i], "") && option_types[options[i].type].clear != NULL)
            option_types[options[i].type].clear(&options[i], config);
    wg_map_free(config->by_name);
    wg_map_free(config->by_key);
    wg_map_free(config->by_san);
    free(config->path);
    free(config);
}

struct wg_config *wg_config_ref(struct wg_config *config)
{
    unsigned was = atomic_fetch_add_explicit(&config->refs, 1, memory_order_relaxed);

    WG_ASSERT(was > 0 && was < UINT32_MAX);
    return config;
}

struct wg_config *wg_config_unref(struct wg_config *config)
{
    if (config == NULL)
        return NULL;
    unsigned was = atomic_fetch_sub_explicit(&config->refs, 1, memory_order_acq_rel);
    WG_ASSERT(was > 0);
    if (was == 1)
        config_free(config);
    return NULL;
}

int wg_config_parse(const char *path, struct wg_slice text, struct wg_config **ret_config,
                    struct wg_config_faults *faults)
{
    struct reading reading = {.file = path, .faults = faults};
    unsigned errors = faults->errors;

    struct node *root = node_parse(path, text, faults);
    if (root == NULL)
        return -EINVAL;
    struct wg_config *config = WG_NEW(struct wg_config);
    atomic_init(&config->refs, 1);
    config->path = wg_xstrdup(path);
    read_config(&reading, config, root);
    check_config(&reading, config, root);
    reading_clear(&reading);
    node_free(root);
    if (faults->errors > errors) {
        wg_config_unref(config);
        return -EINVAL;
    }
    *ret_config = config;
    return 0;
}

int wg_config_load(const char *path, struct wg_config **ret_config, struct wg_config_faults *faults)
{
    struct wg_buf text = WG_BUF_INIT(FILE_MAX);

    int r = file_read(path, &text);
    if (r < 0) {
        config_fault(faults, path, 0, "", "cannot be read: %s",
                     r == -EFBIG ? "larger than 1048576 bytes" : strerrordesc_np(-r));
        r = -EINVAL;
    } else {
        r = wg_config_parse(path, wg_buf_slice(&text), ret_config, faults);
    }
    wg_buf_clear(&text);
    return r;
}

void wg_config_restart_needed(const struct wg_config *was, const struct wg_config *is, struct wg_buf *out)
{
    struct wg_buf before = WG_BUF_INIT(PRINT_MAX), after = WG_BUF_INIT(PRINT_MAX);

    for (size_t i = 0; i < n_options; i++) {
        if ((options[i].flags & OPTION_RESTART) == 0 || !option_is_member(&options[i], ""))
            continue;
        wg_buf_reset(&before);
        wg_buf_reset(&after);
        print_lasting(&before, &options[i], was);
        print_lasting(&after, &options[i], is);
        if (!wg_slice_eq(wg_buf_slice(&before), wg_buf_slice(&after)))
            wg_buf_addf(out, "%s\n", options[i].path);
    }
    wg_buf_clear(&before);
    wg_buf_clear(&after);
}

bool wg_config_same_target(const struct wg_config_model *a, const struct wg_config_model *b)
{
    const struct option *target = option_find("models[].target");
    struct wg_buf before = WG_BUF_INIT(PRINT_MAX), after = WG_BUF_INIT(PRINT_MAX);

    print_option(&before, target, a, true);
    print_option(&after, target, b, true);
    bool same = !before.failed && !after.failed && wg_slice_eq(wg_buf_slice(&before), wg_buf_slice(&after));
    print_wipe(&before);
    print_wipe(&after);
    return same;
}

char *config_san(struct wg_slice name)
{
    char *san = wg_slice_dup(name);

    if (memchr(name.ptr, ':', name.len) == NULL && memchr(name.ptr, '@', name.len) == NULL)
        for (char *c = san; *c != '\0'; c++)
            *c = (char)tolower((unsigned char)*c);
    return san;
}

const struct wg_config_tenant *wg_config_tenant_of_san(const struct wg_config *config, struct wg_slice san)
{
    if (wg_map_count(config->by_san) == 0 || san.len == 0)
        return NULL;
    char *name WG_AUTO_FREE = config_san(san);
    return wg_map_get(config->by_san, wg_slice_str(name));
}

const struct wg_config_model *wg_config_model(const struct wg_config *config, struct wg_slice name)
{
    return wg_map_get(config->by_name, name);
}

bool wg_config_tenant_may(const struct wg_config_tenant *tenant, const struct wg_config_model *model)
{
    for (size_t i = 0; i < tenant->models.n; i++)
        if (strcmp(tenant->models.items[i], "*") == 0 || strcmp(tenant->models.items[i], model->name) == 0)
            return true;
    return false;
}
