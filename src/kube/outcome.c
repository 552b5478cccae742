/* Turns answers of the API server, and the lack of one, into outcomes with words for people. */
#include "outcome.h"

#include <stdlib.h>

#include "objects.h"

/* ---- the metric's labels ---- */

enum wg_api_verb kube_verb_of(const char *verb)
{
    static const char *const verbs[WG_API_VERBS] = {
        [WG_API_GET] = "get", [WG_API_LIST] = "list", [WG_API_WATCH] = "watch", [WG_API_PATCH] = "patch"};
    unsigned i = 0;
    while (i < WG_API_VERBS && strcmp(verbs[i], verb) != 0)
        i++;
    WG_ASSERT(i < WG_API_VERBS);
    return (enum wg_api_verb)i;
}

/* The first row that holds the status. */
static const struct {
    long from, to;
    enum wg_api_status status;
    enum wg_kube_result result;
} rows[] = {
    {200, 299, WG_API_2XX, WG_KUBE_OK},
    {300, 399, WG_API_3XX, WG_KUBE_INVALID},
    {401, 401, WG_API_401, WG_KUBE_FORBIDDEN},
    {403, 403, WG_API_403, WG_KUBE_FORBIDDEN},
    {404, 404, WG_API_404, WG_KUBE_NOT_FOUND},
    {409, 409, WG_API_409, WG_KUBE_CONFLICT},
    {410, 410, WG_API_410, WG_KUBE_INVALID},
    {429, 429, WG_API_429, WG_KUBE_LATER},
    {400, 499, WG_API_4XX, WG_KUBE_INVALID},
    {500, 599, WG_API_5XX, WG_KUBE_LATER},
    {0, INT32_MAX, WG_API_ERROR, WG_KUBE_INVALID},
};

static size_t row_of(long status)
{
    size_t i = 0;
    while (status < rows[i].from || status > rows[i].to)
        i++;
    return i;
}

enum wg_api_status kube_status_of(const struct wg_fetch_answer *answer)
{
    return answer->result == WG_FETCH_DONE ? rows[row_of(answer->status)].status : WG_API_ERROR;
}

/* ---- words ---- */

/* What a sentence is made of; all texts freed by clear_parts. */
struct parts {
    char *where; /* ` in namespace "llm"`, or nothing */
    char *which; /* `deployments "qwen"` or `deployments`: without the subresource */
    char *code;  /* `(403: message)` or `(403)` */
};

static struct parts parts_of(const struct kube_request *request, long status, const char *message)
{
    const int base = (int)strcspn(request->resource, "/");
    struct parts parts;
    parts.where =
        request->namespace_ ? wg_xasprintf(" in namespace \"%s\"", request->namespace_) : wg_xstrdup("");
    parts.which = request->name ? wg_xasprintf("%.*s \"%s\"", base, request->resource, request->name)
                                : wg_xstrdup(request->resource);
    parts.code = message[0] ? wg_xasprintf("(%ld: %s)", status, message) : wg_xasprintf("(%ld)", status);
    return parts;
}

static void clear_parts(struct parts *parts)
{
    free(parts->where);
    free(parts->which);
    free(parts->code);
}

static char *words_of_refusal(const struct kube_request *request, const char *server, long status,
                              const struct kube_status *said, const struct parts *parts)
{
    switch (status) {
    case 401:
        return wg_xasprintf("not let in by %s %s", server, parts->code);
    case 403:
        return wg_xasprintf("may not %s %s%s %s", request->verb, request->resource, parts->where,
                            parts->code);
    case 404:
        if (said->named && request->name)
            return wg_xasprintf("%s not found%s", parts->which, parts->where);
        return wg_xasprintf("%s has no %s%s %s", server, request->resource, parts->where, parts->code);
    case 409:
        return wg_xasprintf("%s%s was changed by somebody else %s", parts->which, parts->where, parts->code);
    default:
        return wg_xasprintf("%s cannot %s %s%s %s%s", server, request->verb, request->resource, parts->where,
                            rows[row_of(status)].result == WG_KUBE_LATER ? "now " : "", parts->code);
    }
}

static void judge_refusal(const struct kube_request *request, const char *server,
                          const struct wg_fetch_answer *answer, struct wg_kube_outcome *outcome,
                          char **ret_why)
{
    struct kube_status said;
    kube_parse_status(answer->body, &said);
    struct parts parts = parts_of(request, answer->status, said.message);
    *ret_why = words_of_refusal(request, server, answer->status, &said, &parts);
    clear_parts(&parts);
    outcome->result = rows[row_of(answer->status)].result;
    if (outcome->result == WG_KUBE_LATER)
        outcome->retry_after = WG_MAX(answer->retry_after, said.retry_after);
}

void kube_judge(const struct kube_request *request, const char *server, const struct wg_fetch_answer *answer,
                bool ended, struct wg_kube_outcome *ret_outcome, char **ret_why)
{
    struct wg_kube_outcome outcome = {.result = WG_KUBE_OK};
    char *why = NULL;
    if (answer->result == WG_FETCH_DONE && answer->status / 100 == 2) {
        why = wg_xstrdup("");
    } else if (answer->result == WG_FETCH_DONE) {
        judge_refusal(request, server, answer, &outcome, &why);
    } else if (ended || answer->result == WG_FETCH_TOO_LARGE) {
        outcome.result = WG_KUBE_INVALID;
        why = wg_xasprintf("no use for the answer of %s: %s", server, answer->error);
    } else {
        outcome.result = WG_KUBE_LATER;
        why = wg_xasprintf("no answer from %s: %s", server, answer->error);
    }
    outcome.why = why;
    *ret_outcome = outcome;
    *ret_why = why;
}
