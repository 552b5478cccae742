/* The logger: one line per event on standard error, text or JSON, from any thread. One of the two global
 * things. Library-like code logs at debug only; who decides about the error logs it. Secrets are never passed
 * to it. */
#pragma once

#include "wakegate/base/slice.h"

enum wg_log_level { WG_LOG_ERROR, WG_LOG_WARN, WG_LOG_INFO, WG_LOG_DEBUG };
enum wg_log_format { WG_LOG_TEXT, WG_LOG_JSON };

/* Any thread, any time; takes effect with the next line. */
void wg_log_configure(enum wg_log_level level, enum wg_log_format format);
/* Writes to `fd` from now on (standard error at start). The descriptor stays the caller's. */
void wg_log_set_fd(int fd);
bool wg_log_on(enum wg_log_level level);

/* `part` is the room ("front", "model"), `subject` what the line is about ("qwen3-8b", may be NULL). Text:
 *   2026-11-30T23:01:26.123Z info model qwen3-8b: waking
 * Line ends and control characters inside are escaped. Each (call site) is limited to 10 lines a second; what
 * was left out is counted in its next line. Errors and warnings too. */
void wg_log_write(enum wg_log_level level, const char *part, const char *subject, const char *format, ...)
    WG_PRINTF(4, 5);

struct wg_log_site;
/* A call site's own limiter; see the macros. True if the line may go out; *ret_skipped says how many were
 * left out before. */
bool wg_log_allow(struct wg_log_site *site, unsigned *ret_skipped);

struct wg_log_site {
    _Atomic int64_t window; /* start of the current second, monotonic microseconds */
    _Atomic unsigned count, skipped;
};

#define WG_LOG_(level_, part, subject, ...)                                                                  \
    do {                                                                                                     \
        if (wg_log_on(level_)) {                                                                             \
            static struct wg_log_site wg_site_;                                                              \
            unsigned wg_skipped_ = 0;                                                                        \
            if (wg_log_allow(&wg_site_, &wg_skipped_)) {                                                     \
                if (wg_skipped_ > 0)                                                                         \
                    wg_log_write(level_, part, subject, "(%u lines like the next were left out)",            \
                                 wg_skipped_);                                                               \
                wg_log_write(level_, part, subject, __VA_ARGS__);                                            \
            }                                                                                                \
        }                                                                                                    \
    } while (0)

#define wg_error(part, subject, ...) WG_LOG_(WG_LOG_ERROR, part, subject, __VA_ARGS__)
#define wg_warn(part, subject, ...)  WG_LOG_(WG_LOG_WARN, part, subject, __VA_ARGS__)
#define wg_info(part, subject, ...)  WG_LOG_(WG_LOG_INFO, part, subject, __VA_ARGS__)
#define wg_debug(part, subject, ...) WG_LOG_(WG_LOG_DEBUG, part, subject, __VA_ARGS__)

/* One finished line of the access log or of a child's output: not limited, `fields` are name/value pairs, a
 * NULL name ends them. In text they are name=value behind the message, values quoted where needed; in JSON
 * members of their own. A value that is all digits (with at most one dot) stays a number in JSON. */
struct wg_log_field {
    const char *name;
    struct wg_slice value;
};
void wg_log_fields(enum wg_log_level level, const char *part, const char *subject, const char *message,
                   const struct wg_log_field *fields);
