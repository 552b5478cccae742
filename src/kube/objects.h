/* What answers of the API server say: pure functions from bodies to values and words. Whatever comes, nothing
 * worse than a refusal comes of it. */
#pragma once

#include <jansson.h>

#include "wakegate/kube.h"

enum { KUBE_MESSAGE_MAX = 400 }; /* of a text that a server wrote, shown to people */

/* A text on one line, without control characters, cut at a character's end. */
void kube_clean(struct wg_slice text, char out[static KUBE_MESSAGE_MAX + 1]);

/* The object Status, which comes with refusals. */
struct kube_status {
    char message[KUBE_MESSAGE_MAX + 1]; /* of anything that is no Status: how it begins */
    bool named;                         /* it tells which object it is about */
    wg_usec retry_after;                /* 0: not told */
};
void kube_parse_status(struct wg_slice body, struct kube_status *ret_status);

/* autoscaling/v1 Scale. Returns the reference that the texts of *ret_scale live by; NULL: it is none. */
json_t *kube_parse_scale(struct wg_slice body, struct wg_kube_scale *ret_scale);

/* Looks a kind up in an APIResourceList: its plural name (freed by the caller), and whether it has the
 * subresource scale. 0, -ENOENT: not in it, -EINVAL: it is none. */
WG_MUST_CHECK int kube_parse_plural(struct wg_slice body, const char *kind, char **ret_plural,
                                    bool *ret_scales);

/* Why no pods are made: the message of a true condition ReplicaFailure, or of the newest FailedCreate in a
 * list of events, unless a SuccessfulCreate came later. "" if there is none; false: no such object. */
bool kube_parse_replica_failure(struct wg_slice body, char out[static KUBE_MESSAGE_MAX + 1]);
bool kube_parse_failed_create(struct wg_slice body, char out[static KUBE_MESSAGE_MAX + 1]);
