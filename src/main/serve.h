/* `wakegate serve`: the parts of a running instance, and who starts, reloads and ends them. All of it is the
 * main thread's, which runs the service loop. */
#pragma once

#include <event2/event.h>

#include "wakegate/admin.h"
#include "wakegate/proxy.h"

/* Bytes of what is said about wrong files. */
enum { FAULTS_MAX = 1024 * 1024 };

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
    uint64_t max_connections; /* that the limit of open files allows */
    struct wg_timer watch;    /* over the keeper, twice a second */

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
    unsigned looks_ago;   /* that the file was read and was wrong; 0: it was right */
    struct wg_config_stamp {
        uint64_t device, inode, size;
        wg_usec modified;
    } loaded, seen;

    /* certificates.c */
    struct wg_tls_tickets *tickets;
    struct certificates *certificates; /* of the listening sockets, in their order */
    struct wg_timer renew;             /* looks at the files, twice a second */

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

/* What the listeners of a configuration present, read from its files. NULL: `faults` has one a line. tickets
 * are borrowed. */
struct certificates *certificates_load(struct wg_config *config, struct wg_tls_tickets *tickets,
                                       struct wg_buf *faults);
struct certificates *certificates_free(struct certificates *certificates);
/* The same for the workers. */
struct wg_tls_set *certificates_set(const struct certificates *certificates);
/* What was loaded is handed to the workers, as far as there are listeners at its addresses; a listener whose
 * address it does not have keeps what it presents. */
void certificates_take(struct server *server, struct certificates *loaded);
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
