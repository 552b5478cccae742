/* The Kubernetes API server, as far as a wake needs it: access to one cluster, the scale of a workload, and
 * the pods of a namespace. All of it belongs to the service loop. Nothing blocks: every call is answered by
 * its done(), exactly once, never from inside the call that began it, and not after it was cancelled. */
#pragma once

#include "wakegate/config.h"
#include "wakegate/event.h"
#include "wakegate/fetch.h"

/* ---- access to a cluster ---- */

struct wg_kube;

/* Where the access comes from: `kubeconfig` (a path; "": the pod's service account if there is one, else
 * $KUBECONFIG, else ~/.kube/config) and which of its contexts ("": its current one). */
struct wg_kube_access {
    const char *kubeconfig, *context;
};

/* Copies access; reads nothing yet. Credentials are loaded with the first call, and looked at again when a
 * call is refused with 401 (then it is sent once more) and once a minute at the most, so that tokens, client
 * certificates and CAs may be replaced on disk. What is wrong with them is the `why` of every call. */
struct wg_kube *wg_kube_new(struct wg_loop *loop, struct wg_fetch *fetch,
                            const struct wg_kube_access *access);
/* Ends all calls and watches without telling them. Before its fetch. NULL-safe. */
struct wg_kube *wg_kube_free(struct wg_kube *kube);

/* ---- what comes of a call ---- */

enum wg_kube_result {
    WG_KUBE_OK,
    WG_KUBE_LATER,     /* not reached, no complete answer in time, 429 or 5xx: may work if tried again */
    WG_KUBE_CONFLICT,  /* 409: the object is not what was read any more */
    WG_KUBE_FORBIDDEN, /* 401 with fresh credentials too, 403, or no credentials at all */
    WG_KUBE_NOT_FOUND, /* 404: no such object, or no such kind of objects */
    WG_KUBE_INVALID, /* any other refusal (400, 415, 422 …), or an answer that is not what was asked for */
};

struct wg_kube_outcome {
    enum wg_kube_result result;
    wg_usec retry_after; /* LATER: what the server asked for; 0: nothing */
    /* For people, "" when OK: `may not patch deployments/scale in namespace "llm": …`, `no answer from
     * https://…: Connection refused`, `deployments "qwen" not found in namespace "llm"`. Borrowed. */
    const char *why;
};

struct wg_kube_call; /* one call under way */
/* NULL-safe. */
void wg_kube_cancel(struct wg_kube_call *call);

/* ---- scale ---- */

/* Any object with the subresource `scale`. The plural name of its kind is known for the built-in workloads,
 * and asked of the server's discovery once for all others. */
struct wg_kube_object {
    const char *api_version, *kind, *namespace_, *name; /* "apps/v1", "Deployment" */
};

struct wg_kube_scale {
    int64_t replicas;             /* spec.replicas; the server leaves a zero out */
    int64_t observed;             /* status.replicas */
    const char *selector;         /* status.selector, "" when there is none. Borrowed, as is the next */
    const char *resource_version; /* opaque */
};

typedef void wg_kube_scale_done(void *arg, const struct wg_kube_outcome *outcome,
                                const struct wg_kube_scale *scale /* NULL unless OK */);
/* NULL only when memory is out. The object's texts are copied. */
struct wg_kube_call *wg_kube_read_scale(struct wg_kube *kube, const struct wg_kube_object *object,
                                        wg_kube_scale_done *done, void *arg);
/* A merge patch of spec.replicas alone, guarded by the resourceVersion that was read: CONFLICT if the object
 * has changed since. */
struct wg_kube_call *wg_kube_write_scale(struct wg_kube *kube, const struct wg_kube_object *object,
                                         int64_t replicas, const char *resource_version,
                                         wg_kube_scale_done *done, void *arg);

/* What keeps the workload itself from making pods, in words: a condition ReplicaFailure with status True
 * (quota, admission), or where the kind has no such condition the last FailedCreate of its events. "" if
 * there is nothing, or if we may not look. */
typedef void wg_kube_trouble_done(void *arg, const struct wg_kube_outcome *outcome, const char *why);
struct wg_kube_call *wg_kube_read_trouble(struct wg_kube *kube, const struct wg_kube_object *object,
                                          wg_kube_trouble_done *done, void *arg);

/* ---- pods ---- */

enum wg_kube_pod_health {
    WG_KUBE_POD_FINE,   /* on its way, or up */
    WG_KUBE_POD_WAITS,  /* held up by something that may pass: Unschedulable, claims that cannot be allocated,
                           a  first ImagePullBackOff, a crash */
    WG_KUBE_POD_FAILED, /* will not come up: InvalidImageName; ImagePullBackOff for the second time; three
                           restarts of a container (init containers too); OOMKilled for the second time; the
                           pod itself Failed */
};

enum { WG_KUBE_POD_IPS = 2 };

/* A pod as it was last seen. Times are wall clock, 0: not (yet) known. Borrowed for the call. */
struct wg_kube_pod {
    const char *uid, *name;
    const char *ips[WG_KUBE_POD_IPS]; /* NULL behind the last; IPv4 and IPv6 of dual stack */
    uint16_t port;    /* of the number or the name asked for; 0: it has no port of this name */
    bool terminating; /* deletionTimestamp is set, or its phase is Succeeded or Failed */
    bool ready;
    wg_usec ready_since;
    wg_usec created, scheduled, image_pulled, started;
    enum wg_kube_pod_health health;
    const char *why; /* for WAITS and FAILED, in words: `pod qwen-abc: ImagePullBackOff: …` */
};

/* Upward calls, never from inside wg_kube_follow. */
struct wg_kube_pods_handler {
    /* New, or something of the above is different. */
    void (*pod)(void *arg, const struct wg_kube_pod *pod);
    void (*gone)(void *arg, const char *uid);
    /* All pods that existed when the follower came are told; again after each time that the list was read
     * anew. */
    void (*listed)(void *arg);
    /* The pods cannot be read for now (outcome's why), or can be again (OK). It goes on trying by itself. */
    void (*trouble)(void *arg, const struct wg_kube_outcome *outcome);
};

struct wg_kube_follower;
/* Follows the pods of a namespace that a selector matches ("app=qwen,tier in (a,b),!x", the text form of
 * labels.Selector), with `port` a number or the name of a container's port. One watch a namespace is open for
 * as long as it has followers. -EINVAL for a selector that cannot be read. The texts are copied. */
WG_MUST_CHECK int wg_kube_follow(struct wg_kube *kube, const char *namespace_, const char *selector,
                                 const char *port, const struct wg_kube_pods_handler *handler, void *arg,
                                 struct wg_kube_follower **ret_follower);
/* No handler is called after it; may be called from inside one. NULL-safe. */
struct wg_kube_follower *wg_kube_unfollow(struct wg_kube_follower *follower);
