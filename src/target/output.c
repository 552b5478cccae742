/* Reads the output of a process as fast as it comes, so that the process never waits for us, and logs it line
 * by line: up to a rate, with a count of what was left out. */
#include "output.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <unistd.h>

#include "wakegate/base/buf.h"
#include "wakegate/base/log.h"

#define OUTPUT_MAGIC 0x0b7a0b01

enum {
    LINE_MAX_BYTES = 4096, /* the rest of a longer line is left out */
    LAST_MAX = 300,        /* of a line that is kept, and of all of them joined */
    LAST_LINES = 3,
    READ_BYTES = 16 * 1024,
    READS_PER_TURN = 4,
    READS_PER_DRAIN = 256,
    LINES_BURST = 2000, /* a start is loud */
    LINES_PER_SECOND = 100,
};

struct output {
    uint32_t magic;
    struct wg_loop *loop;
    int fd; /* -1: at its end */
    struct event *readable;
    char *label;
    char line[LINE_MAX_BYTES];
    size_t len;
    bool overlong;                       /* the line that is being read has lost its end */
    char last[LAST_LINES][LAST_MAX + 1]; /* a ring */
    size_t n_last;                       /* ever kept */
    wg_usec filled;                      /* when `allowance` was right */
    int64_t allowance, left_out;
    struct wg_timer report; /* of what was left out, when no line comes to tell it with */
};

static void say(struct output *output, const char *text)
{
    static const struct wg_log_field none = {0};
    wg_log_fields(WG_LOG_INFO, "process", output->label, text, &none);
}

static void report_left_out(struct output *output)
{
    if (output->left_out == 0)
        return;
    char text[64];
    snprintf(text, sizeof(text), "(%lld lines of output left out)", (long long)output->left_out);
    output->left_out = 0;
    wg_timer_cancel(&output->report);
    say(output, text);
}

static void on_report(struct wg_timer *timer)
{
    report_left_out(WG_CONTAINER_OF(timer, struct output, report));
}

static bool may_log(struct output *output)
{
    const wg_usec now = wg_loop_now(output->loop);
    const int64_t more = (now - output->filled) * LINES_PER_SECOND / WG_USEC_PER_SEC;
    if (more > 0) {
        output->allowance = WG_MIN(output->allowance + more, (int64_t)LINES_BURST);
        output->filled = now;
    }
    if (output->allowance > 0) {
        output->allowance--;
        return true;
    }
    output->left_out++;
    if (!wg_timer_armed(&output->report))
        wg_timer_set_after(&output->report, WG_USEC_PER_SEC);
    return false;
}

/* Without blanks at the ends, escape sequences of terminals and other control characters. */
static void keep_as_last(struct output *output)
{
    char text[LAST_MAX + 1];
    size_t n = 0;
    for (size_t i = 0; i < output->len && n < LAST_MAX; i++) {
        const unsigned char c = (unsigned char)output->line[i];
        if (c == 0x1b && i + 1 < output->len && output->line[i + 1] == '[') {
            i += 2;
            while (i < output->len && (output->line[i] < '@' || output->line[i] > '~'))
                i++;
        } else if (c >= ' ' && c != 0x7f) {
            if (n > 0 || c != ' ')
                text[n++] = (char)c;
        }
    }
    while (n > 0 && text[n - 1] == ' ')
        n--;
    if (n == 0)
        return;
    char *to = output->last[output->n_last++ % LAST_LINES];
    memcpy(to, text, n);
    to[n] = '\0';
}

static void end_line(struct output *output)
{
    if (output->len > 0 && output->line[output->len - 1] == '\r')
        output->len--;
    keep_as_last(output);
    if (output->len > 0 && may_log(output)) {
        report_left_out(output);
        char text[LINE_MAX_BYTES + 32];
        snprintf(text, sizeof(text), "%.*s%s", (int)output->len, output->line,
                 output->overlong ? " (cut)" : "");
        say(output, text);
    }
    output->len = 0;
    output->overlong = false;
}

static void take_part(struct output *output, const char *data, size_t len)
{
    const size_t room = sizeof(output->line) - output->len;
    if (len > room)
        output->overlong = true;
    memcpy(output->line + output->len, data, WG_MIN(len, room));
    output->len += WG_MIN(len, room);
}

static void take(struct output *output, const char *data, size_t len)
{
    const char *end = data + len;
    for (const char *newline; (newline = memchr(data, '\n', (size_t)(end - data))); data = newline + 1) {
        take_part(output, data, (size_t)(newline - data));
        end_line(output);
    }
    take_part(output, data, (size_t)(end - data));
}

static void finish(struct output *output)
{
    if (output->len > 0)
        end_line(output);
    report_left_out(output);
    if (output->readable)
        event_free(output->readable);
    output->readable = NULL;
    if (output->fd >= 0)
        close(output->fd);
    output->fd = -1;
}

static void read_some(struct output *output, int reads)
{
    char data[READ_BYTES];
    for (int i = 0; i < reads && output->fd >= 0; i++) {
        const ssize_t len = read(output->fd, data, sizeof(data));
        if (len < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (len <= 0)
            finish(output);
        else
            take(output, data, (size_t)len);
    }
}

static void on_readable(evutil_socket_t fd WG_UNUSED, short what WG_UNUSED, void *arg)
{
    read_some(WG_CAST(output, arg, OUTPUT_MAGIC), READS_PER_TURN);
}

struct output *output_new(struct wg_loop *loop, int fd, const char *label)
{
    struct output *output = WG_NEW(struct output);
    output->magic = OUTPUT_MAGIC;
    output->loop = loop;
    output->fd = fd;
    output->label = wg_xstrdup(label);
    output->filled = wg_loop_now(loop);
    output->allowance = LINES_BURST;
    wg_timer_init(&output->report, loop, on_report);
    output->readable = event_new(wg_loop_base(loop), fd, EV_READ | EV_PERSIST, on_readable, output);
    WG_ASSERT(output->readable && event_add(output->readable, NULL) == 0);
    return output;
}

void output_drain(struct output *output)
{
    if (output)
        read_some(output, READS_PER_DRAIN);
}

const char *output_last_line(const struct output *output)
{
    return output && output->n_last > 0 ? output->last[(output->n_last - 1) % LAST_LINES] : "";
}

/* Not in the middle of a character. */
static size_t cut(const char *text, size_t most)
{
    size_t n = strnlen(text, most);
    while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
        n--;
    return n;
}

char *output_last_lines(const struct output *output)
{
    static const char separator[] = " | ";
    struct wg_buf out = WG_BUF_INIT(LAST_MAX + 1);
    const size_t n = output ? WG_MIN(output->n_last, (size_t)LAST_LINES) : 0;
    for (size_t left = n; left > 0; left--) {
        const char *line = output->last[(output->n_last - left) % LAST_LINES];
        /* What a short line does not need of its share is for those after it. */
        const size_t room = LAST_MAX - out.len - (left - (out.len == 0)) * (sizeof(separator) - 1);
        if (out.len > 0)
            (void)wg_buf_add_str(&out, separator);
        (void)wg_buf_add(&out, line, cut(line, room / left));
    }
    char *text = wg_xstrdup(wg_buf_str(&out));
    wg_buf_clear(&out);
    return text;
}

struct output *output_free(struct output *output)
{
    if (!output)
        return NULL;
    output_drain(output);
    finish(output);
    wg_timer_cancel(&output->report);
    output->magic = 0;
    free(output->label);
    free(output);
    return NULL;
}
