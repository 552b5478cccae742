/* Calls: one curl easy handle each, from start to its one answer. What the answer means is for the caller. */
#include "wakegate/fetch.h"

#include <stdlib.h>

#include "multi.h"

#define FETCH_MAGIC 0xfe7c4003
#define CALL_MAGIC  0xfe7c4004

struct wg_fetch {
    uint32_t magic;
    struct multi multi;
    struct wg_list calls; /* wg_fetch_call.link: those under way */
    bool telling;         /* inside a done() */
};

struct wg_fetch_call {
    uint32_t magic;
    struct wg_list link; /* wg_fetch.calls */
    struct wg_fetch *fetch;
    CURL *easy;
    struct curl_slist *headers;
    char *body; /* what is sent; curl only borrows it */
    struct wg_buf answer;
    bool too_large;
    wg_usec started, connected; /* monotonic; connected -1 until then */
    char error[CURL_ERROR_SIZE];
    void (*done)(void *arg, const struct wg_fetch_answer *answer);
    void *arg;
};

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
    struct wg_fetch_call *call = WG_CAST(wg_fetch_call, arg, CALL_MAGIC);
    const size_t len = size * n;
    if (wg_buf_add(&call->answer, data, len) == 0)
        return len;
    call->too_large = true;
    return 0; /* not len: ends the transfer */
}

/* The connection stands and the request is about to be written. */
static int on_connected(void *arg, char *ip WG_UNUSED, char *local_ip WG_UNUSED, int port WG_UNUSED,
                        int local_port WG_UNUSED)
{
    struct wg_fetch_call *call = WG_CAST(wg_fetch_call, arg, CALL_MAGIC);
    if (call->connected < 0)
        call->connected = wg_clock_monotonic();
    return CURL_PREREQFUNC_OK;
}

static enum wg_fetch_result result_of(const struct wg_fetch_call *call, CURLcode code)
{
    if (code == CURLE_OK)
        return WG_FETCH_DONE;
    if (call->too_large)
        return WG_FETCH_TOO_LARGE;
    if (call->connected < 0)
        return WG_FETCH_CONNECT;
    return code == CURLE_OPERATION_TIMEDOUT ? WG_FETCH_TIMEOUT : WG_FETCH_BROKEN;
}

static const char *words_of(const struct wg_fetch_call *call, enum wg_fetch_result result, CURLcode code)
{
    if (result == WG_FETCH_DONE)
        return "";
    if (result == WG_FETCH_TOO_LARGE)
        return "the answer is too large";
    return call->error[0] ? call->error : curl_easy_strerror(code);
}

static void free_call(struct wg_fetch_call *call)
{
    wg_list_remove(&call->link);
    if (call->easy) {
        curl_multi_remove_handle(call->fetch->multi.curl, call->easy);
        curl_easy_cleanup(call->easy);
    }
    curl_slist_free_all(call->headers);
    free(call->body);
    wg_buf_clear(&call->answer);
    call->magic = 0;
    free(call);
}

static void finish(struct wg_fetch_call *call, CURLcode code)
{
    const enum wg_fetch_result result = result_of(call, code);
    struct wg_fetch_answer answer = {
        .result = result,
        .error = words_of(call, result, code),
        .body = wg_buf_slice(&call->answer),
        .connected = call->connected < 0 ? -1 : call->connected - call->started,
        .took = wg_clock_monotonic() - call->started,
    };
    if (result == WG_FETCH_DONE)
        curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &answer.status);
    call->magic = 0; /* from here on it is not the caller's to cancel */
    call->fetch->telling = true;
    call->done(call->arg, &answer);
    call->fetch->telling = false;
    free_call(call);
}

static void on_progress(struct multi *multi)
{
    CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(multi->curl, &left))) {
        if (message->msg != CURLMSG_DONE)
            continue;
        const CURLcode code = message->data.result;
        char *private = NULL;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
        finish(WG_CAST(wg_fetch_call, (void *)private, CALL_MAGIC), code);
    }
}

struct wg_fetch *wg_fetch_new(struct wg_loop *loop)
{
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return NULL;
    struct wg_fetch *fetch = WG_NEW(struct wg_fetch);
    fetch->magic = FETCH_MAGIC;
    wg_list_init(&fetch->calls);
    return multi_init(&fetch->multi, loop, on_progress) ? fetch : wg_fetch_free(fetch);
}

