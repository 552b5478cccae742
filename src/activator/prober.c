/* One attempt after the other: ask, judge, wait a gap that fits what came. What a result means for the model
 * is control's. */
#include "prober.h"

#include <stdio.h>
#include <stdlib.h>

#include "wakegate/base/quantity.h"
#include "wakegate/openai.h"

#define PROBER_MAGIC 0x9a0be501

/* A lost SYN must not cost the kernel's whole second before the next try. */
#define CONNECT_TIMEOUT (500 * WG_USEC_PER_MSEC)
#define ANSWER_MAX      ((size_t)1 << 20)
/* While a server says "loading", the gap grows with the time it has said so: noticing costs a 512th of the
 * load, at most. It stops growing early enough that half of it, which a held client waits on average, stays
 * well below 100 ms however long the load is. */
#define PATIENCE      512
#define PATIENCE_MOST (150 * WG_USEC_PER_MSEC)
#define STEADY_COUNT  5
#define STEADY_SPAN   (3 * WG_USEC_PER_SEC)
/* Some servers refuse fewer. */
#define TOKENS_FLOOR 16U

struct wg_prober {
    uint32_t magic;
    struct wg_prober_env env;
    const struct wg_address *address;
    const struct wg_config_model *spec;
    struct wg_timer timer;      /* the gap; for tcp also the attempt's limit */
    struct wg_fetch_call *call; /* the attempt under way: one of the two */
    struct wg_conn *conn;
    wg_usec attempt_began;
    wg_usec answers_since; /* when it first accepted a connection; NEVER: not yet */
    bool tokens_raised;    /* asks for TOKENS_FLOOR, since fewer were refused */
    struct {
        long status;
        unsigned count;
        wg_usec since;
    } steady;
};

enum gap {
    GAP_CONNECT,  /* nobody there: connectInterval */
    GAP_LOADING,  /* cheap to ask again: from connectInterval up, as the load and an answer take longer */
    GAP_INTERVAL, /* it costs the server something: interval */
    GAP_NONE      /* ask again at once */
};

enum outcome {
    PASSED,
    NO_CONNECTION,
    BROKEN,     /* closed or nonsense before a whole answer */
    SILENT,     /* cut at the timeout */
    LOADING,    /* a status that passes by itself */
    REFUSED,    /* one that does not: 4xx, 501, 505 */
    FEW_TOKENS, /* 400 to a small max_tokens: worth one more try with more */
    UNEXPECTED, /* any other status */
    INVALID,    /* 2xx without a model's answer in it */
    MISMATCH,   /* not what `expect` wants */
    OUTCOMES
};

static const struct outcome_row {
    enum wg_probe_result result;
    enum gap gap;
} outcome_table[OUTCOMES] = {
    [PASSED] = {WG_PROBE_OK, GAP_NONE},           [NO_CONNECTION] = {WG_PROBE_REFUSED, GAP_CONNECT},
    [BROKEN] = {WG_PROBE_REFUSED, GAP_LOADING},   [SILENT] = {WG_PROBE_TIMEOUT, GAP_INTERVAL},
    [LOADING] = {WG_PROBE_STATUS, GAP_LOADING},   [REFUSED] = {WG_PROBE_STATUS, GAP_INTERVAL},
    [FEW_TOKENS] = {WG_PROBE_STATUS, GAP_NONE},   [UNEXPECTED] = {WG_PROBE_STATUS, GAP_INTERVAL},
    [INVALID] = {WG_PROBE_INVALID, GAP_INTERVAL}, [MISMATCH] = {WG_PROBE_MISMATCH, GAP_INTERVAL},
};

/* ---- after an attempt ---- */

wg_usec wg_prober_loading_gap(const struct wg_config_probe *probe, wg_usec loading, wg_usec took)
{
    const wg_usec patience = WG_MIN(loading / PATIENCE, PATIENCE_MOST);
    return WG_MIN(WG_MAX(WG_MAX(took, patience), probe->connect_interval), probe->interval);
}

