/* Where objects are: paths, and the plural names of kinds. */
#pragma once

#include "kube_internal.h"

/* Escaped as one segment of a path, or one value in a query. */
void kube_add_escaped(struct wg_buf *buf, const char *text);
/* "/api/v1" or "/apis/GROUP/VERSION"; with namespace_ "/namespaces/NS" behind it, unless NULL. */
void kube_add_base(struct wg_buf *buf, const char *api_version, const char *namespace_);

/* Known without asking, or asked before; NULL: neither. */
const char *kube_plural(const struct wg_kube *kube, const char *api_version, const char *kind);
/* What discovery said. Too many are not kept. */
void kube_learn_plural(struct wg_kube *kube, const char *api_version, const char *kind, const char *plural);
/* It may have been replaced by another: to be asked anew. */
void kube_forget_plural(struct wg_kube *kube, const char *api_version, const char *kind);
void kube_kinds_clear(struct wg_kube *kube);
