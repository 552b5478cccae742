/* The pure parts of the admin: paths, names, the JSON of the status, the tables made of it, and refusals. */
#include "unit.h"

#include <jansson.h>
#include <stdlib.h>

#include "admin/json_out.h"
#include "admin/refusal.h"
#include "admin/routes.h"
#include "admin/status_json.h"
#include "admin/status_table.h"

/* ---- paths ---- */

static void paths_find_their_row(void **state)
{
    static const struct {
        const char *path;
        int page; /* -1: none */
        const char *name;
    } rows[] = {
        {"/", ADMIN_INDEX, ""},
        {"/healthz", ADMIN_HEALTHZ, ""},
        {"/readyz", ADMIN_READYZ, ""},
        {"/metrics", ADMIN_METRICS, ""},
        {"/status", ADMIN_STATUS, ""},
        {"/scaler/m", ADMIN_SCALER, "m"},
        {"/scaler/a/b", ADMIN_SCALER, "a/b"},
        {"/models/m/wake", ADMIN_WAKE, "m"},
        {"/models/org/m/sleep", ADMIN_SLEEP, "org/m"},
        {"/models/org%2Fm/sleep", ADMIN_SLEEP, "org%2Fm"},
        {"/models/x/wake/wake", ADMIN_WAKE, "x/wake"},
        {"/models//wake", -1, ""},
        {"/models/wake", -1, ""},
        {"/models/m", -1, ""},
        {"/scaler/", -1, ""},
        {"/healthz/", -1, ""},
        {"/Status", -1, ""},
        {"*", -1, ""},
        {"", -1, ""},
    };

    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(rows); i++) {
        struct wg_slice name;
        const struct admin_route *route = admin_route_find(wg_slice_str(rows[i].path), &name);
        assert_int_equal(route ? (int)route->page : -1, rows[i].page);
        assert_true(wg_slice_eq(name, wg_slice_str(rows[i].name)));
    }
}

static void methods_are_the_rows_own(void **state)
{
    struct wg_slice name;
    const struct admin_route *get = admin_route_find(WG_SLICE("/status"), &name);
    const struct admin_route *post = admin_route_find(WG_SLICE("/models/m/wake"), &name);

    (void)state;
    assert_true(admin_route_takes(get, WG_SLICE("GET")));
    assert_true(admin_route_takes(get, WG_SLICE("HEAD")));
    assert_false(admin_route_takes(get, WG_SLICE("POST")));
    assert_false(admin_route_takes(get, WG_SLICE("get")));
    assert_true(admin_route_takes(post, WG_SLICE("POST")));
    assert_false(admin_route_takes(post, WG_SLICE("GET")));
    assert_string_equal(admin_route_allow(get), "GET, HEAD");
    assert_string_equal(admin_route_allow(post), "POST");
}

static void names_are_decoded(void **state)
{
    static const struct {
        struct wg_slice text;
        const char *name; /* NULL: refused */
    } rows[] = {
        {WG_SLICE("m"), "m"},
        {WG_SLICE("org/m"), "org/m"},
        {WG_SLICE("org%2Fm%2f1"), "org/m/1"},
        {WG_SLICE("a%20b"), "a b"},
        {WG_SLICE("%C3%A9"), "\xc3\xa9"},
        {WG_SLICE("100%25"), "100%"},
        {WG_SLICE("a+b"), "a+b"},
        {WG_SLICE(""), NULL},
        {WG_SLICE("%"), NULL},
        {WG_SLICE("%4"), NULL},
        {WG_SLICE("a%zz"), NULL},
        {WG_SLICE("a%4z"), NULL},
        {WG_SLICE("a%00b"), NULL},
        {WG_SLICE("a%0d%0Ab"), NULL},
        {WG_SLICE("%7f"), NULL},
    };

    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(rows); i++) {
        char *name = admin_name_decode(rows[i].text);
        if (rows[i].name)
            assert_string_equal(name, rows[i].name);
        else
            assert_null(name);
        free(name);
    }
}

static void index_names_every_path(void **state)
{
    struct wg_buf page = WG_BUF_INIT(4096);

    (void)state;
    admin_route_index(&page);
    assert_non_null(strstr(wg_buf_str(&page), "GET  /status "));
    assert_non_null(strstr(wg_buf_str(&page), "GET  /scaler/{name} "));
    assert_non_null(strstr(wg_buf_str(&page), "POST /models/{name}/sleep "));
    wg_buf_clear(&page);
}

