/* What the sources of this room share of a wg_kube and of the calls that its users hold. */
#pragma once

#include "client.h"
#include "credentials.h"

struct wg_kube {
    uint32_t magic;
    struct wg_loop *loop;
    struct wg_fetch *fetch;
    struct kube_credentials *credentials;
    struct wg_list requests; /* wg_kube_call.link: of client.c */
    struct wg_list tasks;    /* wg_kube_call.link: of scale.c, each with a request under way */
    struct wg_list watches;  /* of watch.c */
    struct wg_list kinds;    /* of resource.c: those that were asked for */
    unsigned n_kinds;
};

/* One request, or a task of several that follow each other. Embedded. */
struct wg_kube_call {
    uint32_t magic;
    struct wg_list link;
    void (*drop)(struct wg_kube_call *call); /* ends and frees it, telling nobody */
};

#define KUBE_CALL_MAGIC 0x4b756202
void kube_call_init(struct wg_kube_call *call, struct wg_list *list, void (*drop)(struct wg_kube_call *call));
/* First thing before its user is told: it is not his to cancel any more. */
void kube_call_end(struct wg_kube_call *call);
