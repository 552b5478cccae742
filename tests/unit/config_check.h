/* Parsing a configuration in a test, and looking at its faults. */
#pragma once

#include "unit.h"

#include <stdio.h>

#include "wakegate/config.h"

/* Must be right; warnings are thrown away. */
static inline struct wg_config *parse_good(const char *text)
{
    struct wg_config_faults faults = {0};
    struct wg_config *config = NULL;

    int r = wg_config_parse("test.yaml", wg_slice_str(text), &config, &faults);
    if (r != 0)
        print_error("%s", wg_buf_str(&faults.text));
    assert_int_equal(r, 0);
    assert_non_null(config);
    wg_config_faults_clear(&faults);
    return config;
}

/* Must be wrong; the faults, to be freed. */
static inline char *parse_bad(const char *text)
{
    struct wg_config_faults faults = {0};
    struct wg_config *config = NULL;

    assert_true(wg_config_parse("test.yaml", wg_slice_str(text), &config, &faults) < 0);
    assert_null(config);
    assert_true(faults.errors > 0);
    char *found = wg_xstrdup(wg_buf_str(&faults.text));
    wg_config_faults_clear(&faults);
    return found;
}

/* The warnings of a right one, to be freed. */
static inline char *warnings_of(const char *text)
{
    struct wg_config_faults faults = {0};
    struct wg_config *config = NULL;

    assert_int_equal(wg_config_parse("test.yaml", wg_slice_str(text), &config, &faults), 0);
    assert_int_equal(faults.errors, 0);
    wg_config_unref(config);
    char *found = wg_xstrdup(wg_buf_str(&faults.text));
    wg_config_faults_clear(&faults);
    return found;
}

/* True if one line of the faults begins like this. */
static inline bool has_fault(const char *faults, const char *line)
{
    for (const char *at = faults; (at = strstr(at, line)) != NULL; at++)
        if (at == faults || at[-1] == '\n')
            return true;
    return false;
}

#define assert_fault(faults, line)                                                                           \
    do {                                                                                                     \
        if (!has_fault(faults, line))                                                                        \
            fail_msg("no fault \"%s\" in:\n%s", line, faults);                                               \
    } while (0)
