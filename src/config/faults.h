/* Collecting what is wrong with a configuration, a line each, up to a maximum. */
#pragma once

#include "wakegate/config.h"

/* path may be ""; line 0 leaves the line out. */
void config_fault(struct wg_config_faults *faults, const char *file, unsigned line, const char *path,
                  const char *format, ...) WG_PRINTF(5, 6);
void config_warning(struct wg_config_faults *faults, const char *file, unsigned line, const char *path,
                    const char *format, ...) WG_PRINTF(5, 6);
