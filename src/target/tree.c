/* Reads /proc/PID/stat of all processes and answers questions about descent. */
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    TREE_MAX = 1 << 20, /* processes */
    DEPTH_MAX = 4096,   /* generations; a torn picture may even hold a circle */
};

static bool read_stat(int proc, const char *name, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof(path), "%.32s/stat", name);
    WG_AUTO_CLOSE int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const ssize_t len = read(fd, text, size - 1);
    if (len <= 0)
        return false;
    text[len] = '\0';
    return true;
}

/* "PID (name, with anything in it) STATE PPID PGRP SESSION …"; the number of threads is field 20, the
 * start 22. */
static bool parse_stat(const char *text, struct tree_process *ret_process)
{
    struct tree_process process = {0};
    char state;
    long threads;
    unsigned long long started;
    const char *behind_name = strrchr(text, ')');
    if (!behind_name || sscanf(text, "%d", &process.pid) != 1)
        return false;
    if (sscanf(behind_name + 1,
               " %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu", &state,
               &process.parent, &process.group, &process.session, &threads, &started) != 6)
        return false;
    process.started = started;
    /* A leader that has ended is shown as a zombie even while other threads of its process run. */
    process.alive = (state != 'Z' && state != 'X') || threads > 1;
    *ret_process = process;
    return true;
}

static void add(struct tree *tree, const struct tree_process *process)
{
    if (tree->n == tree->cap) {
        tree->cap = WG_MAX(tree->cap * 2, (size_t)256);
        tree->items = wg_xrealloc(tree->items, tree->cap, sizeof(tree->items[0]));
    }
    tree->items[tree->n++] = *process;
}

static int by_pid(const void *a, const void *b)
{
    const struct tree_process *x = a, *y = b;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

int tree_read(struct tree *ret_tree)
{
    struct tree tree = {0};
    DIR *dir = opendir("/proc");
    if (!dir)
        return -errno;
    const struct dirent *entry;
    while (tree.n < TREE_MAX && (entry = readdir(dir))) {
        char text[1024];
        struct tree_process process;
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
            read_stat(dirfd(dir), entry->d_name, text, sizeof(text)) && parse_stat(text, &process))
            add(&tree, &process);
    }
    closedir(dir);
    if (tree.n > 0)
        qsort(tree.items, tree.n, sizeof(tree.items[0]), by_pid);
    *ret_tree = tree;
    return 0;
}

void tree_clear(struct tree *tree)
{
    free(tree->items);
    *tree = (struct tree){0};
}

const struct tree_process *tree_find(const struct tree *tree, pid_t pid)
{
    const struct tree_process key = {.pid = pid};
    return tree->n > 0 ? bsearch(&key, tree->items, tree->n, sizeof(key), by_pid) : NULL;
}

bool tree_is_below(const struct tree *tree, const struct tree_process *process, pid_t root)
{
    for (int depth = 0; process && depth < DEPTH_MAX; depth++) {
        if (process->pid == root)
            return true;
        process = tree_find(tree, process->parent);
    }
    return false;
}

bool tree_is_member(const struct tree *tree, const struct tree_process *process, pid_t leader)
{
    for (int depth = 0; process && depth < DEPTH_MAX; depth++) {
        if (process->pid == leader || process->group == leader || process->session == leader)
            return true;
        process = tree_find(tree, process->parent);
    }
    return false;
}
