/* Paths of objects, and which plural name a kind has: a table for the built-in workloads, and a list of what
 * discovery has told. */
#include "resource.h"

#include <stdlib.h>

enum { MAX_KINDS = 256 };

/* What discovery has told. */
struct kind {
    struct wg_list link; /* wg_kube.kinds */
    char *api_version, *name, *plural;
};

static const struct {
    const char *api_version, *kind, *plural;
} built_in[] = {
    {"apps/v1", "Deployment", "deployments"},
    {"apps/v1", "StatefulSet", "statefulsets"},
    {"apps/v1", "ReplicaSet", "replicasets"},
    {"v1", "ReplicationController", "replicationcontrollers"},
    {"leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkersets"},
};

void kube_add_escaped(struct wg_buf *buf, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~";
    for (; *text; text++) {
        if (strchr(plain, *text))
            wg_buf_add_char(buf, *text);
        else
            wg_buf_addf(buf, "%%%02X", (unsigned)(unsigned char)*text);
    }
}

void kube_add_base(struct wg_buf *buf, const char *api_version, const char *namespace_)
{
    const char *slash = strchr(api_version, '/');
    if (slash) {
        char *group WG_AUTO_FREE = wg_xstrndup(api_version, (size_t)(slash - api_version));
        wg_buf_add_str(buf, "/apis/");
        kube_add_escaped(buf, group);
        wg_buf_add_char(buf, '/');
        kube_add_escaped(buf, slash + 1);
    } else {
        wg_buf_add_str(buf, "/api/");
        kube_add_escaped(buf, api_version);
    }
    if (namespace_) {
        wg_buf_add_str(buf, "/namespaces/");
        kube_add_escaped(buf, namespace_);
    }
}

static struct kind *find(const struct wg_kube *kube, const char *api_version, const char *name)
{
    wg_list_foreach (node, &kube->kinds) {
        struct kind *kind = WG_LIST_ENTRY(node, struct kind, link);
        if (strcmp(kind->api_version, api_version) == 0 && strcmp(kind->name, name) == 0)
            return kind;
    }
    return NULL;
}

const char *kube_plural(const struct wg_kube *kube, const char *api_version, const char *kind)
{
    for (size_t i = 0; i < WG_COUNT_OF(built_in); i++)
        if (strcmp(built_in[i].api_version, api_version) == 0 && strcmp(built_in[i].kind, kind) == 0)
            return built_in[i].plural;
    const struct kind *told = find(kube, api_version, kind);
    return told ? told->plural : NULL;
}

static void free_kind(struct wg_kube *kube, struct kind *kind)
{
    kube->n_kinds--;
    wg_list_remove(&kind->link);
    free(kind->api_version);
    free(kind->name);
    free(kind->plural);
    free(kind);
}

void kube_learn_plural(struct wg_kube *kube, const char *api_version, const char *kind, const char *plural)
{
    kube_forget_plural(kube, api_version, kind);
    if (kube->n_kinds >= MAX_KINDS)
        return;
    struct kind *told = WG_NEW(struct kind);
    told->api_version = wg_xstrdup(api_version);
    told->name = wg_xstrdup(kind);
    told->plural = wg_xstrdup(plural);
    wg_list_init(&told->link);
    wg_list_append(&kube->kinds, &told->link);
    kube->n_kinds++;
}

void kube_forget_plural(struct wg_kube *kube, const char *api_version, const char *kind)
{
    struct kind *told = find(kube, api_version, kind);
    if (told)
        free_kind(kube, told);
}

void kube_kinds_clear(struct wg_kube *kube)
{
    wg_list_foreach_safe (node, &kube->kinds)
        free_kind(kube, WG_LIST_ENTRY(node, struct kind, link));
}
