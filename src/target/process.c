/* A model as a process of this machine: one instance at a time, through its states. Starting, stopping and
 * watching the process is the instance's, whether it answers the prober's. */
#include <errno.h>
#include <stdlib.h>

#include "instance.h"
#include "port.h"
#include "target_kind.h"
#include "wakegate/base/log.h"

#define PROCESS_MAGIC 0x960ce501

enum { PORT_WAIT_USEC = 50 * 1000 };

enum process_state {
    PROCESS_ASLEEP,   /* nothing runs */
    PROCESS_WAITING,  /* wanted, but its port is still held by a process of ours that is stopping */
    PROCESS_STARTING, /* ordered from the keeper */
    PROCESS_LOADING,  /* runs; nobody listens yet */
    PROCESS_UP,       /* listens: its instance is found */
    PROCESS_STOPPING, /* a sleep is under way: asleep is told when all of it is gone */
    PROCESS_ENDING,   /* ended by itself, or was found useless: nothing is told when all of it is gone */
};

struct process {
    struct wg_target target;
    uint32_t magic;
    enum process_state state;
    bool wanted;               /* in STOPPING and ENDING: a wake has come, it starts when all is gone */
    struct instance *instance; /* from STARTING to ENDING */
    uint16_t port;             /* that was given to it */
    uint64_t number;           /* of the instance that was found, in UP */
    struct wg_timer again;     /* in WAITING: looks at the port */
};

static void set_state(struct process *process, enum process_state state)
{
    static const char *const names[] = {
        "asleep", "waiting for its port", "starting", "loading", "up", "stopping", "ending"};
    wg_debug("process", process->target.model->name, "%s -> %s", names[process->state], names[state]);
    if (state != PROCESS_WAITING)
        wg_timer_cancel(&process->again);
    if (state != PROCESS_UP)
        process->number = 0;
    if (state == PROCESS_ASLEEP)
        process->instance = NULL;
    if (state != PROCESS_STOPPING && state != PROCESS_ENDING)
        process->wanted = false;
    process->state = state;
}

static struct process *of(struct wg_target *target)
{
    struct process *process = WG_CONTAINER_OF(target, struct process, target);
    WG_CHECK_OBJ(process, PROCESS_MAGIC);
    return process;
}

static void fail(struct process *process, const char *why)
{
    wg_warn("process", process->target.model->name, "%s", why);
    target_failed(&process->target, why);
}

/* ---- what the instance tells ---- */

static void begin(struct process *process);

static void tell_loading(struct process *process)
{
    WG_AUTO_FREE char *why = wg_xasprintf("nothing listens on 127.0.0.1:%u yet", (unsigned)process->port);
    target_phase(&process->target, WG_PHASE_STARTED);
    target_trouble(&process->target, why);
}

static void on_started(void *arg)
{
    struct process *process = WG_CAST(process, arg, PROCESS_MAGIC);
    if (process->state != PROCESS_STARTING)
        return;
    tell_loading(process);
    set_state(process, PROCESS_LOADING);
}

static void on_listening(void *arg, const struct wg_address *address)
{
    struct process *process = WG_CAST(process, arg, PROCESS_MAGIC);
    WG_ASSERT(process->state == PROCESS_LOADING);
    set_state(process, PROCESS_UP);
    target_phase(&process->target, WG_PHASE_LISTENING);
    target_trouble(&process->target, "");
    process->number = target_found(&process->target, address);
}

static void on_stranger(void *arg, const char *why)
{
    struct process *process = WG_CAST(process, arg, PROCESS_MAGIC);
    WG_ASSERT(process->state == PROCESS_LOADING);
    fail(process, why);
    instance_stop(process->instance);
    set_state(process, PROCESS_ENDING);
}

/* Clients are told the last line, operators some more. */
static char *words_of_end(const char *why, const char *when, const char *output)
{
    return wg_xasprintf("the process %s%s%s%s", why, when, output[0] ? "; its last output: " : "", output);
}

static void on_exited(void *arg, const char *why, const char *last_line, const char *last_lines)
{
    struct process *process = WG_CAST(process, arg, PROCESS_MAGIC);
    const bool up = process->state == PROCESS_UP;
    if (!up && process->state != PROCESS_STARTING && process->state != PROCESS_LOADING)
        return;
    const char *when = up ? "" : " while loading";
    WG_AUTO_FREE char *text = words_of_end(why, when, last_line);
    WG_AUTO_FREE char *detail = words_of_end(why, when, last_lines);
    wg_warn("process", process->target.model->name, "%s", detail);
    if (up)
        target_lost(&process->target, process->number, text);
    else
        target_failed(&process->target, text);
    target_detail(&process->target, detail);
    set_state(process, PROCESS_ENDING);
}

/* Nothing is left of it: what was wanted meanwhile? */
static void after_end(struct process *process)
{
    const bool wanted = process->wanted, asked = process->state == PROCESS_STOPPING;
    set_state(process, PROCESS_ASLEEP);
    if (wanted)
        begin(process);
    else if (asked)
        target_asleep(&process->target);
}

static void on_gone(void *arg)
{
    after_end(WG_CAST(process, arg, PROCESS_MAGIC));
}

