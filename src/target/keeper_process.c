/* The keeper: one process, one thread, one poll loop. Starts and stops process groups on orders, reaps
 * everybody, ends when it is told to and what it has has stopped, and on end of file kills all it has. What a
 * process is for, and when to stop it, is decided elsewhere. */
#include "keeper_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeper_spawn.h"
#include "wards.h"

enum {
    WARDS_MAX = 1024,
    SCAN_MSEC = 50,     /* between two looks at what is left of the dying */
    LAST_MSEC = 10,     /* the same at the end */
    LAST_ROUNDS = 1000, /* then what no SIGKILL ends is left to the system */
};

struct keeper {
    int socket, signals;
    struct wg_list wards;
    size_t n_wards;
    bool ending; /* no more orders come: ends when the last ward is gone */
    bool alone;  /* end of file: nobody is there any more, ends at once */
    struct pollfd fds[2 + WARDS_MAX];
    char packet[WIRE_MAX];
};

static void tell(struct keeper *keeper, const struct keeper_event *event, int fd)
{
    if (wire_send_event(keeper->socket, event, fd) < 0)
        keeper->alone = true;
}

static void tell_failed(struct keeper *keeper, uint64_t id, const char *what, int error)
{
    struct keeper_event event = {.kind = EVENT_START_FAILED, .id = id};
    snprintf(event.text, sizeof(event.text), "%.400s: %s", what, strerror(error));
    tell(keeper, &event, -1);
}

static void drop(struct keeper *keeper, struct ward *ward)
{
    keeper->n_wards--;
    ward_free(ward);
}

static void start(struct keeper *keeper, const struct order *order, const struct order_strings *strings)
{
    if (keeper->n_wards == WARDS_MAX) {
        tell_failed(keeper, order->id, strings->args[0], EAGAIN);
        return;
    }
    struct spawned spawned;
    const int error = spawn(order, strings, &spawned);
    if (error < 0) {
        tell_failed(keeper, order->id, strings->args[0], -error);
        return;
    }
    struct ward *ward = WG_NEW(struct ward);
    ward->id = order->id;
    ward->pid = spawned.pid;
    ward->output = spawned.output;
    ward->verdict = spawned.verdict;
    ward->name = wg_xstrdup(strings->args[0]);
    ward->dir = wg_xstrdup(strings->dir);
    wg_list_init(&ward->link);
    wg_list_append(&keeper->wards, &ward->link);
    keeper->n_wards++;
}

static void signal_all(struct keeper *keeper, struct ward *ward, int signal)
{
    struct tree tree = {0};
    if (tree_read(&tree) < 0)
        tree = (struct tree){0}; /* the group is reached all the same */
    ward_signal(&keeper->wards, ward, &tree, signal);
    tree_clear(&tree);
}

static void set_state(struct keeper *keeper, struct ward *ward, enum ward_state state)
{
    WG_ASSERT(state > ward->state);
    ward->state = state;
    /* Until exec it still ignores what we ignore. */
    if (state == WARD_KILLING || ward->verdict < 0)
        signal_all(keeper, ward, state == WARD_KILLING ? SIGKILL : SIGTERM);
}

/* Reads how exec went: it is known when the pipe is readable, or the process is dead. False: the ward is no
 * more. */
static bool settle_start(struct keeper *keeper, struct ward *ward)
{
    struct spawn_error error;
    ssize_t n;
    do
        n = read(ward->verdict, &error, sizeof(error));
    while (n < 0 && errno == EINTR);
    close(ward->verdict);
    ward->verdict = -1;
    if (n == (ssize_t)sizeof(error)) {
        char *what = error.in_dir ? wg_xasprintf("working directory %s", ward->dir) : wg_xstrdup(ward->name);
        tell_failed(keeper, ward->id, what, error.error);
        free(what);
        drop(keeper, ward);
        return false;
    }
    const struct keeper_event event = {.kind = EVENT_STARTED, .id = ward->id, .pid = ward->pid};
    tell(keeper, &event, ward->output);
    close(ward->output);
    ward->output = -1;
    if (ward->state == WARD_STOPPING)
        signal_all(keeper, ward, SIGTERM);
    return true;
}

