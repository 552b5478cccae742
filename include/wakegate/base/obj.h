/* Magic numbers, assertions and attributes that every room uses.
 * An assertion is for a bug of ours and aborts in every build; what the world does wrong is an error, never
 * an assertion. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WG_MUST_CHECK        __attribute__((warn_unused_result))
#define WG_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define WG_CLEANUP(fn)       __attribute__((cleanup(fn)))
#define WG_UNUSED            __attribute__((unused))
#define WG_LIKELY(x)         __builtin_expect(!!(x), 1)
#define WG_UNLIKELY(x)       __builtin_expect(!!(x), 0)
#define WG_COUNT_OF(array)   (sizeof(array) / sizeof((array)[0]))
#define WG_MIN(a, b)         ((a) < (b) ? (a) : (b))
#define WG_MAX(a, b)         ((a) > (b) ? (a) : (b))

/* The struct of `type` whose `member` is at `ptr`. */
#define WG_CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Aborts with file, line and expression. Never returns. */
_Noreturn void wg_assert_failed(const char *file, int line, const char *expr);

#define WG_ASSERT(expr)                                                                                      \
    do {                                                                                                     \
        if (WG_UNLIKELY(!(expr)))                                                                            \
            wg_assert_failed(__FILE__, __LINE__, #expr);                                                     \
    } while (0)

/* Every callback that takes a void pointer names what it got: `struct x *x = WG_CAST(x, arg, X_MAGIC)` checks
 * that arg is not NULL and that its first member `uint32_t magic` is X_MAGIC. */
#define WG_CHECK_OBJ(ptr, magic_number) WG_ASSERT((ptr) != NULL && (ptr)->magic == (magic_number))

#define WG_CAST(type, ptr, magic_number)                                                                     \
    ({                                                                                                       \
        struct type *wg_cast_ = (ptr);                                                                       \
        WG_CHECK_OBJ(wg_cast_, magic_number);                                                                \
        wg_cast_;                                                                                            \
    })

/* malloc family that aborts when the machine has no memory left: for small, bounded, start-up or per-object
 * allocations. What a client can make large is allocated through a cap and may fail (see buf.h, blocks.h).
 * Results are freed with free(). */
void *wg_xcalloc(size_t count, size_t size) __attribute__((malloc, alloc_size(1, 2), returns_nonnull));
void *wg_xrealloc(void *ptr, size_t count, size_t size) __attribute__((returns_nonnull));
char *wg_xstrdup(const char *text) __attribute__((returns_nonnull));
char *wg_xstrndup(const char *text, size_t len) __attribute__((returns_nonnull));
char *wg_xasprintf(const char *format, ...) WG_PRINTF(1, 2) __attribute__((returns_nonnull));

#define WG_NEW(type) ((type *)wg_xcalloc(1, sizeof(type)))

/* Cleanup functions for scope-local things. */
void wg_free_ptr(void *ptr_to_ptr);
void wg_close_fd(const int *fd);
#define WG_AUTO_FREE  WG_CLEANUP(wg_free_ptr)
#define WG_AUTO_CLOSE WG_CLEANUP(wg_close_fd)
