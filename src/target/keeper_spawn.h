/* The keeper's side of a new process: from fork to exec. */
#pragma once

#include "keeper_wire.h"

struct spawned {
    pid_t pid;
    int output;  /* read end of its standard output and error */
    int verdict; /* read end: end of file when exec has worked, or a spawn_error */
};

/* What went wrong in the child before exec, and where. */
struct spawn_error {
    int error;
    bool in_dir; /* entering the working directory, not exec */
};

/* Every child carries this in its environment, with the keeper's pid and the order's id behind it: whoever
 * left its group and lost its parents is still known by it. */
#define SPAWN_MARK "WAKEGATE_INSTANCE="

/* 0 or -errno. The child has a session of its own, default signals, /dev/null to read, and nothing open but
 * that and its output; it dies with the keeper. */
WG_MUST_CHECK int spawn(const struct order *order, const struct order_strings *strings,
                        struct spawned *ret_spawned);
