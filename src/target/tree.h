/* One look at the processes of the machine: who descends from whom. A picture, old as soon as it is taken. */
#pragma once

#include <sys/types.h>

#include "wakegate/base/obj.h"

struct tree_process {
    pid_t pid, parent, group, session;
    uint64_t started; /* ticks since boot: with the pid, it names a process for good */
    bool alive;       /* not a zombie */
};

struct tree {
    struct tree_process *items; /* by pid */
    size_t n, cap;
};

/* 0 or -errno; what cannot be read is left out. */
WG_MUST_CHECK int tree_read(struct tree *ret_tree);
void tree_clear(struct tree *tree);
/* NULL if it is not in the picture. */
const struct tree_process *tree_find(const struct tree *tree, pid_t pid);
/* True if `process` is `root` or descends from it. */
bool tree_is_below(const struct tree *tree, const struct tree_process *process, pid_t root);
/* True if it is one of those that `leader` started as its session or group, or descends from one. */
bool tree_is_member(const struct tree *tree, const struct tree_process *process, pid_t leader);
