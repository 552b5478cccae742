/* Calls: one curl easy handle each, from start to its one answer. What the answer means is for the caller. */
#include "wakegate/fetch.h"

#include <stdlib.h>

#include "multi.h"
#include "peer.h"

#define FETCH_MAGIC 0xfe7c4003
#define CALL_MAGIC  0xfe7c4004

enum {
    FED_MAX = 4 * 1024 * 1024,    /* what curl hands us in one go is far less */
    RETRY_MAX_SECONDS = 24 * 3600 /* more is never */
};

struct wg_fetch {
    uint32_t magic;
    struct wg_loop *loop;
    struct multi multi;
    struct wg_list calls;          /* wg_fetch_call.link: those under way */
    struct wg_list fed;            /* wg_fetch_call.fed: those with bytes for their data() */
    bool telling;                  /* inside a done() or a data() */
    struct wg_fetch_call *fed_now; /* its data() runs */
};

/* What became of a call, where curl does not know it. */
enum cut {
    CUT_NOT,
    CUT_TOO_LARGE,
    CUT_IDLE,  /* no byte for idle_timeout */
    CUT_ENDED, /* data() wants no more */
};
static const char *const cut_words[] = {
    [CUT_TOO_LARGE] = "the answer is too large",
    [CUT_IDLE] = "nothing was sent for too long",
    [CUT_ENDED] = "the rest of the answer is not wanted",
};

struct wg_fetch_call {
    uint32_t magic;
    struct wg_list link; /* wg_fetch.calls */
    struct wg_fetch *fetch;
    CURL *easy;
    struct curl_slist *headers, *connect_to;
    char *body; /* what is sent; curl only borrows it */
    size_t max_answer;
    struct wg_buf answer; /* what has come, or has come and was not given to data() yet */
    struct wg_list fed;   /* wg_fetch.fed */
    enum cut cut;
    struct wg_timer idle;
    wg_usec idle_timeout;       /* 0: none */
    wg_usec started, connected; /* monotonic; connected -1 until then */
    char error[CURL_ERROR_SIZE];
    bool (*data)(void *arg, struct wg_slice data);
    void (*done)(void *arg, const struct wg_fetch_answer *answer);
    void *arg;
};

static void watch_idleness(struct wg_fetch_call *call)
{
    if (call->idle_timeout > 0)
        wg_timer_set_after(&call->idle, call->idle_timeout);
}

static bool is_streamed(const struct wg_fetch_call *call)
{
    long status = 0;
    if (call->data)
        curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    return status / 100 == 2;
}

static size_t on_header(char *data WG_UNUSED, size_t size, size_t n, void *arg)
{
    watch_idleness(WG_CAST(wg_fetch_call, arg, CALL_MAGIC));
    return size * n;
}

/* Nobody is called from in here: curl could not be used from inside a data(). */
static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
    struct wg_fetch_call *call = WG_CAST(wg_fetch_call, arg, CALL_MAGIC);
    const size_t len = size * n;
    const bool streamed = is_streamed(call);
    watch_idleness(call);
    call->answer.max = streamed ? FED_MAX : call->max_answer;
    if (wg_buf_add(&call->answer, data, len) < 0) {
        call->cut = CUT_TOO_LARGE;
        return 0; /* not len: ends the transfer */
    }
    if (streamed && len > 0 && !wg_list_linked(&call->fed))
        wg_list_append(&call->fetch->fed, &call->fed);
    return len;
}

/* The connection stands and the request is about to be written. */
static int on_connected(void *arg, char *ip WG_UNUSED, char *local_ip WG_UNUSED, int port WG_UNUSED,
                        int local_port WG_UNUSED)
{
    struct wg_fetch_call *call = WG_CAST(wg_fetch_call, arg, CALL_MAGIC);
    if (call->connected < 0)
        call->connected = wg_clock_monotonic();
    watch_idleness(call);
    return CURL_PREREQFUNC_OK;
}

static enum wg_fetch_result result_of(const struct wg_fetch_call *call, CURLcode code)
{
    static const enum wg_fetch_result of_cut[] = {
        [CUT_TOO_LARGE] = WG_FETCH_TOO_LARGE, [CUT_IDLE] = WG_FETCH_TIMEOUT, [CUT_ENDED] = WG_FETCH_BROKEN};
    if (call->cut != CUT_NOT)
        return of_cut[call->cut];
    if (code == CURLE_OK)
        return WG_FETCH_DONE;
    if (call->connected < 0)
        return WG_FETCH_CONNECT;
    return code == CURLE_OPERATION_TIMEDOUT ? WG_FETCH_TIMEOUT : WG_FETCH_BROKEN;
}

static const char *words_of(const struct wg_fetch_call *call, enum wg_fetch_result result, CURLcode code)
{
    if (result == WG_FETCH_DONE)
        return "";
    if (call->cut != CUT_NOT)
        return cut_words[call->cut];
    return call->error[0] ? call->error : curl_easy_strerror(code);
}

