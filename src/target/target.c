/* The one face of all kinds of targets: hands calls down to the kind, and what the kind has to say up at the
 * end of the turn, so that nobody is called from inside a call of his own. */
#include "wakegate/target.h"

#include <stdlib.h>

#include "address.h"
#include "target_kind.h"

#define TARGET_MAGIC 0x7a46e701

enum notice_kind {
    NOTICE_FOUND,
    NOTICE_LOST,
    NOTICE_PHASE,
    NOTICE_TROUBLE,
    NOTICE_FAILED,
    NOTICE_DETAIL,
    NOTICE_ASLEEP
};

struct notice {
    struct wg_list link; /* wg_target.notices */
    enum notice_kind kind;
    uint64_t instance;
    struct wg_address address;
    enum wg_phase phase;
    wg_usec at;
    char *why;
};

static void free_notice(struct notice *notice)
{
    wg_list_remove(&notice->link);
    wg_address_clear(&notice->address);
    free(notice->why);
    free(notice);
}

static void deliver(struct wg_target *target, const struct notice *notice)
{
    const struct wg_target_handler *handler = &target->handler;
    switch (notice->kind) {
    case NOTICE_FOUND:
        handler->found(target->arg, notice->instance, &notice->address);
        return;
    case NOTICE_LOST:
        handler->lost(target->arg, notice->instance, notice->why);
        return;
    case NOTICE_PHASE:
        handler->phase(target->arg, notice->phase, notice->at);
        return;
    case NOTICE_TROUBLE:
        handler->trouble(target->arg, notice->why);
        return;
    case NOTICE_FAILED:
        handler->failed(target->arg, notice->why);
        return;
    case NOTICE_DETAIL:
        handler->detail(target->arg, notice->why);
        return;
    case NOTICE_ASLEEP:
        handler->asleep(target->arg);
        return;
    }
}

static void destroy(struct wg_target *target)
{
    wg_deferred_cancel(&target->tell);
    struct wg_list *node;
    while ((node = wg_list_pop(&target->notices)))
        free_notice(WG_LIST_ENTRY(node, struct notice, link));
    wg_config_unref(target->config);
    target->magic = 0;
    free(target);
}

static void tell_all(struct wg_deferred *deferred)
{
    struct wg_target *target = WG_CONTAINER_OF(deferred, struct wg_target, tell);
    WG_CHECK_OBJ(target, TARGET_MAGIC);
    struct wg_list *node;
    target->telling = true;
    while (!target->freed && (node = wg_list_pop(&target->notices))) {
        struct notice *notice = WG_LIST_ENTRY(node, struct notice, link);
        deliver(target, notice);
        free_notice(notice);
    }
    target->telling = false;
    if (target->freed)
        destroy(target);
}

static struct notice *add_notice(struct wg_target *target, enum notice_kind kind)
{
    struct notice *notice = WG_NEW(struct notice);
    notice->kind = kind;
    wg_list_init(&notice->link);
    wg_list_append(&target->notices, &notice->link);
    wg_loop_defer(target->env.loop, &target->tell);
    return notice;
}

uint64_t target_found(struct wg_target *target, const struct wg_address *address)
{
    struct notice *notice = add_notice(target, NOTICE_FOUND);
    notice->address = *address;
    notice->address.text = wg_xstrdup(address->text);
    return notice->instance = ++target->last_instance;
}

void target_lost(struct wg_target *target, uint64_t instance, const char *why)
{
    struct notice *notice = add_notice(target, NOTICE_LOST);
    notice->instance = instance;
    notice->why = wg_xstrdup(why);
}

void target_phase(struct wg_target *target, enum wg_phase phase)
{
    struct notice *notice = add_notice(target, NOTICE_PHASE);
    notice->phase = phase;
    notice->at = wg_clock_monotonic();
}

void target_trouble(struct wg_target *target, const char *why)
{
    add_notice(target, NOTICE_TROUBLE)->why = wg_xstrdup(why);
}

void target_failed(struct wg_target *target, const char *why)
{
    add_notice(target, NOTICE_FAILED)->why = wg_xstrdup(why);
}

void target_detail(struct wg_target *target, const char *why)
{
    add_notice(target, NOTICE_DETAIL)->why = wg_xstrdup(why);
}

void target_asleep(struct wg_target *target)
{
    add_notice(target, NOTICE_ASLEEP);
}

void target_forget_outcome(struct wg_target *target)
{
    wg_list_foreach_safe (node, &target->notices) {
        struct notice *notice = WG_LIST_ENTRY(node, struct notice, link);
        if (notice->kind != NOTICE_FOUND && notice->kind != NOTICE_LOST)
            free_notice(notice);
    }
}

static const struct target_kind *const kinds[] = {
    [WG_TARGET_PROCESS] = &process_kind,
    [WG_TARGET_STATIC] = &static_kind,
};

struct wg_target *wg_target_new(const struct wg_target_env *env, struct wg_config *config,
                                const struct wg_config_model *model, const struct wg_target_handler *handler,
                                void *arg)
{
    WG_ASSERT((size_t)model->target < WG_COUNT_OF(kinds));
    const struct target_kind *kind = kinds[model->target];
    struct wg_target *target = wg_xcalloc(1, kind->size);
    target->magic = TARGET_MAGIC;
    target->kind = kind;
    target->env = *env;
    target->config = wg_config_ref(config);
    target->model = model;
    target->handler = *handler;
    target->arg = arg;
    /* A target that takes the place of another goes on behind its numbers: none is made faster than one a
     * microsecond. */
    target->last_instance = (uint64_t)wg_clock_monotonic();
    wg_list_init(&target->notices);
    wg_deferred_init(&target->tell, tell_all);
    kind->open(target);
    return target;
}

void wg_target_wake(struct wg_target *target)
{
    WG_CHECK_OBJ(target, TARGET_MAGIC);
    target->kind->wake(target);
}

void wg_target_sleep(struct wg_target *target)
{
    WG_CHECK_OBJ(target, TARGET_MAGIC);
    target->kind->sleep(target);
}

struct wg_target *wg_target_free(struct wg_target *target)
{
    if (!target)
        return NULL;
    WG_CHECK_OBJ(target, TARGET_MAGIC);
    WG_ASSERT(!target->freed);
    target->kind->close(target);
    target->freed = true;
    if (!target->telling)
        destroy(target);
    return NULL;
}

bool wg_target_wakes(const struct wg_config_model *model)
{
    return model->target != WG_TARGET_STATIC || model->static_.wake.url[0] || model->static_.sleep.url[0];
}
