/* What a model process prints, line by line into our log. */
#pragma once

#include "wakegate/event.h"

struct output;

/* Takes the descriptor, which is nonblocking; `label` names the process in the log. */
struct output *output_new(struct wg_loop *loop, int fd, const char *label);
/* Reads what is there now, as far as one can without waiting for a process that prints for ever. NULL-safe.
 */
void output_drain(struct output *output);
/* The newest line that is not blank, made fit to stand in a message; "" if there is none. NULL-safe. */
const char *output_last_line(const struct output *output);
/* The newest three of them, oldest first, as "one | two | three" of at most 300 bytes. NULL-safe; free it. */
char *output_last_lines(const struct output *output);
/* Reads what is left, logs a last line without an end, and closes. NULL-safe, returns NULL. */
struct output *output_free(struct output *output);