struct wg_fetch *wg_fetch_free(struct wg_fetch *fetch)
{
    if (!fetch)
        return NULL;
    WG_ASSERT(!fetch->telling);
    wg_list_foreach_safe (node, &fetch->calls)
        free_call(WG_LIST_ENTRY(node, struct wg_fetch_call, link));
    multi_clear(&fetch->multi);
    fetch->magic = 0;
    free(fetch);
    curl_global_cleanup();
    return NULL;
}

/* curl itself would find out only after the start. */
static bool url_is_possible(const char *url)
{
    CURLU *parts = curl_url();
    char *scheme = NULL;
    bool possible = parts && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK &&
                    curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                    (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
    curl_free(scheme);
    curl_url_cleanup(parts);
    return possible;
}

/* What every call has in common: nothing from the environment, nothing but the one exchange that was asked
 * for. */
static void set_manners(struct wg_fetch_call *call)
{
    CURL *easy = call->easy;
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "Wakegate");
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->error);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_connected);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, call);
    multi_adopt(&call->fetch->multi, easy);
}

static bool add_header(struct wg_fetch_call *call, const char *line)
{
    struct curl_slist *longer = curl_slist_append(call->headers, line);
    if (longer)
        call->headers = longer;
    return longer != NULL;
}

static bool set_headers(struct wg_fetch_call *call, const struct wg_fetch_request *request)
{
    /* Small answers to small questions: waiting for "100 Continue" would only cost time. */
    if (!add_header(call, "Expect:") || !add_header(call, "Accept: application/json"))
        return false;
    /* A name without a value takes away the one that curl would add. */
    if (!add_header(call, request->body.len > 0 ? "Content-Type: application/json" : "Content-Type:"))
        return false;
    if (request->bearer && request->bearer[0]) {
        if (wg_slice_has_control(wg_slice_str(request->bearer)))
            return false;
        char *line = wg_xasprintf("Authorization: Bearer %s", request->bearer);
        const bool added = add_header(call, line);
        explicit_bzero(line, strlen(line));
        free(line);
        if (!added)
            return false;
    }
    return curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers) == CURLE_OK;
}

static void set_body(struct wg_fetch_call *call, const struct wg_fetch_request *request)
{
    if (request->body.len == 0 && strcmp(request->method, "POST") != 0 && strcmp(request->method, "PUT") != 0)
        return;
    call->body = request->body.len > 0 ? wg_slice_dup(request->body) : wg_xstrdup("");
    curl_easy_setopt(call->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len);
    curl_easy_setopt(call->easy, CURLOPT_POSTFIELDS, call->body);
}

/* curl counts in milliseconds, and takes 0 for "its own default". */
static long msec(wg_usec t)
{
    return t >= WG_USEC_PER_SEC * INT32_MAX / 1000 ? 0 : (long)WG_MAX(wg_usec_to_msec(t), 1);
}

static bool set_request(struct wg_fetch_call *call, const struct wg_fetch_request *request)
{
    CURL *easy = call->easy;
    set_manners(call);
    set_body(call, request);
    curl_easy_setopt(easy, CURLOPT_NOBODY, strcmp(request->method, "HEAD") == 0 ? 1L : 0L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, msec(request->connect_timeout));
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, msec(request->timeout));
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, request->fresh ? 1L : 0L);
    curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, request->fresh ? 1L : 0L);
    return curl_easy_setopt(easy, CURLOPT_URL, request->url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method) == CURLE_OK &&
           set_headers(call, request);
}

struct wg_fetch_call *wg_fetch_start(struct wg_fetch *fetch, const struct wg_fetch_request *request)
{
    WG_CHECK_OBJ(fetch, FETCH_MAGIC);
    if (!url_is_possible(request->url))
        return NULL;
    struct wg_fetch_call *call = WG_NEW(struct wg_fetch_call);
    call->magic = CALL_MAGIC;
    call->fetch = fetch;
    call->connected = -1;
    call->done = request->done;
    call->arg = request->arg;
    wg_list_init(&call->link);
    wg_buf_init(&call->answer, request->max_answer);
    call->easy = curl_easy_init();
    call->started = wg_clock_monotonic();
    /* Adding only sets curl's timer: the work begins with the next turn. */
    if (!call->easy || !set_request(call, request) ||
        curl_multi_add_handle(fetch->multi.curl, call->easy) != CURLM_OK) {
        free_call(call);
        return NULL;
    }
    wg_list_append(&fetch->calls, &call->link);
    return call;
}

void wg_fetch_cancel(struct wg_fetch_call *call)
{
    if (!call)
        return;
    WG_CHECK_OBJ(call, CALL_MAGIC);
    free_call(call);
}