static wg_usec gap_after(const struct wg_prober *prober, enum gap gap, wg_usec took)
{
    const struct wg_config_probe *probe = &prober->spec->probe;
    const wg_usec now = wg_loop_now(prober->env.loop);
    switch (gap) {
    case GAP_NONE:
        return 0;
    case GAP_CONNECT:
        return probe->connect_interval;
    case GAP_LOADING:
        return wg_prober_loading_gap(probe, now > prober->answers_since ? now - prober->answers_since : 0,
                                     took);
    case GAP_INTERVAL:
    default:
        return probe->interval;
    }
}

/* True when this status has been the answer often and long enough. */
static bool count_steady(struct wg_prober *prober, long status)
{
    const wg_usec now = wg_loop_now(prober->env.loop);
    if (status != prober->steady.status || status == 0) {
        prober->steady.status = status;
        prober->steady.count = 0;
        prober->steady.since = now;
    }
    prober->steady.count++;
    return status != 0 && prober->steady.count >= STEADY_COUNT && now - prober->steady.since >= STEADY_SPAN;
}

static void conclude(struct wg_prober *prober, enum outcome outcome, long status, wg_usec took,
                     const char *why)
{
    const struct outcome_row *row = &outcome_table[outcome];
    wg_count(&prober->env.metrics->probes[row->result]);
    if (outcome == PASSED) {
        prober->env.proved(prober->env.arg, wg_loop_now(prober->env.loop));
        return;
    }
    wg_timer_set_after(&prober->timer, gap_after(prober, row->gap, took));
    const bool steady = count_steady(prober, outcome == REFUSED ? status : 0);
    prober->env.not_ready(prober->env.arg, why, steady);
}

static void note_connected(struct wg_prober *prober, wg_usec took)
{
    if (prober->answers_since != WG_USEC_NEVER)
        return;
    prober->answers_since = prober->attempt_began + took;
    prober->env.connected(prober->env.arg, prober->answers_since);
}

/* ---- judging an HTTP answer ---- */

static bool may_raise_tokens(const struct wg_prober *prober)
{
    const struct wg_config_probe *probe = &prober->spec->probe;
    return probe->kind != WG_PROBE_EMBEDDINGS && probe->body[0] == '\0' && probe->max_tokens < TOKENS_FLOOR &&
           !prober->tokens_raised;
}

static enum outcome judge_status(struct wg_prober *prober, const struct wg_fetch_answer *answer,
                                 struct wg_buf *why)
{
    (void)wg_buf_addf(why, "the probe got %ld", answer->status);
    struct wg_buf text = WG_BUF_INIT(1024);
    wg_error_text(answer->body, 200, &text);
    if (text.len > 0)
        (void)wg_buf_addf(why, ": %s", wg_buf_str(&text));
    wg_buf_clear(&text);
    switch (answer->status) {
    case 408: /* Request Timeout */
    case 409: /* Conflict */
    case 425: /* Too Early */
    case 429: /* Too Many Requests */
        return LOADING;
    case 501: /* Not Implemented: started without what the probe asks for */
    case 505: /* HTTP Version Not Supported */
        return REFUSED;
    case 400:
        if (may_raise_tokens(prober)) {
            prober->tokens_raised = true;
            return FEW_TOKENS;
        }
        return REFUSED;
    default:
        if (answer->status >= 500)
            return LOADING;
        return answer->status >= 400 ? REFUSED : UNEXPECTED;
    }
}

static enum wg_prompt_kind prompt_kind(enum wg_probe_kind kind)
{
    static const enum wg_prompt_kind kinds[] = {
        [WG_PROBE_CHAT] = WG_PROMPT_CHAT,
        [WG_PROBE_COMPLETIONS] = WG_PROMPT_COMPLETIONS,
        [WG_PROBE_EMBEDDINGS] = WG_PROMPT_EMBEDDINGS,
    };
    WG_ASSERT(kind < WG_COUNT_OF(kinds));
    return kinds[kind];
}

