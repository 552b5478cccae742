/* `wakegate serve`: the parts of a running instance, and who starts, reloads and ends them. All of it is the
 * main thread's, which runs the service loop. */
#pragma once

#include <event2/event.h>

#include "wakegate/admin.h"
#include "wakegate/proxy.h"

enum shutdown_phase {
    SHUTDOWN_NOT,    /* serving */
    SHUTDOWN_DELAY,  /* not ready any more, still accepting: load balancers are to notice */
    SHUTDOWN_DRAIN,  /* nothing new; what is held or runs is finished */
    SHUTDOWN_REFUSE, /* the grace is over: what is held is refused, streams are about to be cut */
    SHUTDOWN_LINGER, /* nothing runs; the last bytes are on their way */
    SHUTDOWN_DONE,   /* the loop ends */
};

struct server {
    const char *path; /* of the configuration */
    struct wg_config *config;
    atomic_bool ready;
    int *listen_fds;
    size_t n_listen_fds;
    int admin_fd;
    struct wg_config *started; /* with which it was: its listeners are those that run */
    uint64_t max_connections;  /* that the limit of open files allows */
    struct wg_timer watch;     /* over the keeper, twice a second */

    struct wg_loop *service, *control;
    struct wg_keeper *keeper;
    struct wg_fetch *fetch;
    struct wg_activator *activator;
    struct wg_thread *control_thread;
    struct wg_proxy *proxy;
    struct wg_admin *admin;
    struct event *signals[4];

    /* reload.c */
    struct wg_timer look; /* at the file, twice a second */
    struct wg_config_stamp {
        uint64_t device, inode, size;
        wg_usec modified;
    } loaded, seen;

    /* certificates.c */
    struct wg_tls_tickets *tickets;
    struct wg_tls_set *tls;   /* what the workers have */
    struct wg_timer renew;    /* looks at the files, twice a second */
    uint64_t renewed, moving; /* what the files looked like: when they were read; at the last look */

    /* shutdown.c */
    enum shutdown_phase phase;
    bool failed; /* the end is not asked for: the exit code tells a supervisor to start us again */
    wg_usec phase_ends;
    struct wg_timer tick;
};

/* The whole life of an instance; the exit code. */
int serve(const char *path);

void reload_init(struct server *server);
/* Reads the file and takes it over if it validates; says what happened in the log and counts it. */
void reload_now(struct server *server);
void reload_stop(struct server *server);

/* What all listeners present, by `config`: 0 and a set, or -EINVAL with one fault a line in `faults`. `was`
 * is kept for running listeners that the configuration does not have any more; NULL: at the start. */
WG_MUST_CHECK int certificates_make(const struct wg_config *running, const struct wg_config *config,
                                    struct wg_tls_tickets *tickets, const struct wg_tls_set *was,
                                    struct wg_tls_set **ret_set, struct wg_buf *faults);
/* What all the files look like, in one number. */
uint64_t certificates_look(const struct wg_config *config);
/* Takes the reference, and hands the set to the workers if they run. look: at the files, before they were
 * read. */
void certificates_take(struct server *server, struct wg_tls_set *set, uint64_t look);
/* Looks at the files from now on. */
void certificates_init(struct server *server);
void certificates_stop(struct server *server);

void shutdown_init(struct server *server);
/* The first signal begins, the second exits at once. */
void shutdown_signal(struct server *server, const char *name);
/* We cannot do our work any more: what runs is finished, then the exit code is 1. */
void shutdown_failed(struct server *server, const char *why);

/* files.c: descriptors. True if limits.maxConnections fits (RLIMIT_NOFILE is raised with `raise`). *ret_fits
 * says how many connections do; some descriptors are always kept back for the admin, model servers and wakes.
 */
bool files_fit(const struct wg_config *config, bool raise, uint64_t *ret_fits);
