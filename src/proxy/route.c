/* Routing by path. The cost does not grow with the models: names are looked up, and a pattern is kept once.
 */
#include "route.h"

#include <stdlib.h>

/* Three bytes of percent-encoding a byte: no slash beyond this can end a configured name. */
#define ENCODED_NAME_MAX (3 * 256)

static void add_paths(struct routes *routes, const struct wg_config_model *model)
{
    for (size_t i = 0; i < model->paths.n; i++) {
        const struct wg_slice path = wg_slice_str(model->paths.items[i]);
        if (!memchr(path.ptr, '*', path.len)) {
            if (!wg_map_get(routes->literal, path))
                WG_ASSERT(wg_map_insert(routes->literal, path, routes) == 0);
            continue;
        }
        bool known = false;
        for (size_t k = 0; k < routes->patterns.n && !known; k++)
            known = strcmp(routes->patterns.items[k], path.ptr) == 0;
        if (known)
            continue;
        routes->patterns.items = wg_xrealloc(routes->patterns.items, routes->patterns.n + 1, sizeof(char *));
        routes->patterns.items[routes->patterns.n++] = model->paths.items[i];
    }
}

static uint64_t largest_body(const struct wg_config *config, const struct wg_config_tenant *tenant)
{
    uint64_t largest = 0;
    for (size_t i = 0; i < config->n_models; i++)
        if (wg_config_tenant_may(tenant, &config->models[i]))
            largest = WG_MAX(largest, config->models[i].max_body_bytes);
    return largest;
}

struct routes *routes_new(struct wg_plan *plan)
{
    const struct wg_config *config = plan->config;
    struct routes *routes = WG_NEW(struct routes);
    routes->refs = 1;
    routes->plan = plan;
    routes->literal = wg_map_new();
    routes->model_metrics = wg_xcalloc(config->n_models + 1, sizeof(struct wg_model_metrics *));
    routes->tenant_metrics = wg_xcalloc(config->n_tenants + 1, sizeof(struct wg_tenant_metrics *));
    routes->max_body = wg_xcalloc(config->n_tenants + 1, sizeof(*routes->max_body));
    for (size_t i = 0; i < config->n_models; i++) {
        add_paths(routes, &config->models[i]);
        routes->model_metrics[i] = wg_metrics_model(config->models[i].name);
    }
    for (size_t i = 0; i < config->n_tenants; i++) {
        routes->tenant_metrics[i] = wg_metrics_tenant(config->tenants[i].name);
        routes->max_body[i] = largest_body(config, &config->tenants[i]);
    }
    return routes;
}

struct routes *routes_ref(struct routes *routes)
{
    routes->refs++;
    return routes;
}

struct routes *routes_unref(struct routes *routes)
{
    if (!routes || --routes->refs > 0)
        return NULL;
    wg_plan_unref(routes->plan);
    wg_map_free(routes->literal);
    free(routes->patterns.items);
    free(routes->model_metrics);
    free(routes->tenant_metrics);
    free(routes->max_body);
    free(routes);
    return NULL;
}

/* "*" stands for one segment, as in wg_config_path_allowed. */
static bool matches(const char *pattern, struct wg_slice path)
{
    struct wg_slice rest_pattern = wg_slice_str(pattern), rest = path, want, got;
    for (;;) {
        const bool more_pattern = wg_slice_split(&rest_pattern, '/', &want);
        const bool more = wg_slice_split(&rest, '/', &got);
        if (more != more_pattern)
            return false;
        if (!more)
            return true;
        const bool any = wg_slice_eq(want, WG_SLICE("*")) && got.len > 0;
        if (!any && !wg_slice_eq(want, got))
            return false;
    }
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
        return (c | 0x20) - 'a' + 10;
    return -1;
}

static const struct wg_config_model *find_name(const struct routes *routes, struct wg_slice raw)
{
    const struct wg_config_model *model = wg_config_model(routes->plan->config, raw);
    if (model || !memchr(raw.ptr, '%', raw.len))
        return model;
    char name[ENCODED_NAME_MAX];
    size_t len = 0;
    for (size_t i = 0; i < raw.len; i++) {
        const int high = raw.ptr[i] == '%' && i + 2 < raw.len ? hex_digit(raw.ptr[i + 1]) : -1;
        const int low = high >= 0 ? hex_digit(raw.ptr[i + 2]) : -1;
        name[len] = raw.ptr[i];
        if (low >= 0) {
            name[len] = (char)(high << 4 | low);
            i += 2;
        }
        len++;
    }
    return wg_config_model(routes->plan->config, wg_slice(name, len));
}

/* The longest configured name that ends at a slash of what follows /models/. */
static struct route find_named(const struct routes *routes, struct wg_slice tail)
{
    for (size_t at = WG_MIN(tail.len, (size_t)ENCODED_NAME_MAX); at > 0; at--) {
        if (at >= tail.len || tail.ptr[at] != '/')
            continue;
        const struct wg_config_model *model = find_name(routes, wg_slice(tail.ptr, at));
        if (model)
            return (struct route){ROUTE_NAMED, model, wg_slice(tail.ptr + at, tail.len - at)};
    }
    return (struct route){.kind = ROUTE_UNKNOWN};
}

static struct route find_entry(const struct routes *routes, struct wg_slice tail)
{
    const struct wg_config_model *model =
        tail.len > 0 && tail.len <= ENCODED_NAME_MAX ? find_name(routes, tail) : NULL;
    return (struct route){.kind = model ? ROUTE_ENTRY : ROUTE_UNKNOWN, .model = model};
}

struct route routes_find(const struct routes *routes, struct wg_slice path)
{
    const struct wg_slice list = WG_SLICE("/v1/models"), entry = WG_SLICE("/v1/models/"),
                          named = WG_SLICE("/models/");
    if (wg_slice_eq(path, list))
        return (struct route){.kind = ROUTE_LIST};
    if (wg_slice_starts_with(path, entry))
        return find_entry(routes, wg_slice(path.ptr + entry.len, path.len - entry.len));
    if (wg_slice_starts_with(path, named))
        return find_named(routes, wg_slice(path.ptr + named.len, path.len - named.len));
    if (wg_map_get(routes->literal, path))
        return (struct route){.kind = ROUTE_API, .rest = path};
    for (size_t i = 0; i < routes->patterns.n; i++)
        if (matches(routes->patterns.items[i], path))
            return (struct route){.kind = ROUTE_API, .rest = path};
    return (struct route){.kind = ROUTE_NONE};
}
