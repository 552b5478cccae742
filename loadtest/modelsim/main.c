/* modelsim's own life: options, the wrapper's fork, the closed port, the load, signals, the end. */
#include "modelsim.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/bufferevent.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct timeval after(double seconds)
{
    long usec = (long)(seconds * 1e6);
    return (struct timeval){.tv_sec = usec / 1000000, .tv_usec = usec % 1000000};
}

void sim_load(struct sim *sim, double seconds)
{
    if (seconds <= 0) {
        event_del(sim->phase_timer);
        sim->phase = PHASE_READY;
        puts("modelsim: loaded");
        return;
    }
    sim->phase = PHASE_LOADING;
    puts("modelsim: loading");
    struct timeval tv = after(seconds);
    event_add(sim->phase_timer, &tv);
}

static void on_phase(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct sim *sim = arg;
    if (sim->phase != PHASE_CLOSED) {
        sim_load(sim, 0);
        return;
    }
    if (!sim_listen(sim)) {
        fprintf(stderr, "modelsim: cannot listen on %s:%d: %s\n", sim->options.host, sim->options.port,
                strerror(errno));
        exit(1);
    }
    if (sim->options.asleep)
        sim->phase = PHASE_ASLEEP;
    else
        sim_load(sim, sim->options.load);
}

static struct bufferevent *on_connection(struct event_base *base, void *arg)
{
    struct sim *sim = arg;
    sim->stats.connections++;
    return bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
}

bool sim_listen(struct sim *sim)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)sim->options.port)};
    if (inet_pton(AF_INET, sim->options.host, &at.sin_addr) != 1) {
        errno = EINVAL;
        return false;
    }
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    socklen_t len = sizeof at;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) < 0 ||
        bind(fd, (struct sockaddr *)&at, len) < 0 || listen(fd, 4096) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) < 0 || evhttp_accept_socket(sim->http, fd) < 0) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        errno = error;
        return false;
    }
    printf("modelsim: listening on %s:%d\n", sim->options.host, ntohs(at.sin_port));
    return true;
}

static void on_end(evutil_socket_t signal, short what, void *arg)
{
    (void)signal;
    (void)what;
    event_base_loopexit(((struct sim *)arg)->base, NULL);
}

static void on_exit_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    const struct sim *sim = arg;
    int code = sim->options.exit_code > 0 ? sim->options.exit_code : 0;
    printf("modelsim: exits with %d on order\n", code);
    exit(code);
}

/* The wrapper: waits for its child and dies of a SIGTERM without telling it, as a plain shell script does. */
static void fork_wrapper(void)
{
    pid_t child = fork();
    if (child == 0)
        return;
    int status = 1;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static bool sim_open(struct sim *sim)
{
    sim->base = event_base_new();
    sim->http = sim->base != NULL ? evhttp_new(sim->base) : NULL;
    if (sim->http == NULL)
        return false;
    evhttp_set_gencb(sim->http, sim_handle, sim);
    evhttp_set_bevcb(sim->http, on_connection, sim);
    evhttp_set_max_body_size(sim->http, SIM_MAX_BODY);
    struct timeval idle = after(sim->options.keep_alive);
    evhttp_set_timeout_tv(sim->http, &idle);
    sim->phase_timer = evtimer_new(sim->base, on_phase, sim);
    sim->exit_timer = evtimer_new(sim->base, on_exit_timer, sim);
    sim->on_int = evsignal_new(sim->base, SIGINT, on_end, sim);
    event_add(sim->on_int, NULL);
    if (sim->options.ignore_term) {
        signal(SIGTERM, SIG_IGN);
    } else {
        sim->on_term = evsignal_new(sim->base, SIGTERM, on_end, sim);
        event_add(sim->on_term, NULL);
    }
    if (sim->options.log[0] != '\0' && (sim->log = fopen(sim->options.log, "ae")) == NULL) {
        fprintf(stderr, "modelsim: cannot open %s: %s\n", sim->options.log, strerror(errno));
        return false;
    }
    struct timeval closed = after(sim->options.port_closed);
    event_add(sim->phase_timer, &closed);
    if (sim->options.exit_after > 0) {
        struct timeval end = after(sim->options.exit_after);
        event_add(sim->exit_timer, &end);
    }
    return true;
}

static struct sim *sim_close(struct sim *sim)
{
    if (sim->http != NULL)
        evhttp_free(sim->http); /* drops its connections, and with them the jobs */
    struct event *events[] = {sim->phase_timer, sim->exit_timer, sim->on_term, sim->on_int};
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
        if (events[i] != NULL)
            event_free(events[i]);
    }
    if (sim->base != NULL)
        event_base_free(sim->base);
    sim_journal_clear(sim);
    if (sim->log != NULL)
        fclose(sim->log);
    free(sim);
    return NULL;
}

int main(int argc, char **argv)
{
    struct sim *sim = calloc(1, sizeof *sim);
    if (sim == NULL)
        return 1;
    int parsed = sim_options_parse(&sim->options, argc, argv);
    if (parsed != 0) {
        free(sim);
        return parsed < 0 ? 2 : 0;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    if (sim->options.fork)
        fork_wrapper();
    raise_descriptors();
    bool ok = sim_open(sim);
    if (ok)
        event_base_dispatch(sim->base);
    sim_close(sim);
    return ok ? 0 : 1;
}
