/* Reads Status, Scale, APIResourceList, conditions and events. */
#include "objects.h"

#include <errno.h>
#include <stdlib.h>

enum {
    RETRY_MAX_SECONDS = 3600, /* more is no answer to a wake */
    SECOND_CHARS = 19         /* of an RFC 3339 time, up to the second */
};

void kube_clean(struct wg_slice text, char out[static KUBE_MESSAGE_MAX + 1])
{
    text = wg_slice_trim(text);
    size_t len = WG_MIN(text.len, (size_t)KUBE_MESSAGE_MAX);
    while (len > 0 && len < text.len && ((unsigned char)text.ptr[len] & 0xc0) == 0x80)
        len--;
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)text.ptr[i];
        out[i] = c < 0x20 || c == 0x7f ? ' ' : text.ptr[i];
    }
    while (len > 0 && out[len - 1] == ' ')
        len--;
    out[len] = '\0';
}

static struct wg_slice string_of(const json_t *value)
{
    return json_is_string(value) ? wg_slice(json_string_value(value), json_string_length(value))
                                 : WG_SLICE("");
}

static bool is_text(const json_t *value, const char *text)
{
    return json_is_string(value) && wg_slice_eq(string_of(value), wg_slice_str(text));
}

/* An object of this kind, NULL if it is anything else. */
static json_t *load(struct wg_slice body, const char *kind)
{
    json_t *root = body.len > 0 ? json_loadb(body.ptr, body.len, 0, NULL) : NULL;
    if (json_is_object(root) && (!kind || is_text(json_object_get(root, "kind"), kind)))
        return root;
    json_decref(root);
    return NULL;
}

/* ---- Status ---- */

static bool is_utf8(struct wg_slice text)
{
    json_t *string = json_stringn(text.ptr, text.len);
    const bool valid = string != NULL;
    json_decref(string);
    return valid;
}

void kube_parse_status(struct wg_slice body, struct kube_status *ret_status)
{
    *ret_status = (struct kube_status){0};
    json_t *root = load(body, "Status");
    if (!root) {
        if (body.len > 0 && is_utf8(body))
            kube_clean(body, ret_status->message);
        return;
    }
    const json_t *details = json_object_get(root, "details");
    const json_t *wait = json_object_get(details, "retryAfterSeconds");
    const json_int_t seconds = json_integer_value(wait); /* 0 for anything else */
    kube_clean(string_of(json_object_get(root, "message")), ret_status->message);
    ret_status->named = string_of(json_object_get(details, "name")).len > 0;
    ret_status->retry_after = WG_MIN(WG_MAX(seconds, 0), RETRY_MAX_SECONDS) * WG_USEC_PER_SEC;
    json_decref(root);
}

/* ---- Scale ---- */

/* A count, of which a zero is left out. */
static bool count_of(const json_t *value, int64_t *ret_count)
{
    if (value && !json_is_null(value) && !json_is_integer(value))
        return false;
    const json_int_t count = json_integer_value(value);
    if (count < 0 || count > INT32_MAX)
        return false;
    *ret_count = count;
    return true;
}

json_t *kube_parse_scale(struct wg_slice body, struct wg_kube_scale *ret_scale)
{
    json_t *root = load(body, "Scale");
    const json_t *status = json_object_get(root, "status");
    const json_t *version = json_object_get(json_object_get(root, "metadata"), "resourceVersion");
    struct wg_kube_scale scale;
    if (!count_of(json_object_get(json_object_get(root, "spec"), "replicas"), &scale.replicas) ||
        !count_of(json_object_get(status, "replicas"), &scale.observed) || string_of(version).len == 0) {
        json_decref(root);
        return NULL;
    }
    scale.selector = string_of(json_object_get(status, "selector")).ptr;
    scale.resource_version = json_string_value(version);
    *ret_scale = scale;
    return root;
}

/* ---- APIResourceList ---- */

static bool has_scale(const json_t *resources, const char *plural)
{
    char *name WG_AUTO_FREE = wg_xasprintf("%s/scale", plural);
    size_t i;
    const json_t *resource;
    json_array_foreach(resources, i, resource)
    {
        if (is_text(json_object_get(resource, "name"), name))
            return true;
    }
    return false;
}

/* The plural name of a kind: a name with a slash is a subresource. */
static const char *plural_of(const json_t *resources, const char *kind)
{
    size_t i;
    const json_t *resource;
    json_array_foreach(resources, i, resource)
    {
        const char *name = json_string_value(json_object_get(resource, "name"));
        if (name && name[0] && !strchr(name, '/') && is_text(json_object_get(resource, "kind"), kind))
            return name;
    }
    return NULL;
}

int kube_parse_plural(struct wg_slice body, const char *kind, char **ret_plural, bool *ret_scales)
{
    json_t *root = load(body, "APIResourceList");
    if (!root)
        return -EINVAL;
    const json_t *resources = json_object_get(root, "resources");
    const char *plural = plural_of(resources, kind);
    if (plural) {
        *ret_plural = wg_xstrdup(plural);
        *ret_scales = has_scale(resources, plural);
    }
    json_decref(root);
    return plural ? 0 : -ENOENT;
}

/* ---- what keeps pods from being made ---- */

bool kube_parse_replica_failure(struct wg_slice body, char out[static KUBE_MESSAGE_MAX + 1])
{
    json_t *root = load(body, NULL);
    if (!root)
        return false;
    size_t i;
    const json_t *condition;
    out[0] = '\0';
    json_array_foreach(json_object_get(json_object_get(root, "status"), "conditions"), i, condition)
    {
        if (is_text(json_object_get(condition, "type"), "ReplicaFailure") &&
            is_text(json_object_get(condition, "status"), "True"))
            kube_clean(string_of(json_object_get(condition, "message")), out);
    }
    json_decref(root);
    return true;
}

/* When an event was last seen: series, then the newer and the older form of events. */
static struct wg_slice time_of(const json_t *event)
{
    const json_t *const times[] = {
        json_object_get(json_object_get(event, "series"), "lastObservedTime"),
        json_object_get(event, "lastTimestamp"),
        json_object_get(event, "eventTime"),
        json_object_get(json_object_get(event, "metadata"), "creationTimestamp"),
    };
    for (size_t i = 0; i < WG_COUNT_OF(times); i++) {
        const struct wg_slice time = string_of(times[i]);
        if (time.len >= SECOND_CHARS)
            return wg_slice(time.ptr, SECOND_CHARS);
    }
    return WG_SLICE("0000-00-00T00:00:00");
}

bool kube_parse_failed_create(struct wg_slice body, char out[static KUBE_MESSAGE_MAX + 1])
{
    json_t *root = load(body, NULL);
    if (!root)
        return false;
    size_t i;
    const json_t *event, *newest = NULL;
    json_array_foreach(json_object_get(root, "items"), i, event)
    {
        const json_t *reason = json_object_get(event, "reason");
        const bool failed = is_text(reason, "FailedCreate");
        if (!failed && !is_text(reason, "SuccessfulCreate"))
            continue;
        const int order = newest ? memcmp(time_of(event).ptr, time_of(newest).ptr, SECOND_CHARS) : 1;
        if (order > 0 || (order == 0 && failed)) /* of one second, the failure counts */
            newest = event;
    }
    out[0] = '\0';
    if (is_text(json_object_get(newest, "reason"), "FailedCreate"))
        kube_clean(string_of(json_object_get(newest, "message")), out);
    json_decref(root);
    return true;
}
