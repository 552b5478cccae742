/* Log lines as they arrive at the descriptor: both formats, escaping, levels, the limit of a call site,
 * threads. */
#include "unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "wakegate/base/buf.h"
#include "wakegate/base/clock.h"
#include "wakegate/base/log.h"

/* A temporary file takes any number of lines without blocking. */
static FILE *sink;

static int set_up(void **state)
{
    (void)state;
    sink = tmpfile();
    assert_non_null(sink);
    wg_log_set_fd(fileno(sink));
    wg_log_configure(WG_LOG_INFO, WG_LOG_TEXT);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    wg_log_set_fd(STDERR_FILENO);
    fclose(sink);
    return 0;
}

/* All that was logged so far, to be freed. */
static char *logged(void)
{
    static char text[1 << 20];
    ssize_t n = pread(fileno(sink), text, sizeof(text) - 1, 0);

    assert_true(n >= 0);
    return wg_xstrndup(text, (size_t)n);
}

/* The text of the only line, behind its time. */
static void assert_line(const char *expected)
{
    char *text WG_AUTO_FREE = logged();
    unsigned year;
    int end = 0;

    assert_int_equal(sscanf(text, "%4u-%*2u-%*2uT%*2u:%*2u:%*2u.%*3uZ %n", &year, &end), 1);
    assert_int_equal(end, 25);
    assert_string_equal(text + end, expected);
}

static void writes_text(void **state)
{
    (void)state;
    wg_info("model", "qwen3-8b", "waking, %d waiting", 3);
    assert_line("info model qwen3-8b: waking, 3 waiting\n");
}

static void text_without_subject_escapes_lines(void **state)
{
    (void)state;
    wg_error("front", NULL, "bad\r\nline\t\x01\x7f");
    assert_line("error front: bad\\r\\nline\\t\\x01\\x7f\n");
}

static void text_fields_are_quoted_where_needed(void **state)
{
    const struct wg_log_field fields[] = {
        {"status", WG_SLICE("200")}, {"path", WG_SLICE("/a b")}, {"q", WG_SLICE("say \"hi\"\n\\")},
        {"empty", WG_SLICE("")},     {"plain", WG_SLICE("a/b")}, {NULL, {0}},
    };

    (void)state;
    wg_log_fields(WG_LOG_INFO, "front", NULL, "request", fields);
    assert_line(
        "info front: request status=200 path=\"/a b\" q=\"say \\\"hi\\\"\\n\\\\\" empty=\"\" plain=a/b\n");
}

static void assert_json(const char *expected)
{
    char *text WG_AUTO_FREE = logged();

    assert_memory_equal(text, "{\"time\":\"20", 11);
    assert_string_equal(strchr(text, ','), expected);
}

static void writes_json(void **state)
{
    (void)state;
    wg_log_configure(WG_LOG_INFO, WG_LOG_JSON);
    wg_warn("model", "a\"b", "line\nbreak \xff");
    assert_json(",\"level\":\"warn\",\"part\":\"model\",\"subject\":\"a\\\"b\",\"message\":\"line\\nbreak "
                "\xef\xbf\xbd\"}\n");
}

static void json_numbers_stay_numbers(void **state)
{
    const struct wg_log_field fields[] = {
        {"a", WG_SLICE("200")},   {"b", WG_SLICE("0.25")}, {"c", WG_SLICE("007")},
        {"d", WG_SLICE("1.2.3")}, {"e", WG_SLICE("")},     {"f", WG_SLICE("5.")},
        {"g", WG_SLICE("0")},     {"h", WG_SLICE("1e5")},  {NULL, {0}},
    };

    (void)state;
    wg_log_configure(WG_LOG_INFO, WG_LOG_JSON);
    wg_log_fields(WG_LOG_INFO, "front", NULL, "request", fields);
    assert_json(
        ",\"level\":\"info\",\"part\":\"front\",\"message\":\"request\",\"a\":200,\"b\":0.25,\"c\":\"007\","
        "\"d\":\"1.2.3\",\"e\":\"\",\"f\":\"5.\",\"g\":0,\"h\":\"1e5\"}\n");
}

static void levels_decide(void **state)
{
    (void)state;
    wg_log_configure(WG_LOG_ERROR, WG_LOG_TEXT);
    assert_true(wg_log_on(WG_LOG_ERROR));
    assert_false(wg_log_on(WG_LOG_WARN));
    wg_warn("front", NULL, "not seen");
    wg_log_write(WG_LOG_INFO, "front", NULL, "not seen");
    wg_log_fields(WG_LOG_DEBUG, "front", NULL, "not seen", NULL);
    char *text WG_AUTO_FREE = logged();
    assert_string_equal(text, "");
}

static void long_things_are_cut(void **state)
{
    char *large WG_AUTO_FREE = wg_xcalloc(1, 100001);
    struct wg_log_field fields[50] = {{NULL, {0}}};

    (void)state;
    memset(large, 1, 100000);
    wg_log_write(WG_LOG_INFO, "front", large, "%s", large);
    char *text WG_AUTO_FREE = logged();
    assert_true(strlen(text) > 10000 && strlen(text) < 65536);
    assert_int_equal(text[strlen(text) - 1], '\n');
    for (size_t i = 0; i + 1 < WG_COUNT_OF(fields); i++)
        fields[i] = (struct wg_log_field){"f", wg_slice(large, 100000)};
    wg_log_fields(WG_LOG_INFO, "front", NULL, "request", fields);
    char *both WG_AUTO_FREE = logged();
    assert_non_null(strstr(both, "info front: (a line too long to log)\n"));
}

static void a_call_site_is_limited(void **state)
{
    struct wg_log_site site = {0};
    unsigned skipped = 99;
    int allowed = 0;

    (void)state;
    site.window = wg_clock_monotonic() + 3600 * WG_USEC_PER_SEC; /* this second does not end */
    for (int i = 0; i < 25; i++)
        if (wg_log_allow(&site, &skipped)) {
            allowed++;
            assert_int_equal(skipped, 0);
        }
    assert_int_equal(allowed, 10);
    site.window = wg_clock_monotonic() - WG_USEC_PER_SEC; /* now it has */
    assert_true(wg_log_allow(&site, &skipped));
    assert_int_equal(skipped, 15);
    assert_true(wg_log_allow(&site, &skipped));
    assert_int_equal(skipped, 0);
}

static void *write_lines(void *arg)
{
    for (int i = 0; i < 200; i++)
        wg_log_write(WG_LOG_INFO, "thread", NULL, "%0500d", *(int *)arg);
    return NULL;
}

static void lines_of_threads_do_not_mix(void **state)
{
    pthread_t threads[4];
    int ids[4];
    size_t lines = 0;

    (void)state;
    for (int i = 0; i < 4; i++) {
        ids[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, &ids[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    char *text WG_AUTO_FREE = logged();
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1, lines++)
        assert_int_equal(end - line, 25 + (int)strlen("info thread: ") + 500);
    assert_int_equal(lines, 800);
}

int main(void)
{
#define LOG_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        LOG_TEST(writes_text),
        LOG_TEST(text_without_subject_escapes_lines),
        LOG_TEST(text_fields_are_quoted_where_needed),
        LOG_TEST(writes_json),
        LOG_TEST(json_numbers_stay_numbers),
        LOG_TEST(levels_decide),
        LOG_TEST(long_things_are_cut),
        LOG_TEST(a_call_site_is_limited),
        LOG_TEST(lines_of_threads_do_not_mix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
