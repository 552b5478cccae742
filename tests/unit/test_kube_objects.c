/* What answers of an API server are taken to say, well-formed and not. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "objects.h"

static struct wg_slice text(const char *json)
{
    return wg_slice_str(json);
}

static void test_clean(void **state WG_UNUSED)
{
    char out[KUBE_MESSAGE_MAX + 1];
    kube_clean(WG_SLICE("  one\ntwo\x7fthree\t\n"), out);
    assert_string_equal(out, "one two three");
    kube_clean(WG_SLICE(""), out);
    assert_string_equal(out, "");
    char longer[KUBE_MESSAGE_MAX + 8];
    memset(longer, 'x', sizeof(longer));
    memcpy(longer + KUBE_MESSAGE_MAX - 1, "\xc3\xa4", 2); /* would be cut in the middle */
    kube_clean(wg_slice(longer, sizeof(longer)), out);
    assert_int_equal(strlen(out), KUBE_MESSAGE_MAX - 1);
}

static void test_status(void **state WG_UNUSED)
{
    struct kube_status status;
    kube_parse_status(text("{\"kind\":\"Status\",\"message\":\"a\\nb\",\"details\":{\"name\":\"q\","
                           "\"retryAfterSeconds\":2}}"),
                      &status);
    assert_string_equal(status.message, "a b");
    assert_true(status.named);
    assert_int_equal(status.retry_after, 2 * WG_USEC_PER_SEC);
    kube_parse_status(text("{\"kind\":\"Status\",\"details\":{}}"), &status);
    assert_string_equal(status.message, "");
    assert_false(status.named);
    assert_int_equal(status.retry_after, 0);
}

static void test_status_that_is_none(void **state WG_UNUSED)
{
    static const char *const bodies[][2] = {
        {"", ""},
        {"404 page not found\n", "404 page not found"},
        {"{\"kind\":\"Other\"}", "{\"kind\":\"Other\"}"},
        {"[1]", "[1]"},
        {"\xff\xfe", ""},
        {"{\"kind\":\"Status\",\"message\":7,\"details\":[]}", ""},
        {"{\"kind\":\"Status\",\"details\":{\"name\":{},\"retryAfterSeconds\":\"9\"}}", ""},
        {"{\"kind\":\"Status\",\"details\":{\"retryAfterSeconds\":-9}}", ""},
    };
    for (size_t i = 0; i < WG_COUNT_OF(bodies); i++) {
        struct kube_status status;
        kube_parse_status(text(bodies[i][0]), &status);
        assert_string_equal(status.message, bodies[i][1]);
        assert_false(status.named);
        assert_int_equal(status.retry_after, 0);
    }
}

static void test_retry_is_bounded(void **state WG_UNUSED)
{
    struct kube_status status;
    kube_parse_status(text("{\"kind\":\"Status\",\"details\":{\"retryAfterSeconds\":9223372036854775807}}"),
                      &status);
    assert_int_equal(status.retry_after, 3600 * WG_USEC_PER_SEC);
}

static void test_scale(void **state WG_UNUSED)
{
    struct wg_kube_scale scale;
    json_t *root = kube_parse_scale(text("{\"kind\":\"Scale\",\"metadata\":{\"resourceVersion\":\"811\"},"
                                         "\"spec\":{\"replicas\":3},"
                                         "\"status\":{\"replicas\":2,\"selector\":\"app=q\"}}"),
                                    &scale);
    assert_non_null(root);
    assert_int_equal(scale.replicas, 3);
    assert_int_equal(scale.observed, 2);
    assert_string_equal(scale.selector, "app=q");
    assert_string_equal(scale.resource_version, "811");
    json_decref(root);
}

static void test_scale_without_zeros(void **state WG_UNUSED)
{
    static const char *const bodies[] = {
        "{\"kind\":\"Scale\",\"metadata\":{\"resourceVersion\":\"1\"}}",
        "{\"kind\":\"Scale\",\"metadata\":{\"resourceVersion\":\"1\"},\"spec\":{},\"status\":{}}",
        "{\"kind\":\"Scale\",\"metadata\":{\"resourceVersion\":\"1\"},\"spec\":{\"replicas\":null}}",
    };
    for (size_t i = 0; i < WG_COUNT_OF(bodies); i++) {
        struct wg_kube_scale scale;
        json_t *root = kube_parse_scale(text(bodies[i]), &scale);
        assert_non_null(root);
        assert_int_equal(scale.replicas, 0);
        assert_int_equal(scale.observed, 0);
        assert_string_equal(scale.selector, "");
        json_decref(root);
    }
}

static void test_no_scale(void **state WG_UNUSED)
{
    static const char *const bodies[] = {
        "",
        "nonsense",
        "[]",
        "{\"kind\":\"Deployment\",\"metadata\":{\"resourceVersion\":\"1\"}}",
        "{\"kind\":\"Scale\"}",
        "{\"kind\":\"Scale\",\"metadata\":{\"resourceVersion\":\"\"}}",
        "{\"kind\":\"Scale\",\"metadata\":{\"resourceVersion\":7}}",
        "{\"kind\":\"Scale\",\"metadata\":{\"resourceVersion\":\"1\"},\"spec\":{\"replicas\":\"1\"}}",
        "{\"kind\":\"Scale\",\"metadata\":{\"resourceVersion\":\"1\"},\"spec\":{\"replicas\":-1}}",
        "{\"kind\":\"Scale\",\"metadata\":{\"resourceVersion\":\"1\"},\"spec\":{\"replicas\":2147483648}}",
        "{\"kind\":\"Scale\",\"metadata\":{\"resourceVersion\":\"1\"},\"status\":{\"replicas\":1.5}}",
    };
    for (size_t i = 0; i < WG_COUNT_OF(bodies); i++) {
        struct wg_kube_scale scale;
        assert_null(kube_parse_scale(text(bodies[i]), &scale));
    }
}