static void on_start_failed(void *arg, const char *why)
{
    struct process *process = WG_CAST(process, arg, PROCESS_MAGIC);
    if (process->state == PROCESS_STARTING) {
        WG_AUTO_FREE char *text = wg_xasprintf("the process could not be started: %s", why);
        fail(process, text);
    }
    after_end(process);
}

static const struct instance_handler instance_handler = {
    .started = on_started,
    .start_failed = on_start_failed,
    .listening = on_listening,
    .stranger = on_stranger,
    .exited = on_exited,
    .gone = on_gone,
};

/* ---- starting ---- */

/* The port that the configuration says: 0 if it can be had; -EAGAIN if it soon can; -EADDRINUSE, and in
 * *ret_why whose it is. */
static int claim(struct process *process, uint16_t port, char **ret_why)
{
    bool stopping;
    const char *holder = keeper_port_holder(process->target.env.keeper, port, &stopping);
    if (holder && stopping)
        return -EAGAIN;
    if (holder)
        *ret_why = wg_xasprintf("port %u is in use by the model %s", (unsigned)port, holder);
    else if (!port_is_free(port))
        *ret_why = wg_xasprintf("port %u is already in use by another process", (unsigned)port);
    else
        return 0;
    return -EADDRINUSE;
}

static const char *words_of(int error)
{
    switch (error) {
    case -E2BIG:
        return "the command and its environment are longer than 64 KiB";
    case -EPIPE:
        return "the process keeper has died; restart Wakegate";
    default:
        return strerror(-error);
    }
}

static void start(struct process *process, uint16_t port)
{
    struct wg_target *target = &process->target;
    struct instance *instance;
    const int error =
        instance_start(&target->env, target->model, port, &instance_handler, process, &instance);
    if (error < 0) {
        WG_AUTO_FREE char *why = wg_xasprintf("the process could not be started: %s", words_of(error));
        set_state(process, PROCESS_ASLEEP);
        fail(process, why);
        return;
    }
    process->instance = instance;
    process->port = port;
    set_state(process, PROCESS_STARTING);
}

static void tell_waiting(struct process *process, uint16_t port)
{
    WG_AUTO_FREE char *why =
        wg_xasprintf("port %u is still in use by a process that is being stopped", (unsigned)port);
    target_trouble(&process->target, why);
}

static void begin(struct process *process)
{
    const uint16_t fixed = process->target.model->process.port;
    const uint16_t port = fixed ? fixed : port_choose(process->target.env.keeper);
    WG_AUTO_FREE char *why = NULL;
    const int error = fixed ? claim(process, fixed, &why) : 0;
    if (error == -EAGAIN) {
        if (process->state != PROCESS_WAITING)
            tell_waiting(process, fixed);
        set_state(process, PROCESS_WAITING);
        wg_timer_set_after(&process->again, PORT_WAIT_USEC);
    } else if (error < 0 || port == 0) {
        set_state(process, PROCESS_ASLEEP);
        fail(process, why ? why : "no free port on this machine");
    } else {
        start(process, port);
    }
}

static void on_again(struct wg_timer *timer)
{
    begin(WG_CONTAINER_OF(timer, struct process, again));
}

/* ---- what the target is asked for ---- */

static void process_open(struct wg_target *target)
{
    struct process *process = WG_CONTAINER_OF(target, struct process, target);
    process->magic = PROCESS_MAGIC;
    wg_timer_init(&process->again, target->env.loop, on_again);
}

static void process_wake(struct wg_target *target)
{
    struct process *process = of(target);
    switch (process->state) {
    case PROCESS_ASLEEP:
        target_forget_outcome(target);
        begin(process);
        return;
    case PROCESS_STOPPING:
    case PROCESS_ENDING:
        target_forget_outcome(target);
        process->wanted = true;
        return;
    case PROCESS_LOADING: /* it takes longer than the wake before was ready to wait */
        tell_loading(process);
        return;
    case PROCESS_UP:
        target_phase(target, WG_PHASE_STARTED);
        return;
    case PROCESS_WAITING:
    case PROCESS_STARTING:
        return;
    }
}

static void process_sleep(struct wg_target *target)
{
    struct process *process = of(target);
    target_forget_outcome(target);
    switch (process->state) {
    case PROCESS_ASLEEP:
    case PROCESS_WAITING:
        set_state(process, PROCESS_ASLEEP);
        target_asleep(target);
        return;
    case PROCESS_UP:
        target_lost(target, process->number, "put to sleep");
        instance_stop(process->instance);
        set_state(process, PROCESS_STOPPING);
        return;
    case PROCESS_STARTING:
    case PROCESS_LOADING:
        instance_stop(process->instance);
        set_state(process, PROCESS_STOPPING);
        return;
    case PROCESS_STOPPING:
    case PROCESS_ENDING:
        process->wanted = false;
        set_state(process, PROCESS_STOPPING);
        return;
    }
}

static void process_close(struct wg_target *target)
{
    struct process *process = of(target);
    wg_timer_cancel(&process->again);
    process->instance = instance_abandon(process->instance);
    process->magic = 0;
}

const struct target_kind process_kind = {
    .size = sizeof(struct process),
    .open = process_open,
    .wake = process_wake,
    .sleep = process_sleep,
    .close = process_close,
};
