/* A configuration as YAML again. */
#pragma once

#include "options.h"

enum { PRINT_MAX = 64 * 1024 * 1024 };

/* One option with all that is under it; base: the struct that it belongs to. reveal: secrets too, for
 * comparing. */
void print_option(struct wg_buf *out, const struct option *option, const void *base, bool reveal);
/* The same, but only what a reload does not change. */
void print_lasting(struct wg_buf *out, const struct option *option, const void *base);
/* Clears a buffer that secrets were printed into. */
void print_wipe(struct wg_buf *out);
