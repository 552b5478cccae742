/* Files that the configuration is, and that it names. */
#pragma once

#include "wakegate/config.h"

/* Appends the whole file, which may be a pipe: 0, -EFBIG over the buffer's maximum, or -errno. */
WG_MUST_CHECK int file_read(const char *path, struct wg_buf *out);
/* A name that the configuration gives, counted from its folder; to be freed. */
char *file_beside(const char *config_path, const char *name);
/* NULL, or why the file cannot be read as a regular one. */
const char *file_unreadable(const char *path);
/* Reads a secret of one line out of a regular file of at most 4 KiB; a relative name counts from the folder
 * of `config_path`. Returns it trimmed, to be wiped by file_wipe; or NULL and what is wrong. */
char *file_read_secret(const char *config_path, const char *name, const char **ret_wrong);
/* NULL-safe, returns NULL. */
char *file_wipe(char *secret);
