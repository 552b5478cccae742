/* Faults as text, "FILE:LINE: key.path: what is wrong". What came from the file is escaped, so that a fault
 * is one line whatever was in it. */
#include "faults.h"

#include <stdarg.h>
#include <stdio.h>

enum {
    FAULTS_MAX = 200,
    FAULT_MAX_BYTES = 1024,
    TEXT_MAX_BYTES = FAULTS_MAX * FAULT_MAX_BYTES * 8, /* escapes take up to six bytes for one */
};

void wg_config_faults_clear(struct wg_config_faults *faults)
{
    wg_buf_clear(&faults->text);
    faults->errors = faults->warnings = 0;
}

static void add_plain(struct wg_buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c == 0x7f)
            wg_buf_addf(out, "\\x%02x", c);
        else
            wg_buf_add_char(out, *text);
    }
}

WG_PRINTF(6, 0)
static void add(struct wg_config_faults *faults, const char *file, unsigned line, const char *path,
                const char *kind, const char *format, va_list args)
{
    struct wg_buf *out = &faults->text;
    char what[FAULT_MAX_BYTES], where[FAULT_MAX_BYTES];

    if (out->max == 0)
        wg_buf_init(out, TEXT_MAX_BYTES);
    unsigned count = faults->errors + faults->warnings;
    if (count == FAULTS_MAX + 1)
        wg_buf_addf(out, "%.500s: further faults are not shown\n", file);
    if (count > FAULTS_MAX)
        return;
    if (line > 0)
        snprintf(where, sizeof(where), "%.500s:%u: ", file, line);
    else
        snprintf(where, sizeof(where), "%.500s: ", file);
    add_plain(out, where);
    if (path[0] != '\0') {
        snprintf(where, sizeof(where), "%.1000s: ", path);
        add_plain(out, where);
    }
    vsnprintf(what, sizeof(what), format, args);
    wg_buf_add_str(out, kind);
    add_plain(out, what);
    wg_buf_add_char(out, '\n');
}

void config_fault(struct wg_config_faults *faults, const char *file, unsigned line, const char *path,
                  const char *format, ...)
{
    va_list args;

    va_start(args, format);
    faults->errors++;
    add(faults, file, line, path, "", format, args);
    va_end(args);
}

void config_warning(struct wg_config_faults *faults, const char *file, unsigned line, const char *path,
                    const char *format, ...)
{
    va_list args;

    va_start(args, format);
    faults->warnings++;
    add(faults, file, line, path, "warning: ", format, args);
    va_end(args);
}
