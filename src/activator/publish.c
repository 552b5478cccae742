/* The counted, immutable things that control hands to other threads: views, plans, and the mail that carries
 * them. */
#include <stdlib.h>

#include "wakegate/activator.h"

struct wg_view *wg_view_ref(struct wg_view *view)
{
    atomic_fetch_add_explicit(&view->refs, 1, memory_order_relaxed);
    return view;
}

struct wg_view *wg_view_unref(struct wg_view *view)
{
    if (!view || atomic_fetch_sub_explicit(&view->refs, 1, memory_order_acq_rel) != 1)
        return NULL;
    for (size_t i = 0; i < view->n_endpoints; i++)
        wg_endpoint_unref(view->endpoints[i]);
    free(view);
    return NULL;
}

struct wg_plan *wg_plan_ref(struct wg_plan *plan)
{
    atomic_fetch_add_explicit(&plan->refs, 1, memory_order_relaxed);
    return plan;
}

struct wg_plan *wg_plan_unref(struct wg_plan *plan)
{
    if (!plan || atomic_fetch_sub_explicit(&plan->refs, 1, memory_order_acq_rel) != 1)
        return NULL;
    wg_config_unref(plan->config);
    free(plan);
    return NULL;
}

struct wg_publication *wg_publication_free(struct wg_publication *publication)
{
    if (!publication)
        return NULL;
    wg_view_unref(publication->view);
    wg_plan_unref(publication->plan);
    free(publication);
    return NULL;
}