static enum outcome judge_body(const struct wg_config_probe *probe, struct wg_slice body, struct wg_buf *why)
{
    struct wg_buf text = WG_BUF_INIT(ANSWER_MAX);
    enum outcome outcome = INVALID;
    switch (wg_prompt_judge(prompt_kind(probe->kind), body, &text)) {
    case WG_PROMPT_OK:
        if (probe->expect[0] == '\0' || regexec(&probe->expect_regex, wg_buf_str(&text), 0, NULL, 0) == 0) {
            outcome = PASSED;
        } else {
            outcome = MISMATCH;
            (void)wg_buf_add_str(why, "the probe's answer does not match probe.expect");
        }
        break;
    case WG_PROMPT_ERROR_INSIDE:
        (void)wg_buf_addf(why, "the probe's answer holds an error: %.200s", wg_buf_str(&text));
        break;
    case WG_PROMPT_NO_CHOICES:
        (void)wg_buf_add_str(why, "the probe's answer holds nothing that a model said");
        break;
    case WG_PROMPT_NOT_JSON:
    default:
        (void)wg_buf_add_str(why, "the probe's answer is not JSON");
    }
    wg_buf_clear(&text);
    return outcome;
}

static enum outcome judge(struct wg_prober *prober, const struct wg_fetch_answer *answer, struct wg_buf *why)
{
    char human[32];
    switch (answer->result) {
    case WG_FETCH_DONE:
        if (answer->status < 200 || answer->status > 299)
            return judge_status(prober, answer, why);
        return judge_body(&prober->spec->probe, answer->body, why);
    case WG_FETCH_CONNECT:
        (void)wg_buf_add_str(why, "nothing accepts connections yet");
        return NO_CONNECTION;
    case WG_FETCH_TIMEOUT:
        wg_duration_human(prober->spec->probe.timeout, human);
        (void)wg_buf_addf(why, "the probe got no answer within %s", human);
        return SILENT;
    case WG_FETCH_TOO_LARGE:
        (void)wg_buf_add_str(why, "the probe's answer is too large");
        return INVALID;
    case WG_FETCH_BROKEN:
    default:
        (void)wg_buf_addf(why, "the probe's connection broke: %s", answer->error);
        return BROKEN;
    }
}

static void on_answer(void *arg, const struct wg_fetch_answer *answer)
{
    struct wg_prober *prober = WG_CAST(wg_prober, arg, PROBER_MAGIC);
    prober->call = NULL;
    if (answer->connected >= 0)
        note_connected(prober, answer->connected);
    struct wg_buf why = WG_BUF_INIT(1024);
    const enum outcome outcome = judge(prober, answer, &why);
    conclude(prober, outcome, answer->status, answer->took, wg_buf_str(&why));
    wg_buf_clear(&why);
}

/* ---- asking ---- */

static int make_body(const struct wg_prober *prober, struct wg_buf *body)
{
    const struct wg_config_model *spec = prober->spec;
    const struct wg_config_probe *probe = &spec->probe;
    if (probe->body[0] != '\0')
        return wg_buf_add_str(body, probe->body);
    const char *model = spec->upstream_model[0] != '\0' ? spec->upstream_model : spec->name;
    const bool raised = prober->tokens_raised;
    return wg_prompt_body(body, prompt_kind(probe->kind), wg_slice_str(model), wg_slice_str(probe->prompt),
                          raised ? WG_MAX(probe->max_tokens, TOKENS_FLOOR) : probe->max_tokens);
}

