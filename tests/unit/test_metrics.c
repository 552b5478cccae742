/* Metrics as they are printed, and the table of reasons behind their labels. */
#include "unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "wakegate/base/metrics.h"

static const char *const states[] = {"cold", "waking", "warm"};

static char *render(void)
{
    struct wg_buf out = WG_BUF_INIT(1 << 20);

    wg_metrics_render(&out, states, WG_COUNT_OF(states));
    assert_false(out.failed);
    char *text = wg_xstrdup(wg_buf_str(&out));
    wg_buf_clear(&out);
    return text;
}

/* True if the exposition has exactly this line. */
static bool has(const char *text, const char *line)
{
    size_t len = strlen(line);

    for (const char *at = text; (at = strstr(at, line)) != NULL; at++)
        if ((at == text || at[-1] == '\n') && at[len] == '\n')
            return true;
    return false;
}

static size_t occurrences(const char *text, const char *part)
{
    size_t n = 0;

    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        n++;
    return n;
}

static void series_are_found_again(void **state)
{
    (void)state;
    assert_ptr_equal(wg_metrics_model("m"), wg_metrics_model("m"));
    assert_ptr_not_equal(wg_metrics_model("m"), wg_metrics_model("n"));
    assert_ptr_equal(wg_metrics_model(NULL), wg_metrics_model("other"));
    assert_ptr_equal(wg_metrics_tenant(""), wg_metrics_tenant("other"));
    assert_string_equal(wg_metrics_tenant("t")->tenant, "t");
    assert_string_equal(wg_metrics_model("m")->model, "m");
}

static void outcomes_share_labels(void **state)
{
    struct wg_model_metrics *model = wg_metrics_model("outcomes");

    (void)state;
    wg_count(&model->requests[WG_REASON_RATE_LIMIT_REQUESTS]);
    wg_count(&model->requests[WG_REASON_RATE_LIMIT_TOKENS]);
    wg_count(&model->requests[WG_OUTCOME_CLIENT_CLOSED]);
    char *text WG_AUTO_FREE = render();
    assert_true(has(text, "# TYPE wakegate_requests_total counter"));
    assert_true(has(text, "wakegate_requests_total{model=\"outcomes\",outcome=\"rate_limit_exceeded\"} 2"));
    assert_true(has(text, "wakegate_requests_total{model=\"outcomes\",outcome=\"client_closed\"} 1"));
    assert_true(has(text, "wakegate_requests_total{model=\"outcomes\",outcome=\"ok\"} 0"));
    assert_int_equal(occurrences(text, "wakegate_requests_total{model=\"outcomes\""), 3);
}

static void histograms_are_cumulative(void **state)
{
    struct wg_model_metrics *model = wg_metrics_model("histogram");

    (void)state;
    char *before WG_AUTO_FREE = render();
    assert_null(strstr(before, "wakegate_hold_duration_seconds_bucket{model=\"histogram\""));
    wg_histogram_add(&model->hold, 1000);
    wg_histogram_add(&model->hold, 1001);
    wg_histogram_add(&model->hold, -5);
    wg_histogram_add(&model->hold, 900 * WG_USEC_PER_SEC);
    wg_histogram_add(&model->hold, 901 * WG_USEC_PER_SEC);
    wg_histogram_add(&model->cold_start[WG_PHASE_LISTENING], 3 * WG_USEC_PER_SEC);
    char *text WG_AUTO_FREE = render();
#define HOLD(suffix, labels) "wakegate_hold_duration_seconds_" suffix "{model=\"histogram\"" labels "} "
    assert_true(has(text, HOLD("bucket", ",le=\"0.001\"") "2"));
    assert_true(has(text, HOLD("bucket", ",le=\"0.0025\"") "3"));
    assert_true(has(text, HOLD("bucket", ",le=\"300\"") "3"));
    assert_true(has(text, HOLD("bucket", ",le=\"900\"") "4"));
    assert_true(has(text, HOLD("bucket", ",le=\"+Inf\"") "5"));
    assert_true(has(text, HOLD("sum", "") "1801.002001"));
    assert_true(has(text, HOLD("count", "") "5"));
    assert_true(
        has(text, "wakegate_cold_start_seconds_bucket{model=\"histogram\",phase=\"listening\",le=\"5\"} 1"));
    assert_true(has(text, "wakegate_cold_start_seconds_count{model=\"histogram\",phase=\"listening\"} 1"));
    assert_null(strstr(text, "model=\"histogram\",phase=\"answering\""));
}

static void gauges_and_states(void **state)
{
    struct wg_model_metrics *model = wg_metrics_model("gauges");

    (void)state;
    char *before WG_AUTO_FREE = render();
    assert_null(strstr(before, "wakegate_model_state{model=\"gauges\""));
    wg_gauge_add(&model->held, 3);
    wg_gauge_add(&model->held, -5);
    atomic_store(&model->state, 1);
    wg_count(&model->wakes[WG_WAKE_TIMEOUT]);
    wg_count(&model->probes[WG_PROBE_MISMATCH]);
    char *text WG_AUTO_FREE = render();
    assert_true(has(text, "wakegate_held_requests{model=\"gauges\"} -2"));
    assert_true(has(text, "wakegate_model_state{model=\"gauges\",state=\"cold\"} 0"));
    assert_true(has(text, "wakegate_model_state{model=\"gauges\",state=\"waking\"} 1"));
    assert_true(has(text, "wakegate_model_state{model=\"gauges\",state=\"warm\"} 0"));
    assert_true(has(text, "wakegate_wakes_total{model=\"gauges\",result=\"timeout\"} 1"));
    assert_true(has(text, "wakegate_wakes_total{model=\"gauges\",result=\"ok\"} 0"));
    assert_true(has(text, "wakegate_probes_total{model=\"gauges\",result=\"mismatch\"} 1"));
}

