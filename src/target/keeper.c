/* Our side of the keeper: sends orders without ever waiting for it, and hands its news to whose process it
 * is. */
#include "keeper.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeper_process.h"
#include "keeper_wire.h"
#include "wakegate/base/log.h"

#define KEEPER_MAGIC 0x6ee9e401
#define CHILD_MAGIC  0x6ee9e402

enum {
    END_USEC = WG_USEC_PER_SEC,  /* for the keeper to end, when all that it has should be gone */
    REAP_USEC = WG_USEC_PER_SEC, /* as PID 1, orphans that are not the keeper's come to us */
};

struct wg_keeper_seat {
    int socket;
    pid_t pid;
};

struct wg_keeper {
    uint32_t magic;
    struct wg_loop *loop;
    int socket; /* -1: the keeper is dead */
    pid_t pid;
    struct event *readable, *writable;
    struct wg_list orders;   /* packets that the socket had no room for; at most two a child */
    struct wg_list children; /* keeper_child.link */
    struct wg_timer reaper;  /* only as PID 1, or a subreaper */
    uint64_t last_id;
    wg_usec stopped_by; /* when the last of those told to stop is gone, or killed */
};

struct keeper_child {
    uint32_t magic;
    struct wg_list link; /* wg_keeper.children */
    struct wg_keeper *keeper;
    uint64_t id;
    pid_t pid; /* 0 until started */
    bool stopping, exited;
    uint16_t port;
    char *label;
    const struct keeper_child_handler *handler;
    void *arg;
};

/* A packet that waits for room. */
struct pending_order {
    struct wg_list link; /* wg_keeper.orders */
    struct wg_buf packet;
};

int wg_keeper_fork(struct wg_keeper_seat **ret_seat)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    /* What comes before it has made up its mind about signals must wait. */
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    const pid_t pid = fork();
    const int error = -errno;
    if (pid != 0)
        sigprocmask(SIG_SETMASK, &before, NULL);
    if (pid < 0) {
        close(pair[0]);
        close(pair[1]);
        return error;
    }
    if (pid == 0) {
        close(pair[0]);
        keeper_process(pair[1]);
    }
    close(pair[1]);
    fcntl(pair[0], F_SETFL, O_NONBLOCK);
    struct wg_keeper_seat *seat = WG_NEW(struct wg_keeper_seat);
    *seat = (struct wg_keeper_seat){.socket = pair[0], .pid = pid};
    *ret_seat = seat;
    return 0;
}

struct wg_keeper_seat *wg_keeper_seat_free(struct wg_keeper_seat *seat)
{
    if (seat) {
        close(seat->socket);
        waitpid(seat->pid, NULL, 0);
    }
    free(seat);
    return NULL;
}

/* It has left the list. */
static void free_child(struct keeper_child *child)
{
    WG_ASSERT(!wg_list_linked(&child->link));
    child->magic = 0;
    free(child->label);
    free(child);
}

static void free_order(struct pending_order *order)
{
    wg_buf_clear(&order->packet);
    free(order);
}

/* The end of a child whose keeper is no more. */
static void lose_child(struct keeper_child *child)
{
    if (child->pid == 0) {
        child->handler->start_failed(child->arg, "the process keeper has died; restart Wakegate");
    } else {
        if (!child->exited)
            child->handler->exited(child->arg, "was lost with the process keeper");
        child->handler->gone(child->arg);
    }
    free_child(child);
}

static void lose_children(struct wg_keeper *keeper)
{
    struct wg_list *node;
    while ((node = wg_list_pop(&keeper->children)))
        lose_child(WG_LIST_ENTRY(node, struct keeper_child, link));
}

bool wg_keeper_alive(const struct wg_keeper *keeper)
{
    return keeper->socket >= 0;
}

static void let_go(struct wg_keeper *keeper)
{
    event_free(keeper->readable);
    event_free(keeper->writable);
    keeper->readable = keeper->writable = NULL;
    close(keeper->socket);
    keeper->socket = -1;
    struct wg_list *node;
    while ((node = wg_list_pop(&keeper->orders)))
        free_order(WG_LIST_ENTRY(node, struct pending_order, link));
}

/* What a keeper that cannot do it any more leaves behind. The system kills its children when it dies; what
 * they had started is ours to end. */
static void kill_keeper(struct wg_keeper *keeper)
{
    wg_list_foreach (node, &keeper->children) {
        const struct keeper_child *child = WG_LIST_ENTRY(node, struct keeper_child, link);
        if (child->pid > 0)
            kill(-child->pid, SIGKILL);
    }
    kill(keeper->pid, SIGKILL);
    waitpid(keeper->pid, NULL, 0);
}

static void on_keeper_died(struct wg_keeper *keeper)
{
    wg_error("process", NULL,
             "the process keeper (pid %d) has died: all model processes are lost, restart Wakegate",
             keeper->pid);
    kill_keeper(keeper); /* it may only talk nonsense */
    let_go(keeper);
    lose_children(keeper);
}

