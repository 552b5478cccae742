/* Where a request goes by its path: a plan, made ready for the request path. Counted, of one worker. */
#pragma once

#include "wakegate/activator.h"
#include "wakegate/base/map.h"

struct routes {
    unsigned refs;
    struct wg_plan *plan;
    struct wg_map *literal;                  /* paths without "*" of all models */
    struct wg_strings patterns;              /* those with "*", each once; borrowed texts */
    struct wg_model_metrics **model_metrics; /* by model index */
    struct wg_tenant_metrics **tenant_metrics;
    uint64_t *max_body; /* by tenant index: the largest maxBodyBytes of its models */
};

struct routes *routes_new(struct wg_plan *plan); /* takes a reference of the plan */
struct routes *routes_ref(struct routes *routes);
struct routes *routes_unref(struct routes *routes);

enum route_kind {
    ROUTE_NONE,   /* 404 */
    ROUTE_API,    /* an inference path; the model is named in the body */
    ROUTE_NAMED,  /* /models/{name}/rest */
    ROUTE_LIST,   /* /v1/models */
    ROUTE_ENTRY,  /* /v1/models/{id} */
    ROUTE_UNKNOWN /* /models/ or /v1/models/ with a name that nobody has */
};
struct route {
    enum route_kind kind;
    const struct wg_config_model *model; /* NAMED, ENTRY */
    struct wg_slice rest;                /* the path that the model gets; of the path given */
};
struct route routes_find(const struct routes *routes, struct wg_slice path);
