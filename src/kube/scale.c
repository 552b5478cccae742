/* The scale of a workload, and what keeps it from making pods: tasks of one request, or of two where the
 * plural name of its kind must be asked for first. */
#include <errno.h>
#include <stdlib.h>

#include "objects.h"
#include "resource.h"

enum { MAX_PATH = 4096, MAX_PATCH = 1024, MAX_EVENTS = 50 };

struct task {
    struct wg_kube_call call;
    struct wg_kube *kube;
    char *api_version, *kind, *namespace_, *name;
    struct wg_kube_call *request;                                               /* NULL: none is under way */
    int64_t replicas;                                                           /* to be written */
    char *resource_version;                                                     /* NULL: the scale is read */
    bool (*parse)(struct wg_slice body, char out[static KUBE_MESSAGE_MAX + 1]); /* of trouble */
    wg_kube_scale_done *scale_done;
    wg_kube_trouble_done *trouble_done;
    void *arg;
};

static void free_task(struct task *task)
{
    char *const texts[] = {task->api_version, task->kind, task->namespace_, task->name,
                           task->resource_version};
    wg_kube_cancel(task->request);
    for (size_t i = 0; i < WG_COUNT_OF(texts); i++)
        free(texts[i]);
    free(task);
}

static void drop_task(struct wg_kube_call *call)
{
    free_task(WG_CONTAINER_OF(call, struct task, call));
}

static struct task *new_task(struct wg_kube *kube, const struct wg_kube_object *object, void *arg)
{
    struct task *task = WG_NEW(struct task);
    kube_call_init(&task->call, &kube->tasks, drop_task);
    task->kube = kube;
    task->api_version = wg_xstrdup(object->api_version);
    task->kind = wg_xstrdup(object->kind);
    task->namespace_ = wg_xstrdup(object->namespace_);
    task->name = wg_xstrdup(object->name);
    task->arg = arg;
    return task;
}

/* What a request has come to; its task is told, so it is over. */
static struct task *task_of(void *arg)
{
    struct task *task = arg;
    WG_CHECK_OBJ(&task->call, KUBE_CALL_MAGIC);
    task->request = NULL;
    return task;
}

static char *path_of(const struct task *task, const char *plural, const char *subresource)
{
    struct wg_buf path = WG_BUF_INIT(MAX_PATH);
    kube_add_base(&path, task->api_version, task->namespace_);
    wg_buf_add_char(&path, '/');
    kube_add_escaped(&path, plural);
    wg_buf_add_char(&path, '/');
    kube_add_escaped(&path, task->name);
    wg_buf_add_str(&path, subresource);
    char *text = wg_xstrdup(wg_buf_str(&path)); /* "" if it is too long: the server refuses that */
    wg_buf_clear(&path);
    return text;
}

/* ---- the scale ---- */

static void finish_scale(struct task *task, const struct wg_kube_outcome *outcome,
                         const struct wg_kube_scale *scale)
{
    kube_call_end(&task->call);
    task->scale_done(task->arg, outcome, scale);
    free_task(task);
}

static void fail_scale(struct task *task, enum wg_kube_result result, char *why)
{
    finish_scale(task, &(struct wg_kube_outcome){.result = result, .why = why}, NULL);
    free(why);
}

static void on_scale(void *arg, const struct wg_kube_outcome *outcome, struct wg_slice body)
{
    struct task *task = task_of(arg);
    if (outcome->result == WG_KUBE_NOT_FOUND)
        kube_forget_plural(task->kube, task->api_version, task->kind);
    if (outcome->result != WG_KUBE_OK) {
        finish_scale(task, outcome, NULL);
        return;
    }
    struct wg_kube_scale scale;
    json_t *root = kube_parse_scale(body, &scale);
    if (root)
        finish_scale(task, outcome, &scale);
    else
        fail_scale(task, WG_KUBE_INVALID,
                   wg_xasprintf("the answer for the scale of %s \"%s\" in namespace \"%s\" is no Scale",
                                task->kind, task->name, task->namespace_));
    json_decref(root);
}

/* A zero is not in a Scale, so nothing can be tested but the version. */
static void add_patch(struct wg_buf *patch, const struct task *task)
{
    wg_buf_add_str(patch, "{\"metadata\":{\"resourceVersion\":\"");
    wg_buf_add_json(patch, wg_slice_str(task->resource_version));
    wg_buf_add_str(patch, "\"},\"spec\":{\"replicas\":");
    wg_buf_add_u64(patch, (uint64_t)task->replicas);
    wg_buf_add_str(patch, "}}");
}

static void send_scale(struct task *task, const char *plural)
{
    struct wg_buf patch = WG_BUF_INIT(MAX_PATCH);
    char *path WG_AUTO_FREE = path_of(task, plural, "/scale");
    char *resource WG_AUTO_FREE = wg_xasprintf("%s/scale", plural);
    struct kube_request request = {
        .verb = "get",
        .method = "GET",
        .path = path,
        .resource = resource,
        .namespace_ = task->namespace_,
        .name = task->name,
        .done = on_scale,
        .arg = task,
    };
    if (task->resource_version) {
        add_patch(&patch, task);
        request.verb = "patch";
        request.method = "PATCH";
        request.body = wg_buf_slice(&patch);
        request.content_type = "application/merge-patch+json";
    }
    task->request = kube_start(task->kube, &request);
    wg_buf_clear(&patch);
}

/* ---- the plural name of its kind ---- */