/* ---- JSON ---- */

static void json_is_written_with_commas_in_place(void **state)
{
    struct wg_buf buf = WG_BUF_INIT(4096);
    struct json_out json = {.buf = &buf};

    (void)state;
    json_out_open(&json, NULL, '{');
    json_out_open(&json, "empty", '[');
    json_out_close(&json, ']');
    json_out_open(&json, "list", '[');
    json_out_u64(&json, NULL, UINT64_MAX);
    json_out_i64(&json, NULL, INT64_MIN);
    json_out_close(&json, ']');
    json_out_text(&json, "text", "a\"\\\n\xff");
    json_out_bool(&json, "yes", true);
    json_out_seconds(&json, "t", 12 * WG_USEC_PER_SEC + 5 * WG_USEC_PER_MSEC);
    json_out_seconds(&json, "unknown", -1);
    json_out_close(&json, '}');
    assert_string_equal(wg_buf_str(&buf),
                        "{\"empty\":[],\"list\":[18446744073709551615,-9223372036854775808],"
                        "\"text\":\"a\\\"\\\\\\n\xef\xbf\xbd\",\"yes\":true,\"t\":12.005,\"unknown\":null}");
    wg_buf_clear(&buf);
}

static void refusals_have_openai_shape(void **state)
{
    struct admin_refusal refusal = admin_refusal_of(WG_REASON_NOT_FOUND);
    struct wg_buf body = WG_BUF_INIT(4096);

    (void)state;
    admin_refusal_json(&refusal, "a \"why\"", &body);
    assert_string_equal(wg_buf_str(&body),
                        "{\"error\":{\"message\":\"a \\\"why\\\"\",\"type\":\"invalid_request_error\","
                        "\"param\":null,\"code\":\"not_found\"}}\n");
    wg_buf_clear(&body);
}

static struct wg_status_endpoint endpoint = {
    .id = 1, .authority = "127.0.0.1:8000", .state = "serving", .in_use = 3, .limit = 16, .tokens = 420};

/* A waking model with one start behind it, and a failed one whose reason is not UTF-8. */
static void fill_models(struct wg_status_model models[static 2])
{
    models[0] = (struct wg_status_model){.state = WG_MODEL_WAKING,
                                         .phase = "listening",
                                         .eta = 2500 * WG_USEC_PER_MSEC,
                                         .expected_start = 5 * WG_USEC_PER_SEC,
                                         .held = 2,
                                         .held_bytes = 4096,
                                         .inflight = 3,
                                         .endpoints = &endpoint,
                                         .n_endpoints = 1,
                                         .n_starts = 1};
    models[1] = (struct wg_status_model){.state = WG_MODEL_FAILED,
                                         .phase = "",
                                         .reason = "exited with status 1: \xff",
                                         .eta = -1,
                                         .back_off = 10 * WG_USEC_PER_SEC};
    models[0].starts[0] = (struct wg_status_start){.wall_began = 1500 * WG_USEC_PER_MSEC, .ok = true};
    for (int phase = 0; phase < WG_PHASES; phase++)
        models[0].starts[0].phase[phase] = -1;
    models[0].starts[0].phase[WG_PHASE_STARTED] = 10 * WG_USEC_PER_MSEC;
    models[0].starts[0].phase[WG_PHASE_ANSWERING] = 5 * WG_USEC_PER_SEC;
}

static double number_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_number(value));
    return json_number_value(value);
}

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    assert_non_null(text);
    return text;
}

static void check_waking(const json_t *model)
{
    const json_t *at = json_array_get(json_object_get(model, "endpoints"), 0);
    const json_t *start = json_array_get(json_object_get(model, "last_starts"), 0);
    const json_t *phases = json_object_get(start, "phases");

    assert_string_equal(text_at(model, "name"), "org/m");
    assert_string_equal(text_at(model, "state"), "waking");
    assert_string_equal(text_at(model, "phase"), "listening");
    assert_string_equal(text_at(model, "reason"), "");
    assert_float_equal(number_at(model, "eta_seconds"), 2.5, 1e-9);
    assert_float_equal(number_at(model, "expected_start_seconds"), 5, 1e-9);
    assert_float_equal(number_at(model, "back_off_seconds"), 0, 1e-9);
    assert_int_equal(number_at(model, "held"), 2);
    assert_int_equal(number_at(model, "held_bytes"), 4096);
    assert_int_equal(number_at(model, "inflight"), 3);
    assert_string_equal(text_at(at, "address"), "127.0.0.1:8000");
    assert_string_equal(text_at(at, "state"), "serving");
    assert_int_equal(number_at(at, "in_use"), 3);
    assert_int_equal(number_at(at, "limit"), 16);
    assert_int_equal(number_at(at, "tokens"), 420);
    assert_string_equal(text_at(start, "began"), "1970-01-01T00:00:01.500Z");
    assert_true(json_is_true(json_object_get(start, "ok")));
    assert_int_equal(json_object_size(phases), 2);
    assert_float_equal(number_at(phases, "started"), 0.01, 1e-9);
    assert_float_equal(number_at(phases, "answering"), 5, 1e-9);
}

