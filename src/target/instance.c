/* One process of a model: its command, its output, and when it listens. What that means for the model is the
 * process target's to decide. */
#include "instance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"
#include "port.h"
#include "wakegate/base/log.h"

#define INSTANCE_MAGIC 0x1257a401

enum {
    LISTEN_USEC = 25 * 1000,            /* between two looks whether it listens */
    STRANGER_LOOKS = 2,                 /* that must agree: a picture of the processes may be torn */
    UNKILLABLE_USEC = 10 * 1000 * 1000, /* after SIGKILL */
};

struct instance {
    uint32_t magic;
    struct keeper_child *child;
    struct output *output;
    struct wg_loop *loop;
    char *name; /* of the model */
    uint16_t port;
    pid_t pid; /* 0 until started, and again when the main process has exited */
    bool stopping;
    int stranger_looks;
    wg_usec stop_timeout;
    struct wg_timer listen;                 /* the next look */
    struct wg_timer unkillable;             /* that it should have been gone by */
    const struct instance_handler *handler; /* NULL: abandoned */
    void *arg;
};

/* The word with every "{port}" replaced. */
static char *with_port(const char *word, uint16_t port)
{
    static const char place[] = "{port}";
    struct wg_buf out = WG_BUF_INIT(1024 * 1024);
    for (const char *at; (at = strstr(word, place)); word = at + sizeof(place) - 1) {
        wg_buf_add(&out, word, (size_t)(at - word));
        wg_buf_add_u64(&out, port);
    }
    wg_buf_add_str(&out, word);
    char *text = wg_xstrdup(wg_buf_str(&out));
    wg_buf_clear(&out);
    return text;
}

static struct instance *free_instance(struct instance *instance)
{
    instance->output = output_free(instance->output);
    wg_timer_cancel(&instance->listen);
    wg_timer_cancel(&instance->unkillable);
    instance->magic = 0;
    free(instance->name);
    free(instance);
    return NULL;
}

static void on_started(void *arg, pid_t pid, int output)
{
    struct instance *instance = WG_CAST(instance, arg, INSTANCE_MAGIC);
    instance->pid = pid;
    if (output >= 0)
        instance->output = output_new(instance->loop, output, instance->name);
    else
        wg_warn("process", instance->name, "no descriptor is free: its output cannot be read");
    wg_info("process", instance->name, "started as pid %d on port %u", pid, (unsigned)instance->port);
    if (!instance->stopping)
        wg_timer_set_after(&instance->listen, 0);
    if (!instance->handler)
        return;
    instance->handler->started(instance->arg);
}

static void on_start_failed(void *arg, const char *why)
{
    struct instance *instance = WG_CAST(instance, arg, INSTANCE_MAGIC);
    if (instance->handler)
        instance->handler->start_failed(instance->arg, why);
    free_instance(instance);
}

static void on_exited(void *arg, const char *why)
{
    struct instance *instance = WG_CAST(instance, arg, INSTANCE_MAGIC);
    output_drain(instance->output);
    wg_info("process", instance->name, "pid %d %s", instance->pid, why);
    instance->pid = 0;
    wg_timer_cancel(&instance->listen);
    wg_timer_set_after(&instance->unkillable, wg_usec_add(instance->stop_timeout, UNKILLABLE_USEC));
    WG_AUTO_FREE char *lines = output_last_lines(instance->output);
    if (instance->handler)
        instance->handler->exited(instance->arg, why, output_last_line(instance->output), lines);
}

static void on_gone(void *arg)
{
    struct instance *instance = WG_CAST(instance, arg, INSTANCE_MAGIC);
    const struct instance_handler *handler = instance->handler;
    void *handler_arg = instance->arg;
    free_instance(instance); /* the rest of its output comes before what follows */
    if (handler)
        handler->gone(handler_arg);
}

static const struct keeper_child_handler child_handler = {
    .started = on_started, .start_failed = on_start_failed, .exited = on_exited, .gone = on_gone};

static void on_stranger(struct instance *instance, pid_t stranger)
{
    char who[32] = "";
    if (++instance->stranger_looks < STRANGER_LOOKS) {
        wg_timer_set_after(&instance->listen, LISTEN_USEC);
        return;
    }
    if (stranger > 0)
        snprintf(who, sizeof(who), " (pid %d)", stranger);
    WG_AUTO_FREE char *why =
        wg_xasprintf("port %u is taken by another process%s", (unsigned)instance->port, who);
    instance->handler->stranger(instance->arg, why);
}

static void on_listen_timer(struct wg_timer *timer)
{
    struct instance *instance = WG_CONTAINER_OF(timer, struct instance, listen);
    struct wg_address address;
    pid_t stranger = 0;
    switch (port_owner(instance->port, instance->pid, &address, &stranger)) {
    case PORT_SILENT:
        wg_timer_set_after(timer, LISTEN_USEC);
        return;
    case PORT_STRANGER:
        on_stranger(instance, stranger);
        return;
    case PORT_OURS:
        instance->handler->listening(instance->arg, &address);
        wg_address_clear(&address);
        return;
    }
}

static void on_unkillable(struct wg_timer *timer)
{
    struct instance *instance = WG_CONTAINER_OF(timer, struct instance, unkillable);
    wg_error("process", instance->name,
             "still there %d s after SIGKILL (a process that the kernel cannot end?); waiting on",
             (int)(UNKILLABLE_USEC / WG_USEC_PER_SEC));
}

int instance_start(const struct wg_target_env *env, const struct wg_config_model *model, uint16_t port,
                   const struct instance_handler *handler, void *arg, struct instance **ret_instance)
{
    const struct wg_config_process *process = &model->process;
    struct instance *instance = WG_NEW(struct instance);
    instance->magic = INSTANCE_MAGIC;
    instance->loop = env->loop;
    instance->name = wg_xstrdup(model->name);
    instance->port = port;
    instance->stop_timeout = process->stop_timeout;
    instance->handler = handler;
    instance->arg = arg;
    wg_timer_init(&instance->listen, env->loop, on_listen_timer);
    wg_timer_init(&instance->unkillable, env->loop, on_unkillable);

    char **args = wg_xcalloc(process->command.n + 1, sizeof(*args));
    for (size_t i = 0; i < process->command.n; i++)
        args[i] = with_port(process->command.items[i], port);
    const struct keeper_start start = {.label = model->name,
                                       .port = port,
                                       .dir = process->working_dir,
                                       .args = args,
                                       .n_args = process->command.n,
                                       .env = process->env.items,
                                       .n_env = process->env.n};
    const int error = keeper_start(env->keeper, &start, &child_handler, instance, &instance->child);
    for (size_t i = 0; i < process->command.n; i++)
        free(args[i]);
    free(args);
    if (error < 0) {
        free_instance(instance);
        return error;
    }
    *ret_instance = instance;
    return 0;
}

void instance_stop(struct instance *instance)
{
    WG_CHECK_OBJ(instance, INSTANCE_MAGIC);
    instance->stopping = true;
    wg_timer_cancel(&instance->listen);
    keeper_stop(instance->child, instance->stop_timeout);
    if (!wg_timer_armed(&instance->unkillable))
        wg_timer_set_after(&instance->unkillable, wg_usec_add(instance->stop_timeout, UNKILLABLE_USEC));
}

struct instance *instance_abandon(struct instance *instance)
{
    if (!instance)
        return NULL;
    WG_CHECK_OBJ(instance, INSTANCE_MAGIC);
    instance->handler = NULL;
    instance_stop(instance);
    return NULL;
}
