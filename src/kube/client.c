/* A request to the API server from the question who we are to its one outcome. Waiting and trying again is
 * for those who asked, but for a 401: credentials may just have been replaced. */
#include <stdlib.h>

#include "kube_internal.h"
#include "outcome.h"
#include "resource.h"

#define KUBE_MAGIC 0x4b756201

enum { MAX_ANSWER = 2 * 1024 * 1024 /* etcd keeps no object that is larger */ };
static const wg_usec connect_timeout = 5 * WG_USEC_PER_SEC, default_timeout = 10 * WG_USEC_PER_SEC;

enum phase {
    PHASE_BETWEEN, /* nothing is under way */
    PHASE_ASKING,  /* for an identity */
    PHASE_SENT,    /* waits for the answer */
};

struct request {
    struct wg_kube_call call;
    struct wg_kube *kube;
    enum phase phase;
    struct kube_request what; /* its texts and its body are copies */
    struct kube_question question;
    struct kube_identity *identity; /* of the last try */
    struct wg_fetch_call *fetch;
    bool again; /* after a 401 */
    bool ended; /* by what.data */
};

/* ---- calls in general ---- */

void kube_call_init(struct wg_kube_call *call, struct wg_list *list, void (*drop)(struct wg_kube_call *call))
{
    call->magic = KUBE_CALL_MAGIC;
    call->drop = drop;
    wg_list_init(&call->link);
    wg_list_append(list, &call->link);
}

void kube_call_end(struct wg_kube_call *call)
{
    WG_CHECK_OBJ(call, KUBE_CALL_MAGIC);
    call->magic = 0;
    wg_list_remove(&call->link);
}

void wg_kube_cancel(struct wg_kube_call *call)
{
    if (!call)
        return;
    kube_call_end(call);
    call->drop(call);
}

/* ---- one request ---- */

static char *copy_of(const char *text)
{
    return text ? wg_xstrdup(text) : NULL;
}

static void copy_request(struct kube_request *to, const struct kube_request *from)
{
    *to = *from;
    to->verb = wg_xstrdup(from->verb);
    to->method = wg_xstrdup(from->method);
    to->path = wg_xstrdup(from->path);
    to->body = wg_slice(from->body.len > 0 ? wg_slice_dup(from->body) : NULL, from->body.len);
    to->content_type = copy_of(from->content_type);
    to->resource = wg_xstrdup(from->resource);
    to->namespace_ = copy_of(from->namespace_);
    to->name = copy_of(from->name);
}

static void clear_request(struct kube_request *what)
{
    const char *const texts[] = {what->verb,         what->method,   what->path,       what->body.ptr,
                                 what->content_type, what->resource, what->namespace_, what->name};
    for (size_t i = 0; i < WG_COUNT_OF(texts); i++)
        free((void *)(uintptr_t)texts[i]);
}

static void set_phase(struct request *request, enum phase phase)
{
    request->phase = phase;
}

static void free_request(struct request *request)
{
    if (request->phase == PHASE_ASKING)
        kube_question_take_back(&request->question);
    if (request->phase == PHASE_SENT)
        wg_fetch_cancel(request->fetch);
    kube_identity_unref(request->identity);
    clear_request(&request->what);
    free(request);
}

static void drop_request(struct wg_kube_call *call)
{
    free_request(WG_CONTAINER_OF(call, struct request, call));
}

static void finish(struct request *request, const struct wg_kube_outcome *outcome, struct wg_slice body)
{
    kube_call_end(&request->call);
    request->what.done(request->what.arg, outcome, body);
    free_request(request);
}

static void ask(struct request *request)
{
    set_phase(request, PHASE_ASKING);
    kube_credentials_ask(request->kube->credentials, &request->question, request->identity);
}

static bool on_data(void *arg, struct wg_slice data)
{
    struct request *request = arg;
    WG_CHECK_OBJ(&request->call, KUBE_CALL_MAGIC);
    request->ended = !request->what.data(request->what.arg, data);
    return !request->ended;
}

static void on_answer(void *arg, const struct wg_fetch_answer *answer)
{
    struct request *request = arg;
    WG_CHECK_OBJ(&request->call, KUBE_CALL_MAGIC);
    set_phase(request, PHASE_BETWEEN);
    wg_count(&wg_metrics_process()->api_requests[kube_verb_of(request->what.verb)][kube_status_of(answer)]);
    if (answer->status == 401 && !request->again) {
        request->again = true;
        ask(request);
        return;
    }
    struct wg_kube_outcome outcome;
    char *why WG_AUTO_FREE = NULL;
    kube_judge(&request->what, request->identity->server, answer, request->ended, &outcome, &why);
    finish(request, &outcome, outcome.result == WG_KUBE_OK ? answer->body : WG_SLICE(""));
}