static void on_kinds(void *arg, const struct wg_kube_outcome *outcome, struct wg_slice body)
{
    struct task *task = task_of(arg);
    char *plural WG_AUTO_FREE = NULL;
    bool scales = false;
    if (outcome->result != WG_KUBE_OK && outcome->result != WG_KUBE_NOT_FOUND) {
        finish_scale(task, outcome, NULL);
        return;
    }
    const int error =
        outcome->result == WG_KUBE_OK ? kube_parse_plural(body, task->kind, &plural, &scales) : -ENOENT;
    if (error == -EINVAL) {
        fail_scale(task, WG_KUBE_INVALID,
                   wg_xasprintf("the answer for the kinds of %s is no list of them", task->api_version));
    } else if (error < 0) {
        fail_scale(task, WG_KUBE_NOT_FOUND,
                   wg_xasprintf("the cluster has no kind %s of %s", task->kind, task->api_version));
    } else if (!scales) {
        fail_scale(task, WG_KUBE_NOT_FOUND,
                   wg_xasprintf("%s of %s cannot be scaled: the kind has no subresource scale", task->kind,
                                task->api_version));
    } else {
        kube_learn_plural(task->kube, task->api_version, task->kind, plural);
        send_scale(task, plural);
    }
}

static void ask_for_kinds(struct task *task)
{
    struct wg_buf path = WG_BUF_INIT(MAX_PATH);
    kube_add_base(&path, task->api_version, NULL);
    task->request = kube_start(task->kube, &(struct kube_request){
                                               .verb = "get",
                                               .method = "GET",
                                               .path = wg_buf_str(&path),
                                               .resource = wg_buf_str(&path),
                                               .done = on_kinds,
                                               .arg = task,
                                           });
    wg_buf_clear(&path);
}

static struct wg_kube_call *begin_scale(struct task *task, wg_kube_scale_done *done)
{
    const char *plural = kube_plural(task->kube, task->api_version, task->kind);
    task->scale_done = done;
    if (plural)
        send_scale(task, plural);
    else
        ask_for_kinds(task);
    return &task->call;
}

struct wg_kube_call *wg_kube_read_scale(struct wg_kube *kube, const struct wg_kube_object *object,
                                        wg_kube_scale_done *done, void *arg)
{
    return begin_scale(new_task(kube, object, arg), done);
}

struct wg_kube_call *wg_kube_write_scale(struct wg_kube *kube, const struct wg_kube_object *object,
                                         int64_t replicas, const char *resource_version,
                                         wg_kube_scale_done *done, void *arg)
{
    WG_ASSERT(replicas >= 0);
    struct task *task = new_task(kube, object, arg);
    task->replicas = replicas;
    task->resource_version = wg_xstrdup(resource_version);
    return begin_scale(task, done);
}

/* ---- what keeps it from making pods ---- */

static void on_trouble(void *arg, const struct wg_kube_outcome *outcome, struct wg_slice body)
{
    struct task *task = task_of(arg);
    struct wg_kube_outcome told = *outcome;
    char words[KUBE_MESSAGE_MAX + 1] = "";
    if (outcome->result == WG_KUBE_FORBIDDEN) {
        told = (struct wg_kube_outcome){.result = WG_KUBE_OK, .why = ""}; /* we may not look */
    } else if (outcome->result == WG_KUBE_OK && !task->parse(body, words)) {
        words[0] = '\0';
        told = (struct wg_kube_outcome){.result = WG_KUBE_INVALID, .why = "the answer is no JSON object"};
    }
    kube_call_end(&task->call);
    task->trouble_done(task->arg, &told, words);
    free_task(task);
}

static void send_trouble(struct task *task, const char *verb, const char *path, const char *resource,
                         const char *name)
{
    task->request = kube_start(task->kube, &(struct kube_request){
                                               .verb = verb,
                                               .method = "GET",
                                               .path = path,
                                               .resource = resource,
                                               .namespace_ = task->namespace_,
                                               .name = name,
                                               .done = on_trouble,
                                               .arg = task,
                                           });
}

static void look_at_events(struct task *task)
{
    struct wg_buf path = WG_BUF_INIT(MAX_PATH);
    kube_add_base(&path, "v1", task->namespace_);
    wg_buf_add_str(&path, "/events?fieldSelector=involvedObject.name%3D");
    kube_add_escaped(&path, task->name);
    wg_buf_add_str(&path, "%2CinvolvedObject.kind%3D");
    kube_add_escaped(&path, task->kind);
    wg_buf_addf(&path, "&limit=%d", MAX_EVENTS);
    task->parse = kube_parse_failed_create;
    send_trouble(task, "list", wg_buf_str(&path), "events", NULL);
    wg_buf_clear(&path);
}

/* The kinds that say it themselves. */
static bool has_condition(const struct task *task)
{
    static const char *const kinds[][2] = {
        {"apps/v1", "Deployment"}, {"apps/v1", "ReplicaSet"}, {"v1", "ReplicationController"}};
    for (size_t i = 0; i < WG_COUNT_OF(kinds); i++)
        if (strcmp(kinds[i][0], task->api_version) == 0 && strcmp(kinds[i][1], task->kind) == 0)
            return true;
    return false;
}

struct wg_kube_call *wg_kube_read_trouble(struct wg_kube *kube, const struct wg_kube_object *object,
                                          wg_kube_trouble_done *done, void *arg)
{
    struct task *task = new_task(kube, object, arg);
    task->trouble_done = done;
    if (has_condition(task)) {
        const char *plural = kube_plural(kube, task->api_version, task->kind);
        char *path WG_AUTO_FREE = path_of(task, plural, "");
        task->parse = kube_parse_replica_failure;
        send_trouble(task, "get", path, plural, task->name);
    } else {
        look_at_events(task);
    }
    return &task->call;
}
