/* What proves an endpoint and what does not: each kind of bad answer is counted, keeps the model waking, and
 * is over as soon as the server answers well. */
#include "../../src/activator/prober.h"
#include "activator_bench.h"

#define MODEL(probe)                                                                                         \
    "models:\n"                                                                                              \
    "  - name: org/qwen\n"                                                                                   \
    "    upstreamModel: served\n"                                                                            \
    "    target: { static: { endpoints: ['http://127.0.0.1:PORT'] } }\n"                                     \
    "    probe: { interval: 20ms, connectInterval: 5ms" probe " }\n"

static const char *reason_is(const struct wg_status *status)
{
    return status->models[0].reason;
}

/* The model stays waking for want of a good answer, with `reason`; then the server answers well. */
static void expect_not_ready(int script, const char *probe_yaml, enum wg_probe_result result,
                             const char *reason)
{
    bench.server.seen->script = script;
    const _Atomic uint64_t *count = &wg_metrics_model("org/qwen")->probes[result];
    const uint64_t before = *count, ok = wg_metrics_model("org/qwen")->probes[WG_PROBE_OK];
    bench_configure(&bench, probe_yaml);
    for (bool seen = false; !seen;) {
        struct wg_status *status = bench_status(&bench);
        assert_int_equal(status->models[0].state, WG_MODEL_WAKING);
        seen = *count >= before + 2 && strstr(reason_is(status), reason);
        wg_status_clear(status);
    }
    bench.server.seen->script = MODEL_READY;
    bench_await_state(&bench, WG_MODEL_WARM);
    assert_int_equal(wg_metrics_model("org/qwen")->probes[WG_PROBE_OK], ok + 1);
}

static void loading_is_not_ready(void **state)
{
    (void)state;
    expect_not_ready(MODEL_LOADING, MODEL(""), WG_PROBE_STATUS, "the probe got 503: Loading model");
}

static void garbage_is_not_ready(void **state)
{
    (void)state;
    expect_not_ready(MODEL_GARBAGE, MODEL(""), WG_PROBE_INVALID, "the probe's answer is not JSON");
}

static void an_error_inside_is_not_ready(void **state)
{
    (void)state;
    expect_not_ready(MODEL_ERROR, MODEL(""), WG_PROBE_INVALID, "holds an error: engine is dead");
}

static void an_answer_without_choices_is_not_ready(void **state)
{
    (void)state;
    expect_not_ready(MODEL_EMPTY, MODEL(""), WG_PROBE_INVALID, "holds nothing that a model said");
}

static void an_endless_answer_is_not_read(void **state)
{
    (void)state;
    expect_not_ready(MODEL_HUGE, MODEL(""), WG_PROBE_INVALID, "the probe's answer is too large");
}

/* A 4xx that passes by itself: as often as it comes, it never fails the wake. */
static void a_server_at_its_limit_is_waited_for(void **state)
{
    (void)state;
    expect_not_ready(MODEL_LIMITED, MODEL(""), WG_PROBE_STATUS, "the probe got 429: slow down");
}

static void silence_is_cut_at_the_timeout(void **state)
{
    (void)state;
    expect_not_ready(MODEL_SILENT, MODEL(", timeout: 50ms"), WG_PROBE_TIMEOUT, "no answer within 50 ms");
}

static void an_unexpected_answer_is_not_ready(void **state)
{
    (void)state;
    const uint64_t before = wg_metrics_model("org/qwen")->probes[WG_PROBE_MISMATCH];
    bench_configure(&bench, MODEL(", expect: '^Goodbye$'"));
    while (wg_metrics_model("org/qwen")->probes[WG_PROBE_MISMATCH] < before + 2)
        bench_settle(&bench);
    assert_int_equal(bench.views[0]->state, WG_MODEL_WAKING);
    /* The probers follow a reload. */
    bench_configure(&bench, MODEL(", expect: '^Hello$'"));
    bench_await_state(&bench, WG_MODEL_WARM);
}

static void a_server_with_a_floor_of_tokens_is_asked_for_more(void **state)
{
    (void)state;
    bench.server.seen->script = MODEL_FLOOR;
    bench_configure(&bench, MODEL(""));
    bench_await_state(&bench, WG_MODEL_WARM);
    assert_int_equal(model_counts->floors, 1);
    assert_int_equal(model_counts->probes, 2);
}

static void the_probe_is_a_tiny_request_of_its_own(void **state)
{
    (void)state;
    bench_configure(&bench, MODEL(", prompt: Hey, maxTokens: 3"));
    bench_await_state(&bench, WG_MODEL_WARM);
    const char *request = bench.server.seen->last;
    assert_non_null(strstr(request, "POST /v1/chat/completions HTTP/1.1"));
    assert_non_null(strstr(request, "\"served\""));
    assert_non_null(strstr(request, "Hey"));
    assert_non_null(strstr(request, "\"max_tokens\":3"));
}

