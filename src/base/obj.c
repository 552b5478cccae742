/* Assertions, the allocations that cannot fail, and the cleanup functions of scope-local things. */
#include "wakegate/base/obj.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Noreturn void wg_assert_failed(const char *file, int line, const char *expr)
{
    fprintf(stderr, "wakegate: %s:%d: assertion failed: %s\n", file, line, expr);
    abort();
}

static _Noreturn void out_of_memory(void)
{
    static const char message[] = "wakegate: out of memory\n";

    if (write(STDERR_FILENO, message, sizeof(message) - 1) < 0)
        _exit(1);
    abort();
}

void *wg_xcalloc(size_t count, size_t size)
{
    void *ptr = calloc(count > 0 ? count : 1, size > 0 ? size : 1);

    if (ptr == NULL)
        out_of_memory();
    return ptr;
}

void *wg_xrealloc(void *ptr, size_t count, size_t size)
{
    void *moved = reallocarray(ptr, count > 0 ? count : 1, size > 0 ? size : 1);

    if (moved == NULL)
        out_of_memory();
    return moved;
}

char *wg_xstrdup(const char *text)
{
    return wg_xstrndup(text, strlen(text));
}

char *wg_xstrndup(const char *text, size_t len)
{
    char *copy = wg_xrealloc(NULL, len + 1, 1);

    if (len > 0)
        memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

char *wg_xasprintf(const char *format, ...)
{
    char *text = NULL;
    va_list args;

    va_start(args, format);
    int len = vasprintf(&text, format, args);
    va_end(args);
    if (len < 0 || text == NULL)
        out_of_memory();
    return text;
}

void wg_free_ptr(void *ptr_to_ptr)
{
    free(*(void **)ptr_to_ptr);
}

void wg_close_fd(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}
