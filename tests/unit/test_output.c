/* Output of processes in the log: lines, their limits, and that nobody is ever held up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>

#include "log_capture.h"
#include "loop_until.h"
#include "output.h"

static const wg_usec patience = 10 * WG_USEC_PER_SEC;

struct fixture {
    struct wg_loop *loop;
    struct output *output;
    int write_end;
};

static int set_up(void **state)
{
    struct fixture *f = WG_NEW(struct fixture);
    int pair[2];
    assert_int_equal(pipe2(pair, O_CLOEXEC | O_NONBLOCK), 0);
    f->loop = wg_loop_new();
    f->output = output_new(f->loop, pair[0], "qwen");
    f->write_end = pair[1];
    log_capture_begin();
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    if (f->write_end >= 0)
        close(f->write_end);
    output_free(f->output);
    wg_loop_free(f->loop);
    log_capture_end();
    free(f);
    return 0;
}

static void print(struct fixture *f, const char *text)
{
    assert_int_equal(write(f->write_end, text, strlen(text)), strlen(text));
}

static bool is_logged(void *arg)
{
    return log_capture_has(arg);
}

static void until_logged(struct fixture *f, const char *text)
{
    char *copy = wg_xstrdup(text);
    assert_true(loop_until(f->loop, is_logged, copy, patience));
    free(copy);
}

static size_t count(const char *part)
{
    char *text = log_capture_text();
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, part)); at++)
        n++;
    free(text);
    return n;
}

static void test_line_by_line(void **state)
{
    struct fixture *f = *state;
    print(f, "one\ntwo\r\n\nthr");
    until_logged(f, "info process qwen: two\n");
    assert_true(log_capture_has("info process qwen: one\n"));
    assert_false(log_capture_has("thr"));
    print(f, "ee\n");
    until_logged(f, "info process qwen: three\n");
    assert_int_equal(count("\n"), 3); /* blank lines are no news */
    assert_string_equal(output_last_line(f->output), "three");
}

static void test_last_line_without_end(void **state)
{
    struct fixture *f = *state;
    print(f, "no newline");
    close(f->write_end);
    f->write_end = -1;
    until_logged(f, "qwen: no newline\n");
    assert_string_equal(output_last_line(f->output), "no newline");
}

static void test_drain_reads_what_is_there(void **state)
{
    struct fixture *f = *state;
    assert_string_equal(output_last_line(f->output), "");
    print(f, "error: out of memory\n   \n");
    output_drain(f->output);
    assert_string_equal(output_last_line(f->output), "error: out of memory");
    output_drain(NULL);
    assert_string_equal(output_last_line(NULL), "");
}

static void test_last_line_is_made_fit(void **state)
{
    struct fixture *f = *state;
    print(f, "  \x1b[1;31mred\x1b[0m\tand \x07loud  \n");
    output_drain(f->output);
    assert_string_equal(output_last_line(f->output), "redand loud");
}

static void expect_last_lines(struct fixture *f, const char *expected)
{
    char *lines = output_last_lines(f->output);
    assert_string_equal(lines, expected);
    free(lines);
}

static void test_last_lines_are_joined(void **state)
{
    struct fixture *f = *state;
    expect_last_lines(f, "");
    print(f, "one\n");
    output_drain(f->output);
    expect_last_lines(f, "one");
    print(f, "two\n\n  \nthree\nfour\n");
    output_drain(f->output);
    expect_last_lines(f, "two | three | four");
    char *lines = output_last_lines(NULL);
    assert_string_equal(lines, "");
    free(lines);
}

/* Each has its share; what one leaves is the next one's, and no character is cut. */
static void test_last_lines_are_short(void **state)
{
    struct fixture *f = *state;
    char text[1024];
    snprintf(text, sizeof(text), "x\n%0200d\n%0300d\n", 1, 2);
    print(f, text);
    output_drain(f->output);
    snprintf(text, sizeof(text), "x | %0146d | %0147d", 0, 0);
    expect_last_lines(f, text);
    char wide[402] = {0};
    for (size_t i = 0; i < 200; i++)
        wide[2 * i] = '\xc3', wide[2 * i + 1] = '\xa9';
    wide[400] = '\n';
    for (size_t i = 0; i < 3; i++)
        print(f, wide);
    output_drain(f->output);
    char *lines = output_last_lines(f->output);
    assert_in_range(strlen(lines), 290, 300);
    for (size_t i = 0; lines[i]; i++)
        assert_true((unsigned char)lines[i] != 0xc3 || (unsigned char)lines[i + 1] == 0xa9);
    free(lines);
}

static void test_long_lines_are_cut(void **state)
{
    struct fixture *f = *state;
    char line[6002];
    memset(line, 'x', sizeof(line));
    line[6000] = '\n';
    line[6001] = '\0';
    print(f, line);
    print(f, "next\n");
    until_logged(f, "qwen: next\n");
    assert_int_equal(count("xxx\n"), 0);
    char *text = log_capture_text();
    assert_true(strspn(strchr(text, 'x'), "x") <= 4096);
    assert_true(strlen(output_last_line(f->output)) <= 300);
    free(text);
}

static void test_flood_is_limited_and_counted(void **state)
{
    struct fixture *f = *state;
    size_t written = 0;
    while (written < 5000) { /* as fast as it is read */
        if (write(f->write_end, "spam\n", 5) == 5)
            written++;
        else
            output_drain(f->output);
    }
    until_logged(f, "lines of output left out)\n");
    const size_t logged = count("qwen: spam\n");
    assert_true(logged >= 2000 && logged < 5000);
    char *text = log_capture_text();
    size_t left_out = 0;
    for (const char *at = text; (at = strstr(at, "qwen: (")); at++)
        left_out += strtoul(at + 7, NULL, 10);
    free(text);
    assert_int_equal(logged + left_out, 5000);
    print(f, "calm\n");
    until_logged(f, "qwen: calm\n");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_line_by_line),
        TEST(test_last_line_without_end),
        TEST(test_drain_reads_what_is_there),
        TEST(test_last_line_is_made_fit),
        TEST(test_last_lines_are_joined),
        TEST(test_last_lines_are_short),
        TEST(test_long_lines_are_cut),
        TEST(test_flood_is_limited_and_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
