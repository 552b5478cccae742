/* Tells which process belongs to which ward, also when it has left its group, its session and its parents. */
#include "wards.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "keeper_spawn.h"

enum { MEMBERS_MAX = 4096, ENVIRON_MAX = 128 * 1024 };

void ward_free(struct ward *ward)
{
    if (!ward)
        return;
    wg_list_remove(&ward->link);
    if (ward->output >= 0)
        close(ward->output);
    if (ward->verdict >= 0)
        close(ward->verdict);
    free(ward->members);
    free(ward->name);
    free(ward->dir);
    free(ward);
}

struct ward *wards_by_pid(struct wg_list *wards, pid_t pid)
{
    wg_list_foreach (node, wards) {
        struct ward *ward = WG_LIST_ENTRY(node, struct ward, link);
        if (ward->pid == pid && !ward->reaped)
            return ward;
    }
    return NULL;
}

struct ward *wards_by_id(struct wg_list *wards, uint64_t id)
{
    wg_list_foreach (node, wards) {
        struct ward *ward = WG_LIST_ENTRY(node, struct ward, link);
        if (ward->id == id)
            return ward;
    }
    return NULL;
}

static bool remembers(const struct ward *ward, const struct tree_process *process)
{
    for (size_t i = 0; i < ward->n_members; i++)
        if (ward->members[i].pid == process->pid && ward->members[i].started == process->started)
            return true;
    return false;
}

static void remember(struct ward *ward, const struct tree_process *process)
{
    if (remembers(ward, process) || ward->n_members == MEMBERS_MAX)
        return;
    if (ward->n_members == ward->members_cap) {
        ward->members_cap = WG_MAX(ward->members_cap * 2, (size_t)16);
        ward->members = wg_xrealloc(ward->members, ward->members_cap, sizeof(ward->members[0]));
    }
    ward->members[ward->n_members++] = (struct ward_member){.pid = process->pid, .started = process->started};
}

/* The mark that its first ancestor was born with, if it has kept its environment. */
static bool is_marked(const struct tree_process *process, const char *mark)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/environ", process->pid);
    WG_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    WG_AUTO_FREE char *text = wg_xcalloc(ENVIRON_MAX, 1);
    size_t len = 0;
    ssize_t n;
    while (len < ENVIRON_MAX - 1 && (n = read(fd, text + len, ENVIRON_MAX - 1 - len)) > 0)
        len += (size_t)n;
    for (const char *at = text; at < text + len; at += strlen(at) + 1)
        if (strcmp(at, mark) == 0)
            return true;
    return false;
}

/* The one of its ancestors, or itself, that is our own child. */
static const struct tree_process *top_of(const struct tree *tree, const struct tree_process *process)
{
    const pid_t self = getpid();
    while (process && process->parent != self)
        process = tree_find(tree, process->parent);
    return process;
}

/* An orphan came to us because some parent of it died. */
static bool is_orphan_of(struct wg_list *wards, const struct ward *ward, const struct tree_process *orphan)
{
    if (remembers(ward, orphan))
        return true;
    wg_list_foreach (node, wards)
        if (remembers(WG_LIST_ENTRY(node, struct ward, link), orphan))
            return false;
    char mark[sizeof(SPAWN_MARK) + 48];
    snprintf(mark, sizeof(mark), SPAWN_MARK "%d.%llu", getpid(), (unsigned long long)ward->id);
    return is_marked(orphan, mark) || wards->next->next == wards; /* the only ward there is */
}

static bool is_in_ward(struct wg_list *wards, const struct ward *ward, const struct tree *tree,
                       const struct tree_process *process)
{
    const pid_t self = getpid();
    if (process->pid == self || !tree_is_below(tree, process, self))
        return false;
    if (tree_is_member(tree, process, ward->pid) || remembers(ward, process))
        return true;
    wg_list_foreach (node, wards) {
        const struct ward *other = WG_LIST_ENTRY(node, struct ward, link);
        if (other != ward && tree_is_member(tree, process, other->pid))
            return false;
    }
    const struct tree_process *top = top_of(tree, process);
    return top && is_orphan_of(wards, ward, top);
}

size_t ward_signal(struct wg_list *wards, struct ward *ward, const struct tree *tree, int signal)
{
    /* Until its leader is reaped, the number of the group cannot be somebody else's. */
    const bool whole_group = signal != 0 && !ward->reaped && kill(-ward->pid, signal) == 0;
    size_t n = 0;
    for (size_t i = 0; i < tree->n; i++) {
        const struct tree_process *process = &tree->items[i];
        if (!is_in_ward(wards, ward, tree, process))
            continue;
        remember(ward, process);
        n++;
        if (!process->alive)
            continue;
        /* Never twice: many servers take a second SIGTERM for impatience. */
        if (signal != 0 && !(whole_group && process->group == ward->pid))
            kill(process->pid, signal);
    }
    return n;
}
