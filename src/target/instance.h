/* One process of a model, from the order to start it until nothing of it is left. */
#pragma once

#include "keeper.h"
#include "wakegate/target.h"

struct instance;

/* Never called from inside a call of ours. The instance is no more once start_failed or gone has returned. */
struct instance_handler {
    void (*started)(void *arg);
    void (*start_failed)(void *arg, const char *why);
    void (*listening)(void *arg, const struct wg_address *address); /* borrowed */
    void (*stranger)(void *arg, const char *why);                   /* its port is somebody else's */
    /* Of its output: the last line, and the last few as of output_last_lines; "" if none. */
    void (*exited)(void *arg, const char *why, const char *last_line, const char *last_lines);
    void (*gone)(void *arg);
};

/* 0 or a negative errno as of keeper_start. */
WG_MUST_CHECK int instance_start(const struct wg_target_env *env, const struct wg_config_model *model,
                                 uint16_t port, const struct instance_handler *handler, void *arg,
                                 struct instance **ret_instance);
void instance_stop(struct instance *instance);
/* Stops it in the background; no handler is called any more. NULL-safe, returns NULL. */
struct instance *instance_abandon(struct instance *instance);
