/* An instance: its parts are made in the order in which they need each other, and ended in the reverse one.
 */
#include "serve.h"

#include "wakegate/base/log.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool load(struct server *server)
{
    struct wg_config_faults faults = {0};
    const int error = wg_config_load(server->path, &server->config, &faults);
    if (faults.text.len > 0)
        fputs(wg_buf_str(&faults.text), stderr);
    wg_config_faults_clear(&faults);
    return error == 0;
}

static bool load_certificates(struct server *server)
{
    struct wg_buf faults = WG_BUF_INIT(FAULTS_MAX);
    server->tickets = wg_tls_tickets_new();
    if (server->tickets)
        server->certificates = certificates_load(server->config, server->tickets, &faults);
    else
        wg_buf_add_str(&faults, "wakegate: no random bytes to be had\n");
    if (!server->certificates)
        fputs(wg_buf_str(&faults), stderr);
    wg_buf_clear(&faults);
    return server->certificates;
}

static void tell_port(int fd, const struct wg_address *address)
{
    const size_t len_text = strlen(address->text);
    if (len_text < 2 || strcmp(address->text + len_text - 2, ":0") != 0) {
        wg_info("main", NULL, "listening on %s", address->text);
        return;
    }
    struct sockaddr_storage at = {0};
    socklen_t len = sizeof(at);
    char port[8] = "?";
    if (getsockname(fd, (struct sockaddr *)&at, &len) == 0)
        getnameinfo((struct sockaddr *)&at, len, NULL, 0, port, sizeof(port), NI_NUMERICSERV);
    wg_info("main", NULL, "listening on %s, for which the system chose port %s", address->text, port);
}

static int listen_at(const struct wg_address *address)
{
    const int fd = wg_listen((const struct sockaddr *)&address->sa, address->len);
    if (fd < 0)
        wg_error("main", NULL, "cannot listen on %s: %s", address->text, strerror(-fd));
    else
        tell_port(fd, address);
    return fd;
}

static bool open_listeners(struct server *server)
{
    const struct wg_config *config = server->config;
    server->listen_fds = wg_xcalloc(config->n_listeners, sizeof(int));
    for (size_t i = 0; i < config->n_listeners; i++) {
        const int fd = listen_at(&config->listeners[i].address);
        if (fd < 0)
            return false;
        server->listen_fds[server->n_listen_fds++] = fd;
    }
    server->admin_fd = listen_at(&config->admin.address);
    return server->admin_fd >= 0;
}

static void check_files(struct server *server)
{
    if (!files_fit(server->config, true, &server->max_connections))
        wg_warn("main", NULL,
                "limits.maxConnections is %llu, but the limit of open files is enough for %llu: that is the "
                "limit now",
                (unsigned long long)server->config->limits.max_connections,
                (unsigned long long)server->max_connections);
}

/* ---- the keeper: without it no process can be started, and a new one cannot be forked beside threads ----
 */

#define WATCH_EVERY (500 * WG_USEC_PER_MSEC)

static void on_watch(struct wg_timer *timer)
{
    struct server *server = WG_CONTAINER_OF(timer, struct server, watch);
    if (!wg_keeper_alive(server->keeper))
        shutdown_failed(server, "the keeper of model processes has died");
    else
        wg_timer_set_after(&server->watch, WATCH_EVERY);
}

static void watch_keeper(struct server *server)
{
    wg_timer_init(&server->watch, server->service, on_watch);
    wg_timer_set_after(&server->watch, WATCH_EVERY);
}

/* ---- signals: the main thread's alone, every other thread blocks them ---- */

static void on_terminate(evutil_socket_t number, short what WG_UNUSED, void *arg)
{
    shutdown_signal(arg, number == SIGINT ? "SIGINT" : "SIGTERM");
}

static void on_hangup(evutil_socket_t number WG_UNUSED, short what WG_UNUSED, void *arg)
{
    struct server *server = arg;
    if (server->phase == SHUTDOWN_NOT)
        reload_now(server);
}

/* Logs go to standard error, whose file is somebody else's to reopen: the signal must only not end us. */
static void on_reopen(evutil_socket_t number WG_UNUSED, short what WG_UNUSED, void *arg WG_UNUSED)
{
    wg_info("main", NULL, "SIGUSR1: logging to standard error goes on");
}

static bool add_signals(struct server *server)
{
    static const struct {
        int number;
        event_callback_fn call;
    } table[] = {
        {SIGTERM, on_terminate},
        {SIGINT, on_terminate},
        {SIGHUP, on_hangup},
        {SIGUSR1, on_reopen},
    };
    static_assert(WG_COUNT_OF(table) == WG_COUNT_OF(server->signals), "one event a signal");
    for (size_t i = 0; i < WG_COUNT_OF(table); i++) {
        server->signals[i] =
            evsignal_new(wg_loop_base(server->service), table[i].number, table[i].call, server);
        if (!server->signals[i] || event_add(server->signals[i], NULL) < 0)
            return false;
    }
    return true;
}

