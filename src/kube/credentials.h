/* Who we are to a cluster and where it is: from a service account, a kubeconfig, or what its plugin says. */
#pragma once

#include "wakegate/kube.h"

/* What a call needs to be let in. Immutable, counted. */
struct kube_identity {
    unsigned refs;
    char *server;          /* "https://10.0.0.1:443", without a slash at the end */
    char *ca, *cert, *key; /* PEM, NULL: none */
    char *server_name;     /* NULL: that of the URL */
    bool insecure;
    char *bearer; /* secret; NULL: none */
};
struct kube_identity *kube_identity_ref(struct kube_identity *identity);
/* The last one wipes secrets and frees. NULL-safe, returns NULL. */
struct kube_identity *kube_identity_unref(struct kube_identity *identity);

struct kube_credentials;
struct kube_credentials *kube_credentials_new(struct wg_loop *loop, const struct wg_kube_access *access);
/* Ends a plugin that runs. Questions that are open are not answered. NULL-safe. */
struct kube_credentials *kube_credentials_free(struct kube_credentials *credentials);

/* Somebody who waits for an identity. Embedded by the asker, who keeps it until answered or taken back. */
struct kube_question {
    struct wg_list link;
    /* One of the two is NULL. A reference that the receiver takes over; words for people. Never from inside
     * kube_credentials_ask. */
    void (*answer)(struct kube_question *question, struct kube_identity *identity, const char *why);
};
/* refused: the identity that the server has just refused with 401, so that what was read since is given
 * without reading it once more; NULL: any that is fresh enough will do. */
void kube_credentials_ask(struct kube_credentials *credentials, struct kube_question *question,
                          const struct kube_identity *refused);
void kube_question_take_back(struct kube_question *question);