/* "exited with status 1", "was killed by signal 9 (Killed)" */
static char *words_of_status(int status)
{
    if (WIFSIGNALED(status))
        return wg_xasprintf("was killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return wg_xasprintf("exited with status %d", WEXITSTATUS(status));
}

static struct keeper_child *child_by_id(struct wg_keeper *keeper, uint64_t id)
{
    wg_list_foreach (node, &keeper->children) {
        struct keeper_child *child = WG_LIST_ENTRY(node, struct keeper_child, link);
        if (child->id == id)
            return child;
    }
    return NULL;
}

static void on_event(struct keeper_child *child, const struct keeper_event *event, int fd)
{
    switch ((enum event_kind)event->kind) {
    case EVENT_STARTED:
        child->pid = event->pid;
        child->handler->started(child->arg, event->pid, fd);
        return;
    case EVENT_START_FAILED:
        wg_list_remove(&child->link); /* its port is free, should it be started again at once */
        child->handler->start_failed(child->arg, event->text);
        free_child(child);
        return;
    case EVENT_EXITED: {
        WG_AUTO_FREE char *why = words_of_status(event->status);
        child->exited = true;
        child->handler->exited(child->arg, why);
        return;
    }
    case EVENT_GONE:
        wg_list_remove(&child->link);
        child->handler->gone(child->arg);
        free_child(child);
        return;
    }
}

/* One piece of news a turn: there are few. */
static void on_readable(evutil_socket_t socket, short what WG_UNUSED, void *arg)
{
    struct wg_keeper *keeper = WG_CAST(wg_keeper, arg, KEEPER_MAGIC);
    struct keeper_event event;
    int fd;
    const int got = wire_receive_event(socket, &event, &fd);
    if (got == -EAGAIN)
        return;
    if (got <= 0) {
        on_keeper_died(keeper);
        return;
    }
    struct keeper_child *child = child_by_id(keeper, event.id);
    if (child)
        on_event(child, &event, fd);
    else if (fd >= 0)
        close(fd);
}

/* 0; -EAGAIN when there is no room now. A dead keeper is told by the end of file. */
static int send_packet(struct wg_keeper *keeper, const struct wg_buf *packet)
{
    if (send(keeper->socket, packet->data, packet->len, MSG_NOSIGNAL) < 0 &&
        (errno == EAGAIN || errno == EINTR))
        return -EAGAIN;
    return 0;
}

static void on_writable(evutil_socket_t socket WG_UNUSED, short what WG_UNUSED, void *arg)
{
    struct wg_keeper *keeper = WG_CAST(wg_keeper, arg, KEEPER_MAGIC);
    struct wg_list *node;
    while ((node = wg_list_pop(&keeper->orders))) {
        struct pending_order *order = WG_LIST_ENTRY(node, struct pending_order, link);
        if (send_packet(keeper, &order->packet) < 0) {
            wg_list_prepend(&keeper->orders, node);
            event_add(keeper->writable, NULL);
            return;
        }
        free_order(order);
    }
}

/* Takes the packet. */
static void send_order(struct wg_keeper *keeper, struct wg_buf *packet)
{
    if (wg_list_empty(&keeper->orders) && send_packet(keeper, packet) == 0) {
        wg_buf_clear(packet);
        return;
    }
    struct pending_order *order = WG_NEW(struct pending_order);
    order->packet = *packet;
    wg_list_init(&order->link);
    wg_list_append(&keeper->orders, &order->link);
    event_add(keeper->writable, NULL);
}

static void on_reap(struct wg_timer *timer)
{
    struct wg_keeper *keeper = WG_CONTAINER_OF(timer, struct wg_keeper, reaper);
    siginfo_t info = {0};
    /* The keeper is left for who notices its death by the socket. */
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0 &&
           info.si_pid != keeper->pid) {
        waitpid(info.si_pid, NULL, WNOHANG);
        info.si_pid = 0;
    }
    wg_timer_set_after(timer, REAP_USEC);
}

static bool is_reaper(void)
{
    int subreaper = 0;
    return getpid() == 1 || (prctl(PR_GET_CHILD_SUBREAPER, &subreaper) == 0 && subreaper);
}

struct wg_keeper *wg_keeper_attach(struct wg_keeper_seat *seat, struct wg_loop *loop)
{
    struct wg_keeper *keeper = WG_NEW(struct wg_keeper);
    keeper->magic = KEEPER_MAGIC;
    keeper->loop = loop;
    keeper->socket = seat->socket;
    keeper->pid = seat->pid;
    free(seat);
    wg_list_init(&keeper->orders);
    wg_list_init(&keeper->children);
    wg_timer_init(&keeper->reaper, loop, on_reap);
    keeper->readable =
        event_new(wg_loop_base(loop), keeper->socket, EV_READ | EV_PERSIST, on_readable, keeper);
    keeper->writable = event_new(wg_loop_base(loop), keeper->socket, EV_WRITE, on_writable, keeper);
    WG_ASSERT(keeper->readable && keeper->writable && event_add(keeper->readable, NULL) == 0);
    if (is_reaper())
        wg_timer_set_after(&keeper->reaper, REAP_USEC);
    return keeper;
}

