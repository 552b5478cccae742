/* Catches what is logged, in a file of its own. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "wakegate/base/log.h"

static int log_capture_fd = -1;

static inline void log_capture_begin(void)
{
    log_capture_fd = memfd_create("log", MFD_CLOEXEC);
    wg_log_set_fd(log_capture_fd);
}

/* All so far; free it. */
static inline char *log_capture_text(void)
{
    const off_t len = lseek(log_capture_fd, 0, SEEK_END);
    char *text = calloc(1, (size_t)len + 1);
    if (!text || pread(log_capture_fd, text, (size_t)len, 0) != len)
        abort();
    return text;
}

static inline bool log_capture_has(const char *part)
{
    char *text = log_capture_text();
    const bool has = strstr(text, part) != NULL;
    free(text);
    return has;
}

static inline void log_capture_end(void)
{
    wg_log_set_fd(STDERR_FILENO);
    close(log_capture_fd);
    log_capture_fd = -1;
}