static void stop(struct keeper *keeper, const struct order *order)
{
    struct ward *ward = wards_by_id(&keeper->wards, order->id);
    if (!ward || ward->state == WARD_KILLING) /* its end is on the way to who asks */
        return;
    const wg_usec deadline = wg_usec_add(wg_clock_monotonic(), order->patience);
    ward->deadline = ward->state == WARD_STOPPING ? WG_MIN(ward->deadline, deadline) : deadline;
    if (ward->state == WARD_RUNNING)
        set_state(keeper, ward, WARD_STOPPING);
}

static void begin_end(struct keeper *keeper)
{
    keeper->ending = true;
    wg_list_foreach_safe (node, &keeper->wards) {
        struct ward *ward = WG_LIST_ENTRY(node, struct ward, link);
        if (ward->state == WARD_RUNNING)
            set_state(keeper, ward, WARD_KILLING);
    }
}

static void take_order(struct keeper *keeper)
{
    const ssize_t len = recv(keeper->socket, keeper->packet, sizeof(keeper->packet), 0);
    if (len < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (len <= 0) {
        keeper->alone = true;
        return;
    }
    struct order order;
    struct order_strings strings;
    if (wire_unpack_order(keeper->packet, (size_t)len, &order, &strings) < 0)
        return;
    switch ((enum order_kind)order.kind) {
    case ORDER_START:
        start(keeper, &order, &strings);
        break;
    case ORDER_STOP:
        stop(keeper, &order);
        break;
    case ORDER_END:
        begin_end(keeper);
        break;
    }
    free(strings.args);
    free(strings.env);
}

static void on_main_exit(struct keeper *keeper, struct ward *ward, int status)
{
    ward->reaped = true;
    const struct keeper_event event = {.kind = EVENT_EXITED, .id = ward->id, .status = status};
    tell(keeper, &event, -1);
}

/* Reaps whoever has ended: our own and the orphans that came to us. */
static void reap(struct keeper *keeper)
{
    siginfo_t info = {0};
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
        struct ward *ward = wards_by_pid(&keeper->wards, info.si_pid);
        if (ward && ward->verdict >= 0 && !settle_start(keeper, ward))
            ward = NULL;
        /* One that ends by itself takes the rest with it; one that was asked to leaves the rest its time. */
        if (ward && ward->state == WARD_RUNNING)
            set_state(keeper, ward, WARD_KILLING);
        int status;
        waitpid(info.si_pid, &status, 0);
        if (ward)
            on_main_exit(keeper, ward, status);
        info.si_pid = 0;
    }
}

static bool is_dying(const struct ward *ward)
{
    return ward->state == WARD_KILLING || (ward->state == WARD_STOPPING && ward->reaped);
}

/* Looks at what is left of the dying: kills whose time is over, and tells who is gone. */
static void look_after_dying(struct keeper *keeper)
{
    struct tree tree = {0};
    const wg_usec now = wg_clock_monotonic();
    wg_list_foreach_safe (node, &keeper->wards) {
        struct ward *ward = WG_LIST_ENTRY(node, struct ward, link);
        if (ward->state == WARD_STOPPING && now >= ward->deadline)
            set_state(keeper, ward, WARD_KILLING);
        if (!is_dying(ward) || (tree.n == 0 && tree_read(&tree) < 0))
            continue;
        const int signal = ward->state == WARD_KILLING ? SIGKILL : 0;
        if (ward_signal(&keeper->wards, ward, &tree, signal) > 0 || !ward->reaped)
            continue;
        const struct keeper_event event = {.kind = EVENT_GONE, .id = ward->id};
        tell(keeper, &event, -1);
        drop(keeper, ward);
    }
    tree_clear(&tree);
}

/* How long to sleep in poll. */
static int patience(struct keeper *keeper)
{
    wg_usec wait = WG_USEC_NEVER;
    const wg_usec now = wg_clock_monotonic();
    wg_list_foreach (node, &keeper->wards) {
        const struct ward *ward = WG_LIST_ENTRY(node, struct ward, link);
        if (is_dying(ward))
            wait = WG_MIN(wait, SCAN_MSEC * WG_USEC_PER_MSEC);
        if (ward->state == WARD_STOPPING)
            wait = WG_MIN(wait, WG_MAX(ward->deadline - now, 0));
    }
    return wait == WG_USEC_NEVER ? -1 : (int)WG_MIN(wg_usec_to_msec(wait), 60 * 1000);
}