static void free_call(struct wg_fetch_call *call)
{
    wg_list_remove(&call->link);
    wg_list_remove(&call->fed);
    wg_timer_cancel(&call->idle);
    if (call->easy) {
        curl_multi_remove_handle(call->fetch->multi.curl, call->easy);
        curl_easy_cleanup(call->easy);
    }
    curl_slist_free_all(call->headers);
    curl_slist_free_all(call->connect_to);
    free(call->body);
    wg_buf_clear(&call->answer);
    call->magic = 0;
    free(call);
}

/* What of the answer is known only if there is one. */
static void add_answered(const struct wg_fetch_call *call, struct wg_fetch_answer *answer)
{
    curl_off_t seconds = 0;
    curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &answer->status);
    curl_easy_getinfo(call->easy, CURLINFO_RETRY_AFTER, &seconds);
    answer->retry_after = WG_MIN(WG_MAX(seconds, 0), RETRY_MAX_SECONDS) * WG_USEC_PER_SEC;
    answer->body = wg_buf_slice(&call->answer);
}

static void finish(struct wg_fetch_call *call, CURLcode code)
{
    const enum wg_fetch_result result = result_of(call, code);
    struct wg_fetch_answer answer = {
        .result = result,
        .error = words_of(call, result, code),
        .connected = call->connected < 0 ? -1 : call->connected - call->started,
        .took = wg_clock_monotonic() - call->started,
    };
    if (result == WG_FETCH_DONE)
        add_answered(call, &answer);
    call->magic = 0; /* from here on it is not the caller's to cancel */
    wg_timer_cancel(&call->idle);
    call->fetch->telling = true;
    call->done(call->arg, &answer);
    call->fetch->telling = false;
    free_call(call);
}

static void on_idle(struct wg_timer *timer)
{
    struct wg_fetch_call *call = WG_CONTAINER_OF(timer, struct wg_fetch_call, idle);
    WG_CHECK_OBJ(call, CALL_MAGIC);
    call->cut = CUT_IDLE;
    finish(call, CURLE_OPERATION_TIMEDOUT);
}

static void feed(struct wg_fetch_call *call)
{
    struct wg_fetch *fetch = call->fetch;
    fetch->fed_now = call;
    fetch->telling = true;
    const bool more = call->data(call->arg, wg_buf_slice(&call->answer));
    fetch->telling = false;
    fetch->fed_now = NULL;
    wg_buf_reset(&call->answer);
    if (more)
        return;
    call->cut = CUT_ENDED;
    finish(call, CURLE_WRITE_ERROR);
}

static void on_progress(struct multi *multi)
{
    struct wg_fetch *fetch = WG_CONTAINER_OF(multi, struct wg_fetch, multi);
    CURLMsg *message;
    for (struct wg_list *node; (node = wg_list_pop(&fetch->fed));)
        feed(WG_LIST_ENTRY(node, struct wg_fetch_call, fed));
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
    fetch->loop = loop;
    wg_list_init(&fetch->calls);
    wg_list_init(&fetch->fed);
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
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, call);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
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

/* False as well for a value that would be more than one line. */
static bool add_field(struct wg_fetch_call *call, const char *name, const char *value)
{
    if (wg_slice_has_control(wg_slice_str(value)))
        return false;
    char *line = wg_xasprintf("%s%s", name, value);
    const bool added = add_header(call, line);
    explicit_bzero(line, strlen(line));
    free(line);
    return added;
}

/* A server that is told by another name is still asked by that of the URL. */
static bool add_host(struct wg_fetch_call *call, const struct wg_fetch_request *request)
{
    if (!request->tls || !request->tls->server_name)
        return true;
    char *field WG_AUTO_FREE = peer_host_field(request->url);
    return field && add_header(call, field);
}

static bool set_headers(struct wg_fetch_call *call, const struct wg_fetch_request *request)
{
    const char *type = request->content_type ? request->content_type : "application/json";
    /* Small answers to small questions: waiting for "100 Continue" would only cost time. A name without a
     * value takes away the field that curl would add. */
    if (!add_header(call, "Expect:") || !add_header(call, "Accept: application/json"))
        return false;
    if (!(request->body.len > 0 ? add_field(call, "Content-Type: ", type)
                                : add_header(call, "Content-Type:")))
        return false;
    if (request->bearer && request->bearer[0] && !add_field(call, "Authorization: Bearer ", request->bearer))
        return false;
    return add_host(call, request) &&
           curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers) == CURLE_OK;
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
    return peer_set(easy, request, &call->connect_to) &&
           curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method) == CURLE_OK &&
           set_headers(call, request);
}

struct wg_fetch_call *wg_fetch_start(struct wg_fetch *fetch, const struct wg_fetch_request *request)
{
    WG_CHECK_OBJ(fetch, FETCH_MAGIC);
    if (!peer_url_is_possible(request->url))
        return NULL;
    struct wg_fetch_call *call = WG_NEW(struct wg_fetch_call);
    call->magic = CALL_MAGIC;
    call->fetch = fetch;
    call->connected = -1;
    call->data = request->data;
    call->done = request->done;
    call->arg = request->arg;
    call->idle_timeout = request->idle_timeout;
    call->max_answer = request->max_answer;
    wg_list_init(&call->link);
    wg_list_init(&call->fed);
    wg_timer_init(&call->idle, fetch->loop, on_idle);
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
    WG_ASSERT(call != call->fetch->fed_now);
    free_call(call);
}