static struct wg_fetch_call *start_fetch(struct request *request)
{
    const struct kube_request *what = &request->what;
    const struct kube_identity *identity = request->identity;
    const struct wg_fetch_tls tls = {.ca = identity->ca,
                                     .cert = identity->cert,
                                     .key = identity->key,
                                     .server_name = identity->server_name,
                                     .insecure = identity->insecure};
    char *url WG_AUTO_FREE = wg_xasprintf("%s%s", identity->server, what->path);
    return wg_fetch_start(request->kube->fetch, &(struct wg_fetch_request){
                                                    .method = what->method,
                                                    .url = url,
                                                    .body = what->body,
                                                    .content_type = what->content_type,
                                                    .bearer = identity->bearer,
                                                    .tls = &tls,
                                                    .connect_timeout = connect_timeout,
                                                    .timeout = what->timeout,
                                                    .idle_timeout = what->idle_timeout,
                                                    .max_answer = what->max_answer,
                                                    .data = what->data ? on_data : NULL,
                                                    .done = on_answer,
                                                    .arg = request,
                                                });
}

static void refuse(struct request *request, enum wg_kube_result result, const char *why)
{
    finish(request, &(struct wg_kube_outcome){.result = result, .why = why}, WG_SLICE(""));
}

static void on_identity(struct kube_question *question, struct kube_identity *identity, const char *why)
{
    struct request *request = WG_CONTAINER_OF(question, struct request, question);
    WG_CHECK_OBJ(&request->call, KUBE_CALL_MAGIC);
    set_phase(request, PHASE_BETWEEN);
    kube_identity_unref(request->identity);
    request->identity = identity;
    if (!identity) {
        refuse(request, WG_KUBE_FORBIDDEN, why);
        return;
    }
    request->fetch = start_fetch(request);
    if (request->fetch) {
        set_phase(request, PHASE_SENT);
        return;
    }
    char *words WG_AUTO_FREE = wg_xasprintf(
        "cannot call %s: the URL, or the token or server name for it, is impossible", identity->server);
    refuse(request, WG_KUBE_INVALID, words);
}

struct wg_kube_call *kube_start(struct wg_kube *kube, const struct kube_request *what)
{
    WG_CHECK_OBJ(kube, KUBE_MAGIC);
    struct request *request = WG_NEW(struct request);
    kube_call_init(&request->call, &kube->requests, drop_request);
    request->kube = kube;
    copy_request(&request->what, what);
    if (request->what.timeout == 0)
        request->what.timeout = default_timeout;
    if (request->what.max_answer == 0)
        request->what.max_answer = MAX_ANSWER;
    wg_list_init(&request->question.link);
    request->question.answer = on_identity;
    ask(request);
    return &request->call;
}

/* ---- access to a cluster ---- */

struct wg_kube *wg_kube_new(struct wg_loop *loop, struct wg_fetch *fetch, const struct wg_kube_access *access)
{
    struct wg_kube *kube = WG_NEW(struct wg_kube);
    kube->magic = KUBE_MAGIC;
    kube->loop = loop;
    kube->fetch = fetch;
    struct wg_list *const lists[] = {&kube->requests, &kube->tasks, &kube->watches, &kube->kinds};
    for (size_t i = 0; i < WG_COUNT_OF(lists); i++)
        wg_list_init(lists[i]);
    kube->credentials = kube_credentials_new(loop, access);
    return kube;
}

static void cancel_all(struct wg_list *calls)
{
    for (struct wg_list *node; (node = wg_list_first(calls));)
        wg_kube_cancel(WG_LIST_ENTRY(node, struct wg_kube_call, link));
}

/* Requests last: tasks and watches have theirs among them. */
struct wg_kube *wg_kube_free(struct wg_kube *kube)
{
    if (!kube)
        return NULL;
    WG_CHECK_OBJ(kube, KUBE_MAGIC);
    cancel_all(&kube->tasks);
    kube_watches_free(&kube->watches);
    cancel_all(&kube->requests);
    kube->credentials = kube_credentials_free(kube->credentials);
    kube_kinds_clear(kube);
    kube->magic = 0;
    free(kube);
    return NULL;
}

struct wg_loop *kube_loop(const struct wg_kube *kube)
{
    return kube->loop;
}

struct wg_list *kube_watches(struct wg_kube *kube)
{
    return &kube->watches;
}