static void drain_signals(struct keeper *keeper)
{
    struct signalfd_siginfo infos[16];
    while (read(keeper->signals, infos, sizeof(infos)) > 0)
        ;
}

static void settle_starts(struct keeper *keeper, const struct pollfd *fds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (fds[i].revents == 0)
            continue;
        wg_list_foreach_safe (node, &keeper->wards) {
            struct ward *ward = WG_LIST_ENTRY(node, struct ward, link);
            if (ward->verdict == fds[i].fd)
                settle_start(keeper, ward);
        }
    }
}

static void turn(struct keeper *keeper)
{
    struct pollfd *fds = keeper->fds;
    size_t n = 2;
    fds[0] = (struct pollfd){.fd = keeper->socket, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = keeper->signals, .events = POLLIN};
    wg_list_foreach (node, &keeper->wards) {
        const struct ward *ward = WG_LIST_ENTRY(node, struct ward, link);
        if (ward->verdict >= 0)
            fds[n++] = (struct pollfd){.fd = ward->verdict, .events = POLLIN};
    }
    if (poll(fds, n, patience(keeper)) < 0)
        return;
    settle_starts(keeper, fds + 2, n - 2);
    if (fds[1].revents != 0)
        drain_signals(keeper);
    reap(keeper);
    look_after_dying(keeper);
    if (fds[0].revents != 0)
        take_order(keeper);
}

/* True if nobody is left. */
static bool kill_round(struct keeper *keeper)
{
    const pid_t self = getpid();
    struct tree tree;
    if (tree_read(&tree) == 0) {
        for (size_t i = 0; i < tree.n; i++)
            if (tree.items[i].pid != self && tree_is_below(&tree, &tree.items[i], self))
                kill(tree.items[i].pid, SIGKILL);
        tree_clear(&tree);
    }
    drain_signals(keeper);
    pid_t pid;
    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
        ;
    return pid < 0 && errno == ECHILD;
}

static _Noreturn void end(struct keeper *keeper)
{
    wg_list_foreach (node, &keeper->wards) {
        const struct ward *ward = WG_LIST_ENTRY(node, struct ward, link);
        if (!ward->reaped)
            kill(-ward->pid, SIGKILL);
    }
    for (int round = 0; round < LAST_ROUNDS && !kill_round(keeper); round++) {
        struct pollfd fd = {.fd = keeper->signals, .events = POLLIN};
        poll(&fd, 1, LAST_MSEC);
    }
    _exit(0);
}

/* A terminal's Ctrl-C, or a signal to all of a service, must not end us before who gives the orders is done.
 */
static int set_signals(void)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2, SIGTSTP};
    const struct sigaction ignore = {.sa_handler = SIG_IGN}, dfl = {.sa_handler = SIG_DFL};
    for (size_t i = 0; i < WG_COUNT_OF(ignored); i++)
        sigaction(ignored[i], &ignore, NULL);
    sigaction(SIGCHLD, &dfl, NULL);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    return signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* Keeps the socket, and 0, 1 and 2 open (on something, so that no pipe gets such a number). */
static int settle_descriptors(int socket)
{
    int null;
    while ((null = open("/dev/null", O_RDWR)) >= 0 && null <= STDERR_FILENO)
        ;
    dup2(null, STDIN_FILENO);
    if (socket <= STDERR_FILENO)
        socket = fcntl(socket, F_DUPFD, 3);
    if (socket != 3)
        socket = dup3(socket, 3, O_CLOEXEC);
    fcntl(socket, F_SETFD, FD_CLOEXEC);
    close_range(4, ~0U, 0);
    return socket;
}

_Noreturn void keeper_process(int socket)
{
    struct keeper *keeper = WG_NEW(struct keeper);
    wg_list_init(&keeper->wards);
    prctl(PR_SET_NAME, "wakegate-keeper");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    setsid();
    keeper->socket = settle_descriptors(socket);
    keeper->signals = set_signals();
    if (keeper->socket < 0 || keeper->signals < 0)
        _exit(1);
    while (!keeper->alone && !(keeper->ending && keeper->n_wards == 0))
        turn(keeper);
    end(keeper);
}