static void check_failed(const json_t *model)
{
    assert_string_equal(text_at(model, "state"), "failed");
    assert_string_equal(text_at(model, "reason"), "exited with status 1: \xef\xbf\xbd");
    assert_true(json_is_null(json_object_get(model, "eta_seconds")));
    assert_true(json_is_null(json_object_get(model, "expected_start_seconds")));
    assert_float_equal(number_at(model, "back_off_seconds"), 10, 1e-9);
    assert_int_equal(json_array_size(json_object_get(model, "endpoints")), 0);
}

static void status_has_its_shape(void **state)
{
    char failed[] = "f", team[] = "team \"a\"";
    struct wg_status_model models[2];
    fill_models(models);
    models[1].name = failed;
    char waking[] = "org/m";
    models[0].name = waking;
    struct wg_status status = {.models = models, .n_models = 2};
    struct wg_config_tenant tenant = {.name = team};
    struct wg_config config = {.tenants = &tenant, .n_tenants = 1};
    struct admin_process_status process = {.version = "1.2.3", .uptime = 90 * WG_USEC_PER_SEC, .ready = true};
    struct wg_tenant_metrics *metrics = wg_metrics_tenant(team);
    wg_count(&metrics->requests[WG_OUTCOME_OK]);
    wg_count(&metrics->requests[WG_REASON_RATE_LIMIT_REQUESTS]);
    wg_count(&metrics->requests[WG_REASON_RATE_LIMIT_TOKENS]);
    struct wg_buf page = WG_BUF_INIT(1 << 20);

    (void)state;
    admin_status_json(&status, &config, &process, &page);
    json_t *root = json_loadb(page.data, page.len, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    const json_t *is = json_object_get(root, "process");
    assert_string_equal(text_at(is, "version"), "1.2.3");
    assert_float_equal(number_at(is, "uptime_seconds"), 90, 1e-9);
    assert_true(json_is_true(json_object_get(is, "ready")));
    assert_int_equal(number_at(is, "connections"), 0);
    assert_int_equal(number_at(is, "buffered_bytes"), 0);
    const json_t *list = json_object_get(root, "models");
    assert_int_equal(json_array_size(list), 2);
    check_waking(json_array_get(list, 0));
    check_failed(json_array_get(list, 1));
    const json_t *who = json_array_get(json_object_get(root, "tenants"), 0);
    const json_t *requests = json_object_get(who, "requests");
    assert_string_equal(text_at(who, "name"), team);
    assert_int_equal(json_object_size(requests), 2);
    assert_int_equal(number_at(requests, "ok"), 1);
    assert_int_equal(number_at(requests, "rate_limit_exceeded"), 2);
    json_decref(root);
    wg_buf_clear(&page);
}

static void scaler_adds_up(void **state)
{
    char name[] = "m";
    struct wg_status_model model = {.name = name, .phase = "", .held = 2, .inflight = 3};
    struct wg_status status = {.models = &model, .n_models = 1};
    struct wg_buf page = WG_BUF_INIT(4096);

    (void)state;
    assert_false(admin_scaler_json(&status, "other", &page));
    assert_int_equal(page.len, 0);
    assert_true(admin_scaler_json(&status, "m", &page));
    assert_string_equal(wg_buf_str(&page), "{\"held\":2,\"inflight\":3,\"demand\":5}\n");
    wg_buf_clear(&page);
}

/* ---- tables ---- */

static void expect_table(const char *json, const char *expected)
{
    struct wg_buf out = WG_BUF_INIT(1 << 16);

    assert_true(admin_status_table(wg_slice_str(json), &out));
    assert_string_equal(wg_buf_str(&out), expected);
    wg_buf_clear(&out);
}

static void table_is_aligned(void **state)
{
    (void)state;
    expect_table(
        "{\"models\":[{\"name\":\"qwen3-8b\",\"state\":\"warm\",\"phase\":\"\",\"reason\":\"old\",\"eta_"
        "seconds\":null,"
        "\"held\":0,\"inflight\":12,\"endpoints\":[{\"state\":\"serving\",\"in_use\":3,\"limit\":16},"
        "{\"state\":\"proving\",\"in_use\":0,\"limit\":16},{\"state\":\"serving\",\"in_use\":9,\"limit\":16}]"
        "},"
        "{\"name\":\"m\xc3\xa9\",\"state\":\"waking\",\"phase\":\"listening\",\"reason\":\"probe: 503\","
        "\"eta_seconds\":2.5,\"held\":1000,\"inflight\":0,\"endpoints\":[]},"
        "{\"name\":\"f\",\"state\":\"failed\",\"phase\":\"\",\"reason\":\"exited with status "
        "1\",\"eta_seconds\":null,"
        "\"back_off_seconds\":10.0,\"held\":0,\"inflight\":0,\"endpoints\":[]}],"
        "\"tenants\":[{\"name\":\"search\",\"requests\":{\"ok\":90,\"client_closed\":3,\"hold_full\":7}},"
        "{\"name\":\"new\",\"requests\":{}}]}",
        "MODEL     STATE   HELD  IN-FLIGHT  ETA    PHASE      ENDPOINTS\n"
        "qwen3-8b  warm    0     12         -      -          2 serving, 1 proving, 12/48 slots\n"
        "m\xc3\xa9        waking  1000  0          2.5 s  listening  -\n"
        "f         failed  0     0          -      -          -\n"
        "  m\xc3\xa9: probe: 503\n"
        "  f: exited with status 1 (tried again on a request after 10.0 s)\n"
        "\n"
        "TENANT  REQUESTS  OK  NOT OK\n"
        "search  100       90  client_closed 3, hold_full 7\n"
        "new     0         0   -\n");
}

/* What a model server made us say must not move an operator's cursor. */
static void table_is_safe_for_terminals(void **state)
{
    (void)state;
    expect_table(
        "{\"models\":[{\"name\":\"m\",\"state\":\"cold\",\"reason\":\"\\u001b[2Jx\\ny\\u009b1A\\u007f\"}],"
        "\"tenants\":[]}",
        "MODEL  STATE  HELD  IN-FLIGHT  ETA  PHASE  ENDPOINTS\n"
        "m      cold   -     -          -    -      -\n"
        "  m:  [2Jx y  1A \n"
        "\n"
        "TENANT  REQUESTS  OK  NOT OK\n");
}

static void table_takes_strange_values(void **state)
{
    (void)state;
    expect_table("{\"models\":[{\"name\":7,\"held\":\"x\",\"eta_seconds\":1e300,\"endpoints\":{}},null],"
                 "\"tenants\":[[]]}",
                 "MODEL  STATE  HELD  IN-FLIGHT  ETA  PHASE  ENDPOINTS\n"
                 "-      -      -     -          -    -      -\n"
                 "-      -      -     -          -    -      -\n"
                 "\n"
                 "TENANT  REQUESTS  OK  NOT OK\n"
                 "-       0         0   -\n");
}

static void table_refuses_what_is_no_status(void **state)
{
    static const char *const texts[] = {"",   "hello",           "[]",
                                        "{}", "{\"models\":[]}", "{\"models\":{},\"tenants\":[]}"};
    struct wg_buf out = WG_BUF_INIT(4096);

    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(texts); i++) {
        assert_false(admin_status_table(wg_slice_str(texts[i]), &out));
        assert_int_equal(out.len, 0);
    }
    wg_buf_clear(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_find_their_row),
        cmocka_unit_test(methods_are_the_rows_own),
        cmocka_unit_test(names_are_decoded),
        cmocka_unit_test(index_names_every_path),
        cmocka_unit_test(json_is_written_with_commas_in_place),
        cmocka_unit_test(refusals_have_openai_shape),
        cmocka_unit_test(status_has_its_shape),
        cmocka_unit_test(scaler_adds_up),
        cmocka_unit_test(table_is_aligned),
        cmocka_unit_test(table_is_safe_for_terminals),
        cmocka_unit_test(table_takes_strange_values),
        cmocka_unit_test(table_refuses_what_is_no_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