/* Its socket closes when it ends; what it still tells is nobody's any more. */
static bool await_end(struct wg_keeper *keeper, wg_usec deadline)
{
    struct pollfd fd = {.fd = keeper->socket, .events = POLLIN};
    char packet[sizeof(struct keeper_event)];
    for (;;) {
        const wg_usec left = deadline - wg_clock_monotonic();
        if (left <= 0)
            return false;
        (void)poll(&fd, 1, (int)WG_MIN(wg_usec_to_msec(left) + 1, 60 * 1000));
        const ssize_t got = recv(keeper->socket, packet, sizeof(packet), MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            return true;
    }
}

/* What was told to stop has its time. At end of file the keeper kills whatever there is. */
static void end_keeper(struct wg_keeper *keeper)
{
    const struct order order = {.kind = ORDER_END};
    if (!wg_list_empty(&keeper->children))
        wg_info("process", NULL, "waiting for the model processes to stop");
    struct wg_buf packet;
    const int error = wire_pack_order(&packet, &order, NULL, NULL, NULL);
    WG_ASSERT(error == 0);
    send_order(keeper, &packet);
    const wg_usec now = wg_clock_monotonic();
    if (!await_end(keeper, wg_usec_add(WG_MAX(now, keeper->stopped_by), END_USEC))) {
        shutdown(keeper->socket, SHUT_WR);
        if (!await_end(keeper, wg_clock_monotonic() + END_USEC)) {
            wg_error("process", NULL,
                     "the process keeper (pid %d) does not end, killing it and the model processes",
                     keeper->pid);
            kill_keeper(keeper);
            return;
        }
    }
    waitpid(keeper->pid, NULL, 0);
}

struct wg_keeper *wg_keeper_free(struct wg_keeper *keeper)
{
    if (!keeper)
        return NULL;
    WG_CHECK_OBJ(keeper, KEEPER_MAGIC);
    wg_timer_cancel(&keeper->reaper);
    if (keeper->socket >= 0) {
        end_keeper(keeper);
        let_go(keeper);
    }
    lose_children(keeper);
    keeper->magic = 0;
    free(keeper);
    return NULL;
}

int keeper_start(struct wg_keeper *keeper, const struct keeper_start *start,
                 const struct keeper_child_handler *handler, void *arg, struct keeper_child **ret_child)
{
    WG_CHECK_OBJ(keeper, KEEPER_MAGIC);
    if (keeper->socket < 0)
        return -EPIPE;
    const struct order order = {.kind = ORDER_START,
                                .id = keeper->last_id + 1,
                                .n_args = (uint32_t)start->n_args,
                                .n_env = (uint32_t)start->n_env};
    struct wg_buf packet;
    const int error = wire_pack_order(&packet, &order, start->dir, start->args, start->env);
    if (error < 0) {
        wg_buf_clear(&packet);
        return error;
    }
    struct keeper_child *child = WG_NEW(struct keeper_child);
    child->magic = CHILD_MAGIC;
    child->keeper = keeper;
    child->id = ++keeper->last_id;
    child->label = wg_xstrdup(start->label);
    child->port = start->port;
    child->handler = handler;
    child->arg = arg;
    wg_list_init(&child->link);
    wg_list_append(&keeper->children, &child->link);
    send_order(keeper, &packet);
    *ret_child = child;
    return 0;
}

void keeper_stop(struct keeper_child *child, wg_usec patience)
{
    WG_CHECK_OBJ(child, CHILD_MAGIC);
    child->stopping = true;
    if (child->keeper->socket < 0)
        return;
    const wg_usec by = wg_usec_add(wg_clock_monotonic(), patience);
    child->keeper->stopped_by = WG_MAX(child->keeper->stopped_by, by);
    const struct order order = {.kind = ORDER_STOP, .id = child->id, .patience = patience};
    struct wg_buf packet;
    const int error = wire_pack_order(&packet, &order, NULL, NULL, NULL);
    WG_ASSERT(error == 0);
    send_order(child->keeper, &packet);
}

const char *keeper_port_holder(const struct wg_keeper *keeper, uint16_t port, bool *ret_stopping)
{
    wg_list_foreach (node, &keeper->children) {
        const struct keeper_child *child = WG_LIST_ENTRY(node, struct keeper_child, link);
        if (child->port == port) {
            *ret_stopping = child->stopping || child->exited;
            return child->label;
        }
    }
    return NULL;
}

pid_t keeper_pid(const struct wg_keeper *keeper)
{
    return keeper->pid;
}