/* ---- the parts ---- */

static void run_control(void *arg)
{
    wg_loop_run(arg);
}

static bool start_parts(struct server *server, struct wg_keeper_seat **seat)
{
    server->service = wg_loop_new();
    server->control = wg_loop_new();
    if (!server->service || !server->control || !add_signals(server))
        return false;
    server->keeper = wg_keeper_attach(*seat, server->service);
    *seat = NULL;
    server->fetch = wg_fetch_new(server->service);
    const struct wg_activator_env activator = {
        .control = server->control,
        .service = {.loop = server->service, .keeper = server->keeper, .fetch = server->fetch},
    };
    if (!server->keeper || !server->fetch || !(server->activator = wg_activator_new(&activator)))
        return false;
    struct wg_tls_set *tls = certificates_set(server->certificates);
    const struct wg_proxy_env proxy = {
        .activator = server->activator,
        .config = server->config,
        .listen_fds = server->listen_fds,
        .n_listen_fds = server->n_listen_fds,
        .tls = tls,
        .max_connections = server->max_connections,
    };
    const struct wg_admin_env admin = {
        .loop = server->service,
        .activator = server->activator,
        .config = server->config,
        .listen_fd = server->admin_fd,
        .ready = &server->ready,
    };
    const int error = wg_proxy_start(&proxy, &server->proxy);
    wg_tls_set_unref(tls);
    if (error < 0 || !(server->admin = wg_admin_new(&admin)))
        return false;
    wg_activator_configure(server->activator, server->config);
    return wg_thread_start("control", run_control, server->control, &server->control_thread) == 0;
}

static bool start(struct server *server, struct wg_keeper_seat **seat)
{
    errno = 0;
    if (start_parts(server, seat))
        return true;
    wg_error("main", NULL, "cannot start: %s", errno ? strerror(errno) : "out of memory or descriptors");
    return false;
}

static void stop_control(struct server *server)
{
    if (!server->control_thread)
        return;
    wg_loop_stop(server->control);
    server->control_thread = wg_thread_join(server->control_thread);
}

/* The workers go first, while control still runs: their tickets must come home. */
static void stop(struct server *server)
{
    server->proxy = wg_proxy_stop(server->proxy);
    stop_control(server);
    server->activator = wg_activator_free(server->activator);
    server->admin = wg_admin_free(server->admin);
    /* Model processes are waited for: a second signal ends us meanwhile, and the keeper kills them. */
    for (size_t i = 0; i < WG_COUNT_OF(server->signals); i++)
        if (server->signals[i])
            event_free(server->signals[i]);
    server->keeper = wg_keeper_free(server->keeper);
    server->fetch = wg_fetch_free(server->fetch);
    server->control = wg_loop_free(server->control);
    server->service = wg_loop_free(server->service);
    for (size_t i = 0; i < server->n_listen_fds; i++)
        close(server->listen_fds[i]);
    free(server->listen_fds);
    if (server->admin_fd >= 0)
        close(server->admin_fd);
    server->certificates = certificates_free(server->certificates);
    server->tickets = wg_tls_tickets_free(server->tickets);
    server->config = wg_config_unref(server->config);
}

int serve(const char *path)
{
    struct server server = {.path = path, .admin_fd = -1};
    struct wg_keeper_seat *seat = NULL;
    signal(SIGPIPE, SIG_IGN);
    /* Before any thread exists, and before any secret is read. */
    const int error = wg_keeper_fork(&seat);
    if (error < 0) {
        fprintf(stderr, "wakegate: cannot start the keeper of model processes: %s\n", strerror(-error));
        return 1;
    }
    int code = 1;
    if (load(&server)) {
        wg_log_configure(server.config->log.level, server.config->log.format);
        check_files(&server);
        if (load_certificates(&server) && open_listeners(&server) && start(&server, &seat)) {
            reload_init(&server);
            certificates_init(&server);
            shutdown_init(&server);
            watch_keeper(&server);
            atomic_store(&server.ready, true);
            wg_info("main", NULL, "ready; models: %zu, tenants: %zu", server.config->n_models,
                    server.config->n_tenants);
            wg_loop_run(server.service);
            wg_info("main", NULL, "bye");
            wg_timer_cancel(&server.watch);
            code = server.failed ? 1 : 0;
        }
    }
    stop(&server);
    wg_keeper_seat_free(seat);
    return code;
}