static void process_metrics_have_one_head_each(void **state)
{
    (void)state;
    wg_count(&wg_metrics_process()->reloads_failed);
    wg_count(&wg_metrics_process()->tls_reloads_ok);
    wg_gauge_add(&wg_metrics_process()->held_bytes, 12);
    char *text WG_AUTO_FREE = render();
    assert_true(has(text, "wakegate_config_reloads_total{result=\"ok\"} 0"));
    assert_true(has(text, "wakegate_config_reloads_total{result=\"failed\"} 1"));
    assert_true(has(text, "wakegate_tls_reloads_total{result=\"ok\"} 1"));
    assert_true(has(text, "wakegate_tls_reloads_total{result=\"failed\"} 0"));
    assert_true(has(text, "wakegate_buffered_bytes 12"));
    assert_true(has(text, "wakegate_connections 0"));
    assert_true(has(text, "wakegate_connections_refused_total 0"));
    for (const char *at = text; (at = strstr(at, "# TYPE ")) != NULL; at++) {
        char *line WG_AUTO_FREE = wg_xstrndup(at, strcspn(at, "\n"));
        assert_int_equal(occurrences(text, line), 1);
    }
    assert_int_equal(occurrences(text, "# TYPE "), occurrences(text, "# HELP "));
}

static void api_requests_have_two_labels(void **state)
{
    struct wg_process_metrics *process = wg_metrics_process();

    (void)state;
    wg_count(&process->api_requests[WG_API_PATCH][WG_API_2XX]);
    wg_count(&process->api_requests[WG_API_PATCH][WG_API_409]);
    wg_count(&process->api_requests[WG_API_WATCH][WG_API_ERROR]);
    char *text WG_AUTO_FREE = render();
#define API(verb, status) "wakegate_kubernetes_requests_total{verb=\"" verb "\",status=\"" status "\"} "
    assert_true(has(text, API("get", "2xx") "0"));
    assert_true(has(text, API("patch", "2xx") "1"));
    assert_true(has(text, API("patch", "409") "1"));
    assert_true(has(text, API("list", "2xx") "0"));
    assert_true(has(text, API("watch", "2xx") "0"));
    assert_true(has(text, API("watch", "error") "1"));
    assert_int_equal(occurrences(text, "wakegate_kubernetes_requests_total{"), 6);
}

static void label_values_are_escaped(void **state)
{
    (void)state;
    wg_metrics_tenant("a\"b\\c\nd");
    char *text WG_AUTO_FREE = render();
    assert_true(has(text, "wakegate_tenant_requests_total{tenant=\"a\\\"b\\\\c\\nd\",outcome=\"ok\"} 0"));
}

static void *find_and_count(void *arg)
{
    char name[16];

    (void)arg;
    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof(name), "thread-%d", i % 50);
        wg_count(&wg_metrics_tenant(name)->requests[WG_OUTCOME_OK]);
    }
    return NULL;
}

static void threads_find_the_same_series(void **state)
{
    pthread_t threads[4];

    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, find_and_count, NULL), 0);
    free(render());
    for (size_t i = 0; i < WG_COUNT_OF(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(wg_metrics_tenant("thread-49")->requests[WG_OUTCOME_OK], 160);
}

static void reasons_are_complete(void **state)
{
    (void)state;
    for (int i = 0; i < WG_REASON_COUNT; i++) {
        const struct wg_reason_info *info = wg_reason_info((enum wg_reason)i);
        assert_in_range(info->status, 400, 504);
        assert_ptr_equal(wg_outcome_label(i), info->code);
        assert_true(strlen(info->type) > 0 && strlen(info->anthropic) > 0 && strlen(info->message) > 0);
    }
    assert_string_equal(wg_outcome_label(WG_OUTCOME_OK), "ok");
    assert_string_equal(wg_outcome_label(WG_OUTCOME_CLIENT_CLOSED), "client_closed");
    assert_string_equal(wg_phase_label(WG_PHASE_POD_CREATED), "pod_created");
    assert_string_equal(wg_probe_result_label(WG_PROBE_INVALID), "invalid");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(series_are_found_again),
        cmocka_unit_test(outcomes_share_labels),
        cmocka_unit_test(histograms_are_cumulative),
        cmocka_unit_test(gauges_and_states),
        cmocka_unit_test(process_metrics_have_one_head_each),
        cmocka_unit_test(api_requests_have_two_labels),
        cmocka_unit_test(label_values_are_escaped),
        cmocka_unit_test(threads_find_the_same_series),
        cmocka_unit_test(reasons_are_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