static void ask_http(struct wg_prober *prober)
{
    const struct wg_config_model *spec = prober->spec;
    struct wg_buf body = WG_BUF_INIT(ANSWER_MAX), url = WG_BUF_INIT(4096);
    (void)wg_buf_addf(&url, "http://%s%s", prober->address->text, spec->probe.path);
    if (make_body(prober, &body) == 0 && !url.failed) {
        prober->call = wg_fetch_start(prober->env.fetch,
                                      &(struct wg_fetch_request){
                                          .method = "POST",
                                          .url = wg_buf_str(&url),
                                          .body = wg_buf_slice(&body),
                                          .bearer = spec->upstream_key,
                                          .connect_timeout = WG_MIN(CONNECT_TIMEOUT, spec->probe.timeout),
                                          .timeout = spec->probe.timeout,
                                          .max_answer = ANSWER_MAX,
                                          .fresh = true,
                                          .done = on_answer,
                                          .arg = prober,
                                      });
    }
    wg_buf_clear(&body);
    wg_buf_clear(&url);
    if (!prober->call)
        conclude(prober, INVALID, 0, 0, "the probe could not be sent");
}

/* ---- kind tcp: it accepts a connection ---- */

static void end_tcp(struct wg_prober *prober, enum outcome outcome)
{
    if (prober->conn)
        wg_conn_close(prober->conn, false);
    prober->conn = NULL;
    wg_timer_cancel(&prober->timer);
    const wg_usec took = wg_loop_now(prober->env.loop) - prober->attempt_began;
    if (outcome == PASSED)
        note_connected(prober, took);
    conclude(prober, outcome, 0, took, "nothing accepts connections yet");
}

static void on_connect(void *arg)
{
    struct wg_prober *prober = WG_CAST(wg_prober, arg, PROBER_MAGIC);
    end_tcp(prober, wg_conn_error(prober->conn) == 0 ? PASSED : NO_CONNECTION);
}

static void on_nothing(void *arg)
{
    (void)WG_CAST(wg_prober, arg, PROBER_MAGIC);
}

static void ask_tcp(struct wg_prober *prober)
{
    static const struct wg_conn_handler handler = {
        .readable = on_nothing, .writable = on_connect, .hangup = NULL, .flush = on_nothing};
    int error = 0;
    prober->conn = wg_conn_connect(prober->env.loop, (const struct sockaddr *)&prober->address->sa,
                                   prober->address->len, &handler, prober, &error);
    if (prober->conn)
        wg_timer_set_after(&prober->timer, WG_MIN(CONNECT_TIMEOUT, prober->spec->probe.timeout));
    else
        end_tcp(prober, NO_CONNECTION);
}

static void ask(struct wg_prober *prober)
{
    prober->attempt_began = wg_loop_now(prober->env.loop);
    if (prober->spec->probe.kind == WG_PROBE_TCP)
        ask_tcp(prober);
    else
        ask_http(prober);
}

static void on_timer(struct wg_timer *timer)
{
    struct wg_prober *prober = WG_CONTAINER_OF(timer, struct wg_prober, timer);
    WG_CHECK_OBJ(prober, PROBER_MAGIC);
    if (prober->conn)
        end_tcp(prober, NO_CONNECTION);
    else
        ask(prober);
}

struct wg_prober *wg_prober_new(const struct wg_prober_env *env, const struct wg_address *address,
                                const struct wg_config_model *spec)
{
    struct wg_prober *prober = WG_NEW(struct wg_prober);
    prober->magic = PROBER_MAGIC;
    prober->env = *env;
    prober->address = address;
    prober->spec = spec;
    prober->answers_since = WG_USEC_NEVER;
    wg_timer_init(&prober->timer, env->loop, on_timer);
    wg_timer_set_after(&prober->timer, 0);
    return prober;
}

struct wg_prober *wg_prober_free(struct wg_prober *prober)
{
    if (!prober)
        return NULL;
    wg_timer_cancel(&prober->timer);
    wg_fetch_cancel(prober->call);
    if (prober->conn)
        wg_conn_close(prober->conn, false);
    prober->magic = 0;
    free(prober);
    return NULL;
}

void wg_prober_configure(struct wg_prober *prober, const struct wg_config_model *spec)
{
    prober->spec = spec;
    prober->tokens_raised = false;
}

void wg_prober_rearm(struct wg_prober *prober)
{
    prober->steady.status = 0;
    prober->answers_since = WG_USEC_NEVER;
}
