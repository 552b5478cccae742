/* What is common to all kinds of targets, and what each kind gives: a new kind is one more table. */
#pragma once

#include "wakegate/base/list.h"
#include "wakegate/target.h"

/* The first member of every kind's own struct. */
struct wg_target {
    uint32_t magic;
    const struct target_kind *kind;
    struct wg_target_env env;
    struct wg_config *config; /* a reference */
    const struct wg_config_model *model;
    struct wg_target_handler handler;
    void *arg;
    uint64_t last_instance;
    struct wg_list notices; /* what is to be told, in order */
    struct wg_deferred tell;
    bool telling, freed;
};

struct target_kind {
    size_t size; /* of its own struct, which is zeroed before open */
    void (*open)(struct wg_target *target);
    void (*wake)(struct wg_target *target);
    void (*sleep)(struct wg_target *target);
    void (*close)(struct wg_target *target); /* of all that open and the rest made */
};

extern const struct target_kind process_kind, static_kind;

/* What a kind has to tell. The handler is called at the end of the turn, in this order. */
uint64_t target_found(struct wg_target *target,
                      const struct wg_address *address); /* the number of the instance */
void target_lost(struct wg_target *target, uint64_t instance, const char *why);
void target_phase(struct wg_target *target, enum wg_phase phase);
void target_trouble(struct wg_target *target, const char *why);
void target_failed(struct wg_target *target, const char *why);
void target_detail(struct wg_target *target, const char *why);
void target_asleep(struct wg_target *target);
/* Takes back what was not told yet of a wake or sleep that is no longer under way: phases, trouble, failed,
 * detail, asleep. */
void target_forget_outcome(struct wg_target *target);