static void a_body_of_ones_own_is_sent_as_it_is(void **state)
{
    (void)state;
    bench_configure(&bench, MODEL(", path: /special, body: '{\"x\": [1, 2]}'"));
    bench_await_state(&bench, WG_MODEL_WARM);
    assert_non_null(strstr(bench.server.seen->last, "POST /special HTTP/1.1"));
    assert_non_null(strstr(bench.server.seen->last, "\r\n\r\n{\"x\": [1, 2]}"));
}

static void tcp_needs_no_answer(void **state)
{
    (void)state;
    bench.server.seen->script = MODEL_NOT_FOUND;
    bench_configure(&bench, MODEL(", kind: tcp"));
    bench_await_state(&bench, WG_MODEL_WARM);
    assert_int_equal(model_counts->probes, 0);
}

static void nobody_there_is_refused(void **state)
{
    (void)state;
    const int kinds = 2;
    const char *const yaml[] = {"kind: tcp", "kind: chat"};
    for (int i = 0; i < kinds; i++) {
        char text[512];
        snprintf(text, sizeof(text),
                 "models:\n"
                 "  - name: m%d\n"
                 "    target: { static: { endpoints: ['http://127.0.0.1:1'] } }\n"
                 "    probe: { interval: 20ms, connectInterval: 5ms, %s }\n",
                 i, yaml[i]);
        char name[16];
        snprintf(name, sizeof(name), "m%d", i);
        bench_configure(&bench, text);
        while (wg_metrics_model(name)->probes[WG_PROBE_REFUSED] < 3)
            bench_settle(&bench);
        struct wg_status *status = bench_status(&bench);
        assert_string_equal(reason_is(status), "nothing accepts connections yet");
        wg_status_clear(status);
    }
}

/* From the moment that a server can answer until control knows: what a held client waits for nothing. */
static void readiness_is_noticed_quickly(void **state)
{
    (void)state;
    bench.server.seen->script = MODEL_LOADING;
    bench_configure(
        &bench, "models: [ { name: qwen, target: { static: { endpoints: ['http://127.0.0.1:PORT'] } } } ]\n");
    struct request request;
    bench_request(&bench, &request);
    while (model_counts->probes < 3)
        bench_settle(&bench);
    const wg_usec ready = wg_clock_monotonic();
    bench.server.seen->script = MODEL_READY;
    bench_expect_dispatch(&bench, &request);
    /* The gap is 50 ms; the rest is room for a machine that is busy with other tests, still less than
     * `interval`. */
    assert_true(wg_clock_monotonic() - ready < 240 * WG_USEC_PER_MSEC);
    bench_finish(&bench, &request);
}

/* Half of the gap is what a held client waits on average: at most 100 ms at default settings, however long
 * the load; and no server is asked more often than it takes to answer. */
static void the_gap_grows_with_the_load_but_not_for_ever(void **state)
{
    (void)state;
    bench_configure(
        &bench, "models: [ { name: qwen, target: { static: { endpoints: ['http://127.0.0.1:PORT'] } } } ]\n");
    const struct wg_config_probe *probe = &bench.config->models[0].probe;
    const wg_usec cheap = WG_USEC_PER_MSEC;
    assert_int_equal(wg_prober_loading_gap(probe, 0, cheap), 50 * WG_USEC_PER_MSEC);
    assert_int_equal(wg_prober_loading_gap(probe, 60 * WG_USEC_PER_SEC, cheap), 60 * WG_USEC_PER_SEC / 512);
    for (int minutes = 2; minutes <= 15; minutes++)
        assert_int_equal(wg_prober_loading_gap(probe, minutes * 60 * WG_USEC_PER_SEC, cheap),
                         150 * WG_USEC_PER_MSEC);
    assert_int_equal(wg_prober_loading_gap(probe, 0, 200 * WG_USEC_PER_MSEC), 200 * WG_USEC_PER_MSEC);
    assert_int_equal(wg_prober_loading_gap(probe, 0, WG_USEC_PER_SEC), probe->interval);
    struct wg_config_probe eager = *probe;
    eager.interval = 20 * WG_USEC_PER_MSEC;
    assert_int_equal(wg_prober_loading_gap(&eager, WG_USEC_PER_SEC, cheap), eager.interval);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(loading_is_not_ready),
        TEST(garbage_is_not_ready),
        TEST(an_error_inside_is_not_ready),
        TEST(an_answer_without_choices_is_not_ready),
        TEST(an_endless_answer_is_not_read),
        TEST(a_server_at_its_limit_is_waited_for),
        TEST(silence_is_cut_at_the_timeout),
        TEST(an_unexpected_answer_is_not_ready),
        TEST(a_server_with_a_floor_of_tokens_is_asked_for_more),
        TEST(the_probe_is_a_tiny_request_of_its_own),
        TEST(a_body_of_ones_own_is_sent_as_it_is),
        TEST(tcp_needs_no_answer),
        TEST(nobody_there_is_refused),
        TEST(readiness_is_noticed_quickly),
        TEST(the_gap_grows_with_the_load_but_not_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
