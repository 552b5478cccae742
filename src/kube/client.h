/* One call to the API server: how it is let in, sent again after a stray 401, counted and put into words. */
#pragma once

#include "wakegate/kube.h"

struct kube_request {
    const char *verb;   /* of RBAC: "get", "patch", "list", "watch"; also the label of the metric */
    const char *method; /* "GET", "PATCH" */
    const char *path;   /* below the server's URL, with the query; escaped */
    struct wg_slice body;
    const char *content_type; /* NULL: application/json */
    /* for words only */
    const char *resource, *namespace_, *name;      /* "deployments/scale", "llm", "qwen" or NULL */
    wg_usec timeout;                               /* 0: the default of short calls */
    wg_usec idle_timeout;                          /* as in wg_fetch_request */
    size_t max_answer;                             /* 0: the default of small objects */
    bool (*data)(void *arg, struct wg_slice data); /* as in wg_fetch_request */
    /* body: empty if it went to data, or if not OK. A stream that was ended by `data` is INVALID. */
    void (*done)(void *arg, const struct wg_kube_outcome *outcome, struct wg_slice body);
    void *arg;
};

/* All texts and the body are copied. */
struct wg_kube_call *kube_start(struct wg_kube *kube, const struct kube_request *request);
/* The loop that a wg_kube belongs to. */
struct wg_loop *kube_loop(const struct wg_kube *kube);
/* The slot in which watch.c keeps its watches of namespaces: freed by wg_kube_free through kube_watches_free.
 */
struct wg_list *kube_watches(struct wg_kube *kube);
void kube_watches_free(struct wg_list *watches);