static void test_plural(void **state WG_UNUSED)
{
    const char *list = "{\"kind\":\"APIResourceList\",\"resources\":["
                       "{\"name\":\"foos/status\",\"kind\":\"Foo\"},{\"kind\":\"Foo\"},7,"
                       "{\"name\":\"foos\",\"kind\":\"Foo\"},"
                       "{\"name\":\"foos/scale\",\"kind\":\"Scale\"},"
                       "{\"name\":\"bars\",\"kind\":\"Bar\"}]}";
    char *plural = NULL;
    bool scales = false;
    assert_int_equal(kube_parse_plural(text(list), "Foo", &plural, &scales), 0);
    assert_string_equal(plural, "foos");
    assert_true(scales);
    wg_free_ptr(&plural);
    assert_int_equal(kube_parse_plural(text(list), "Bar", &plural, &scales), 0);
    assert_string_equal(plural, "bars");
    assert_false(scales);
    wg_free_ptr(&plural);
    plural = NULL;
    assert_int_equal(kube_parse_plural(text(list), "Other", &plural, &scales), -ENOENT);
    assert_int_equal(kube_parse_plural(text("{\"kind\":\"APIResourceList\"}"), "Foo", &plural, &scales),
                     -ENOENT);
    assert_int_equal(kube_parse_plural(text("<html>"), "Foo", &plural, &scales), -EINVAL);
    assert_int_equal(kube_parse_plural(text("{\"resources\":[]}"), "Foo", &plural, &scales), -EINVAL);
    assert_null(plural);
}

#define REPLICA_FAILURE(status)                                                                              \
    "{\"kind\":\"Deployment\",\"status\":{\"conditions\":["                                                  \
    "{\"type\":\"Available\",\"status\":\"True\",\"message\":\"fine\"},"                                     \
    "{\"type\":\"ReplicaFailure\",\"status\":\"" status "\",\"message\":\"exceeded\\nquota\"}]}}"

static void test_replica_failure(void **state WG_UNUSED)
{
    char out[KUBE_MESSAGE_MAX + 1];
    assert_true(kube_parse_replica_failure(text(REPLICA_FAILURE("True")), out));
    assert_string_equal(out, "exceeded quota");
    assert_true(kube_parse_replica_failure(text(REPLICA_FAILURE("False")), out));
    assert_string_equal(out, "");
    assert_true(kube_parse_replica_failure(text("{}"), out));
    assert_string_equal(out, "");
    assert_false(kube_parse_replica_failure(text("null"), out));
}

static void check_events(const char *items, const char *expected)
{
    char out[KUBE_MESSAGE_MAX + 1];
    char *list WG_AUTO_FREE = wg_xasprintf("{\"kind\":\"EventList\",\"items\":[%s]}", items);
    assert_true(kube_parse_failed_create(text(list), out));
    assert_string_equal(out, expected);
}

#define FAILED(time, message)                                                                                \
    "{\"reason\":\"FailedCreate\",\"message\":\"" message "\",\"lastTimestamp\":\"" time "\"}"

static void test_failed_create(void **state WG_UNUSED)
{
    check_events("", "");
    check_events("7,{},{\"reason\":\"Other\",\"message\":\"no\"}", "");
    check_events(FAILED("2026-11-30T23:01:27Z", "new") "," FAILED("2026-11-30T23:01:26Z", "old"), "new");
    check_events(FAILED("2026-11-30T23:01:26Z", "old") "," FAILED("2026-11-30T23:01:27Z", "new"), "new");
    /* made since then */
    check_events(FAILED("2026-11-30T23:01:26Z", "old") ",{\"reason\":\"SuccessfulCreate\","
                                                       "\"eventTime\":\"2026-11-30T23:01:27.123456Z\"}",
                 "");
    check_events(FAILED("2026-11-30T23:01:26Z", "same") ",{\"reason\":\"SuccessfulCreate\","
                                                        "\"lastTimestamp\":\"2026-11-30T23:01:26Z\"}",
                 "same");
    check_events("{\"reason\":\"SuccessfulCreate\",\"lastTimestamp\":\"2026-11-30T23:01:26Z\"},"
                 "{\"reason\":\"FailedCreate\",\"message\":\"again\","
                 "\"lastTimestamp\":\"2026-11-30T23:00:00Z\","
                 "\"series\":{\"lastObservedTime\":\"2026-11-30T23:01:30.000000Z\"}}",
                 "again");
    check_events("{\"reason\":\"FailedCreate\",\"message\":\"undated\"}", "undated");
    char out[KUBE_MESSAGE_MAX + 1];
    assert_false(kube_parse_failed_create(text("oops"), out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean),
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_status_that_is_none),
        cmocka_unit_test(test_retry_is_bounded),
        cmocka_unit_test(test_scale),
        cmocka_unit_test(test_scale_without_zeros),
        cmocka_unit_test(test_no_scale),
        cmocka_unit_test(test_plural),
        cmocka_unit_test(test_replica_failure),
        cmocka_unit_test(test_failed_create),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
