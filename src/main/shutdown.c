/* The end of an instance, step by step: not ready, drain, refuse, linger, done. What wakes models keeps
 * running until the last step, so that those who are held are still served. */
#include "serve.h"

#include "wakegate/base/log.h"

#include <unistd.h>

#define TICK        (20 * WG_USEC_PER_MSEC)
#define REFUSE_MOST (2 * WG_USEC_PER_SEC)
#define LINGER_MOST (1500 * WG_USEC_PER_MSEC)

/* The one place where the phase changes. */
static void set_phase(struct server *server, enum shutdown_phase phase)
{
    const struct wg_config *config = server->config;
    wg_usec length = 0;
    WG_ASSERT(phase > server->phase);
    server->phase = phase;
    switch (phase) {
    case SHUTDOWN_NOT:
        break;
    case SHUTDOWN_DELAY:
        atomic_store(&server->ready, false);
        reload_stop(server);
        certificates_stop(server);
        length = config->shutdown.delay;
        break;
    case SHUTDOWN_DRAIN:
        wg_proxy_drain(server->proxy);
        wg_info("main", NULL, "shutting down: %u requests are finished first",
                wg_proxy_requests(server->proxy));
        length = config->shutdown.grace;
        break;
    case SHUTDOWN_REFUSE:
        wg_warn("main", NULL, "the grace is over: %u requests are refused or cut",
                wg_proxy_requests(server->proxy));
        wg_activator_shut(server->activator);
        length = REFUSE_MOST;
        break;
    case SHUTDOWN_LINGER:
        length = LINGER_MOST;
        break;
    case SHUTDOWN_DONE:
        wg_loop_stop(server->service);
        return;
    }
    server->phase_ends = wg_usec_add(wg_loop_now(server->service), length);
}

static void step(struct server *server)
{
    const bool over = wg_loop_now(server->service) >= server->phase_ends;
    const bool idle = wg_proxy_requests(server->proxy) == 0;
    switch (server->phase) {
    case SHUTDOWN_DELAY:
        if (over)
            set_phase(server, SHUTDOWN_DRAIN);
        break;
    case SHUTDOWN_DRAIN:
        if (idle)
            set_phase(server, SHUTDOWN_LINGER);
        else if (over)
            set_phase(server, SHUTDOWN_REFUSE);
        break;
    case SHUTDOWN_REFUSE:
        if (idle || over)
            set_phase(server, SHUTDOWN_LINGER);
        break;
    case SHUTDOWN_LINGER:
        if (over || wg_proxy_connections(server->proxy) == 0)
            set_phase(server, SHUTDOWN_DONE);
        break;
    case SHUTDOWN_NOT:
    case SHUTDOWN_DONE:
        break;
    }
}

static void on_tick(struct wg_timer *timer)
{
    struct server *server = WG_CONTAINER_OF(timer, struct server, tick);
    step(server);
    if (server->phase != SHUTDOWN_DONE)
        wg_timer_set_after(&server->tick, TICK);
}

void shutdown_init(struct server *server)
{
    wg_timer_init(&server->tick, server->service, on_tick);
}

void shutdown_signal(struct server *server, const char *name)
{
    if (server->phase != SHUTDOWN_NOT) {
        wg_warn("main", NULL, "%s again: exiting at once", name);
        _exit(1); /* the keeper sees the end of its socket and leaves no model process behind */
    }
    wg_info("main", NULL, "%s: shutting down", name);
    set_phase(server, SHUTDOWN_DELAY);
    wg_timer_set_after(&server->tick, 0);
}

void shutdown_failed(struct server *server, const char *why)
{
    if (server->phase != SHUTDOWN_NOT)
        return;
    wg_error("main", NULL, "%s: what runs is finished, then this ends, to be started again", why);
    server->failed = true;
    set_phase(server, SHUTDOWN_DELAY);
    wg_timer_set_after(&server->tick, 0);
}
