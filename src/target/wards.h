/* What the keeper has: one ward for each process that it was ordered to start, until nothing of it is left.
 */
#pragma once

#include "keeper_wire.h"
#include "tree.h"
#include "wakegate/base/list.h"

enum ward_state {
    WARD_RUNNING,  /* as it likes */
    WARD_STOPPING, /* got SIGTERM; has until `deadline` */
    WARD_KILLING,  /* gets SIGKILL, all of it, until nothing is left */
};

/* A process that was once seen in a ward: known even when its parents are gone. */
struct ward_member {
    pid_t pid;
    uint64_t started;
};

struct ward {
    struct wg_list link;
    uint64_t id;
    pid_t pid; /* the main process; its session and group too */
    enum ward_state state;
    bool reaped; /* the main process is gone */
    int output;  /* to be handed over when it has started; else -1 */
    int verdict; /* of exec, while that is not known; else -1 */
    char *name;  /* of the program, for errors */
    char *dir;
    wg_usec deadline; /* WARD_STOPPING */
    struct ward_member *members;
    size_t n_members, members_cap;
};

void ward_free(struct ward *ward);
struct ward *wards_by_pid(struct wg_list *wards, pid_t pid);
struct ward *wards_by_id(struct wg_list *wards, uint64_t id);
/* Signals every living process of the ward, each once. How many the picture shows, zombies too; they are
 * remembered. signal 0: only counts. */
size_t ward_signal(struct wg_list *wards, struct ward *ward, const struct tree *tree, int signal);
