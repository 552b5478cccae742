/* The logger: makes a whole line in memory and hands it to the descriptor in one write, so that lines of
 * different threads never mix. */
#include "wakegate/base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "wakegate/base/buf.h"
#include "wakegate/base/clock.h"

enum {
    LINE_MAX_BYTES = 64 * 1024,
    MESSAGE_MAX = 4096, /* what is longer is cut */
    VALUE_MAX = 2048,
    LINES_PER_SECOND = 10,
};

static _Atomic int log_level = WG_LOG_INFO;
static _Atomic int log_format = WG_LOG_TEXT;
static _Atomic int log_fd = STDERR_FILENO;

static const char *const level_names[] = {"error", "warn", "info", "debug"};

void wg_log_configure(enum wg_log_level level, enum wg_log_format format)
{
    atomic_store_explicit(&log_level, (int)level, memory_order_relaxed);
    atomic_store_explicit(&log_format, (int)format, memory_order_relaxed);
}

void wg_log_set_fd(int fd)
{
    atomic_store_explicit(&log_fd, fd, memory_order_relaxed);
}

bool wg_log_on(enum wg_log_level level)
{
    return (int)level <= atomic_load_explicit(&log_level, memory_order_relaxed);
}

bool wg_log_allow(struct wg_log_site *site, unsigned *ret_skipped)
{
    wg_usec now = wg_clock_monotonic();
    int64_t window = atomic_load_explicit(&site->window, memory_order_relaxed);

    if (now - window >= WG_USEC_PER_SEC &&
        atomic_compare_exchange_strong_explicit(&site->window, &window, now, memory_order_relaxed,
                                                memory_order_relaxed))
        atomic_store_explicit(&site->count, 0, memory_order_relaxed);
    if (atomic_fetch_add_explicit(&site->count, 1, memory_order_relaxed) >= LINES_PER_SECOND) {
        atomic_fetch_add_explicit(&site->skipped, 1, memory_order_relaxed);
        return false;
    }
    *ret_skipped = atomic_exchange_explicit(&site->skipped, 0, memory_order_relaxed);
    return true;
}

/* Text as it may stand on one line: control characters as \n, \r, \t or \xNN. */
static void add_escaped(struct wg_buf *line, struct wg_slice text, bool quoted)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c == '\n')
            wg_buf_add_str(line, "\\n");
        else if (c == '\r')
            wg_buf_add_str(line, "\\r");
        else if (c == '\t')
            wg_buf_add_str(line, "\\t");
        else if (c < 0x20 || c == 0x7f)
            wg_buf_addf(line, "\\x%02x", c);
        else if (quoted && (c == '"' || c == '\\'))
            wg_buf_addf(line, "\\%c", c);
        else
            wg_buf_add_char(line, (char)c);
    }
}

/* Empty, or with a byte that would not survive name=value. */
static bool needs_quotes(struct wg_slice value)
{
    for (size_t i = 0; i < value.len; i++)
        if ((unsigned char)value.ptr[i] <= ' ' || strchr("\"\\=\x7f", value.ptr[i]) != NULL)
            return true;
    return value.len == 0;
}

/* JSON's own idea of a number: digits with at most one dot inside, no needless leading zero. */
static bool is_number(struct wg_slice value)
{
    size_t dots = 0;

    if (value.len == 0 || value.len > 18 || value.ptr[0] == '.' || value.ptr[value.len - 1] == '.')
        return false;
    if (value.len > 1 && value.ptr[0] == '0' && value.ptr[1] != '.')
        return false;
    for (size_t i = 0; i < value.len; i++) {
        if (value.ptr[i] == '.')
            dots++;
        else if (value.ptr[i] < '0' || value.ptr[i] > '9')
            return false;
    }
    return dots <= 1;
}

static struct wg_slice cut(struct wg_slice value)
{
    return wg_slice(value.ptr, WG_MIN(value.len, (size_t)VALUE_MAX));
}

static void add_text_line(struct wg_buf *line, const char *time, enum wg_log_level level, const char *part,
                          const char *subject, const char *message, const struct wg_log_field *fields)
{
    wg_buf_addf(line, "%s %s %s", time, level_names[level], part);
    if (subject != NULL) {
        wg_buf_add_char(line, ' ');
        add_escaped(line, cut(wg_slice_str(subject)), false);
    }
    wg_buf_add_str(line, ": ");
    add_escaped(line, wg_slice_str(message), false);
    for (; fields != NULL && fields->name != NULL; fields++) {
        struct wg_slice value = cut(fields->value);
        const char *quote = needs_quotes(value) ? "\"" : "";
        wg_buf_addf(line, " %s=%s", fields->name, quote);
        add_escaped(line, value, quote[0] != '\0');
        wg_buf_add_str(line, quote);
    }
    wg_buf_add_char(line, '\n');
}

static void add_member(struct wg_buf *line, const char *name, struct wg_slice value, bool quoted)
{
    const char *quote = quoted ? "\"" : "";

    wg_buf_addf(line, "%s\"%s\":%s", line->len > 1 ? "," : "", name, quote);
    wg_buf_add_json(line, value);
    wg_buf_add_str(line, quote);
}

static void add_json_line(struct wg_buf *line, const char *time, enum wg_log_level level, const char *part,
                          const char *subject, const char *message, const struct wg_log_field *fields)
{
    wg_buf_add_char(line, '{');
    add_member(line, "time", wg_slice_str(time), true);
    add_member(line, "level", wg_slice_str(level_names[level]), true);
    add_member(line, "part", wg_slice_str(part), true);
    if (subject != NULL)
        add_member(line, "subject", cut(wg_slice_str(subject)), true);
    add_member(line, "message", wg_slice_str(message), true);
    for (; fields != NULL && fields->name != NULL; fields++)
        add_member(line, fields->name, cut(fields->value), !is_number(fields->value));
    wg_buf_add_str(line, "}\n");
}

/* A descriptor that takes no more loses the line: logging must never hold the process up. */
static void put_line(struct wg_slice line)
{
    int fd = atomic_load_explicit(&log_fd, memory_order_relaxed);
    ssize_t n;

    do
        n = write(fd, line.ptr, line.len);
    while (n < 0 && errno == EINTR);
}

void wg_log_fields(enum wg_log_level level, const char *part, const char *subject, const char *message,
                   const struct wg_log_field *fields)
{
    if (!wg_log_on(level))
        return;
    int saved_errno = errno;
    struct wg_buf line = WG_BUF_INIT(LINE_MAX_BYTES);
    char time[32];

    wg_clock_format(wg_clock_wall(), time);
    bool json = atomic_load_explicit(&log_format, memory_order_relaxed) == WG_LOG_JSON;
    void (*add_line)(struct wg_buf *, const char *, enum wg_log_level, const char *, const char *,
                     const char *, const struct wg_log_field *) = json ? add_json_line : add_text_line;
    add_line(&line, time, level, part, subject, message, fields);
    if (line.failed) {
        wg_buf_reset(&line);
        add_line(&line, time, level, part, NULL, "(a line too long to log)", NULL);
    }
    put_line(wg_buf_slice(&line));
    wg_buf_clear(&line);
    errno = saved_errno;
}

void wg_log_write(enum wg_log_level level, const char *part, const char *subject, const char *format, ...)
{
    char message[MESSAGE_MAX];
    va_list args;

    if (!wg_log_on(level))
        return;
    va_start(args, format);
    if (vsnprintf(message, sizeof(message), format, args) < 0)
        message[0] = '\0';
    va_end(args);
    wg_log_fields(level, part, subject, message, NULL);
}
