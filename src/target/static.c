/* A model server that somebody else runs, at addresses of the configuration: its names are followed, and
 * hooks put it to sleep and wake it. */
#include <stdlib.h>
#include <string.h>

#include "address.h"
#include "hook.h"
#include "resolve.h"
#include "target_kind.h"
#include "wakegate/base/log.h"

#define STATIC_MAGIC   0x57a71c01
#define ENDPOINT_MAGIC 0x57a71c02

static const wg_usec refresh = 60 * WG_USEC_PER_SEC, retry = 5 * WG_USEC_PER_SEC;
enum { SLEEP_TRIES = 3 };

enum static_state {
    STATIC_ASLEEP,   /* its endpoints are nobody's business */
    STATIC_WAKING,   /* the wake hook is being called */
    STATIC_UP,       /* each address is a found instance */
    STATIC_SLEEPING, /* the sleep hook is being called */
};

/* An address of an endpoint. */
struct place {
    struct wg_address address;
    uint64_t instance; /* 0: not found, since the target is not up */
};

/* One endpoint of the configuration: an address, or a name with those that it has now. */
struct endpoint {
    uint32_t magic;
    struct static_target *target;
    const struct wg_config_endpoint *config;
    bool is_name;
    struct place places[RESOLVE_MAX];
    size_t n;
    struct resolve *question; /* NULL: none under way */
    struct wg_timer ask;      /* the next one */
};

struct static_target {
    struct wg_target target;
    uint32_t magic;
    enum static_state state;
    bool wanted;                /* in SLEEPING: a wake has come, it begins when the sleep is done */
    struct wg_mailbox *mailbox; /* answers of the resolver; NULL without names */
    struct endpoint *endpoints;
    size_t n;
    struct hook *hook; /* in WAKING and SLEEPING */
};

static struct static_target *of(struct wg_target *target)
{
    struct static_target *self = WG_CONTAINER_OF(target, struct static_target, target);
    WG_CHECK_OBJ(self, STATIC_MAGIC);
    return self;
}

static const struct wg_config_static *config_of(const struct static_target *self)
{
    return &self->target.model->static_;
}

static void find_all(struct endpoint *endpoint)
{
    for (size_t i = 0; i < endpoint->n; i++)
        if (endpoint->places[i].instance == 0)
            endpoint->places[i].instance =
                target_found(&endpoint->target->target, &endpoint->places[i].address);
}

static void lose_all(struct static_target *self, const char *why)
{
    for (size_t i = 0; i < self->n; i++)
        for (size_t k = 0; k < self->endpoints[i].n; k++) {
            struct place *place = &self->endpoints[i].places[k];
            if (place->instance != 0)
                target_lost(&self->target, place->instance, why);
            place->instance = 0;
        }
}

/* ---- names ---- */

static void on_resolved(void *arg, const struct resolve_answer *answer);

static void ask(struct wg_timer *timer)
{
    struct endpoint *endpoint = WG_CONTAINER_OF(timer, struct endpoint, ask);
    struct static_target *self = endpoint->target;
    if (endpoint->question)
        return;
    const int error = resolve_start(self->mailbox, endpoint->config->host, endpoint->config->port,
                                    on_resolved, endpoint, &endpoint->question);
    if (error < 0) {
        wg_warn("static", self->target.model->name, "%s cannot be looked up: %s", endpoint->config->host,
                strerror(-error));
        wg_timer_set_after(timer, retry);
    }
}

static bool has(const struct place *places, size_t n, const struct wg_address *address)
{
    for (size_t i = 0; i < n; i++)
        if (address_equal(&places[i].address, address))
            return true;
    return false;
}

/* Takes out what the answer no longer has. Returns how many of them were found, with their instances. */
static size_t take_missing(struct endpoint *endpoint, const struct resolve_answer *answer,
                           uint64_t ret_gone[static RESOLVE_MAX])
{
    size_t kept = 0, gone = 0;
    for (size_t i = 0; i < endpoint->n; i++) {
        struct place *place = &endpoint->places[i];
        bool stays = false;
        for (size_t k = 0; k < answer->n && !stays; k++)
            stays = address_equal(&place->address, &answer->addresses[k]);
        if (stays) {
            endpoint->places[kept++] = *place;
            continue;
        }
        if (place->instance != 0)
            ret_gone[gone++] = place->instance;
        wg_address_clear(&place->address);
    }
    endpoint->n = kept;
    return gone;
}

static void add_new(struct endpoint *endpoint, const struct resolve_answer *answer)
{
    for (size_t i = 0; i < answer->n && endpoint->n < RESOLVE_MAX; i++) {
        if (has(endpoint->places, endpoint->n, &answer->addresses[i]))
            continue;
        struct place *place = &endpoint->places[endpoint->n++];
        *place = (struct place){.address = answer->addresses[i]};
        place->address.text = wg_xstrdup(answer->addresses[i].text);
    }
}

/* What is new is told before what is gone: a model that moves is never without a place to be. */
static void take_answer(struct endpoint *endpoint, const struct resolve_answer *answer)
{
    struct static_target *self = endpoint->target;
    uint64_t gone[RESOLVE_MAX];
    const size_t n_gone = take_missing(endpoint, answer, gone);
    add_new(endpoint, answer);
    if (self->state == STATIC_UP)
        find_all(endpoint);
    for (size_t i = 0; i < n_gone; i++)
        target_lost(&self->target, gone[i], "its name no longer leads to this address");
}

static bool follows_names(const struct static_target *self)
{
    return self->state == STATIC_WAKING || self->state == STATIC_UP;
}

/* Nobody needs to know while there is another address to be at. */
static void tell_not_found(const struct endpoint *endpoint, const char *error)
{
    struct static_target *self = endpoint->target;
    WG_AUTO_FREE char *why = wg_xasprintf("%s cannot be looked up: %s", endpoint->config->host, error);
    wg_warn("static", self->target.model->name, "%s", why);
    size_t places = 0;
    for (size_t i = 0; i < self->n; i++)
        places += self->endpoints[i].n;
    if (places == 0)
        target_trouble(&self->target, why);
}

/* A name that cannot be looked up now keeps what it had: a fault of the name server is none of the model's.
 */
static void on_resolved(void *arg, const struct resolve_answer *answer)
{
    struct endpoint *endpoint = WG_CAST(endpoint, arg, ENDPOINT_MAGIC);
    struct static_target *self = endpoint->target;
    endpoint->question = NULL;
    if (answer->n > 0) {
        take_answer(endpoint, answer);
    } else {
        tell_not_found(endpoint, answer->error);
    }
    if (follows_names(self))
        wg_timer_set_after(&endpoint->ask, answer->n > 0 ? refresh : retry);
}

static void follow_names(struct static_target *self, bool on)
{
    for (size_t i = 0; i < self->n; i++) {
        struct endpoint *endpoint = &self->endpoints[i];
        if (!on)
            wg_timer_cancel(&endpoint->ask);
        else if (endpoint->is_name)
            wg_timer_set_after(&endpoint->ask, 0);
    }
}

/* ---- states ---- */

static void set_state(struct static_target *self, enum static_state state)
{
    static const char *const names[] = {"asleep", "waking", "up", "sleeping"};
    wg_debug("static", self->target.model->name, "%s -> %s", names[self->state], names[state]);
    const bool followed = follows_names(self);
    if (state != STATIC_SLEEPING)
        self->wanted = false;
    self->state = state;
    if (follows_names(self) != followed)
        follow_names(self, !followed);
}

static void rise(struct static_target *self)
{
    set_state(self, STATIC_UP);
    for (size_t i = 0; i < self->n; i++)
        find_all(&self->endpoints[i]);
}

static void on_wake_answered(void *arg, const char *why)
{
    struct static_target *self = WG_CAST(static_target, arg, STATIC_MAGIC);
    self->hook = NULL;
    if (!why) {
        rise(self);
        return;
    }
    wg_warn("static", self->target.model->name, "%s", why);
    set_state(self, STATIC_ASLEEP);
    target_failed(&self->target, why);
}

static void on_wake_trouble(void *arg, const char *why)
{
    target_trouble(&WG_CAST(static_target, arg, STATIC_MAGIC)->target, why);
}

/* The hook is repeated for as long as somebody may wait for it. */
static void begin_wake(struct static_target *self)
{
    const struct hook_order order = {.hook = &config_of(self)->wake,
                                     .name = "wake hook",
                                     .model = self->target.model->name,
                                     .patience = self->target.model->wake.timeout,
                                     .trouble = on_wake_trouble,
                                     .done = on_wake_answered,
                                     .arg = self};
    if (!order.hook->url[0]) {
        rise(self);
        return;
    }
    set_state(self, STATIC_WAKING);
    self->hook = hook_call(self->target.env.loop, self->target.env.fetch, &order);
}

static void end_sleep(struct static_target *self)
{
    const bool wanted = self->wanted;
    set_state(self, STATIC_ASLEEP);
    if (wanted)
        begin_wake(self);
    else
        target_asleep(&self->target);
}

static void on_sleep_answered(void *arg, const char *why)
{
    struct static_target *self = WG_CAST(static_target, arg, STATIC_MAGIC);
    self->hook = NULL;
    if (why)
        wg_error("static", self->target.model->name, "%s; taken for asleep all the same", why);
    end_sleep(self);
}

static void begin_sleep(struct static_target *self)
{
    const struct hook_order order = {.hook = &config_of(self)->sleep,
                                     .name = "sleep hook",
                                     .model = self->target.model->name,
                                     .tries = SLEEP_TRIES,
                                     .patience = WG_USEC_NEVER,
                                     .done = on_sleep_answered,
                                     .arg = self};
    self->hook = hook_cancel(self->hook);
    lose_all(self, "put to sleep");
    set_state(self, STATIC_SLEEPING);
    if (order.hook->url[0])
        self->hook = hook_call(self->target.env.loop, self->target.env.fetch, &order);
    else
        end_sleep(self);
}

/* ---- what the target is asked for ---- */

static void open_endpoint(struct static_target *self, struct endpoint *endpoint,
                          const struct wg_config_endpoint *config)
{
    endpoint->magic = ENDPOINT_MAGIC;
    endpoint->target = self;
    endpoint->config = config;
    wg_timer_init(&endpoint->ask, self->target.env.loop, ask);
    endpoint->is_name = !resolve_is_address(config->host, config->port, &endpoint->places[0].address);
    endpoint->n = endpoint->is_name ? 0 : 1;
    if (endpoint->is_name && !self->mailbox) {
        self->mailbox = wg_mailbox_new(self->target.env.loop, NULL);
        WG_ASSERT(self->mailbox);
    }
}

static void static_open(struct wg_target *target)
{
    struct static_target *self = WG_CONTAINER_OF(target, struct static_target, target);
    self->magic = STATIC_MAGIC;
    self->n = config_of(self)->n_endpoints;
    self->endpoints = wg_xcalloc(self->n, sizeof(*self->endpoints));
    for (size_t i = 0; i < self->n; i++)
        open_endpoint(self, &self->endpoints[i], &config_of(self)->endpoints[i]);
    if (!config_of(self)->wake.url[0])
        rise(self);
}

static void static_wake(struct wg_target *target)
{
    struct static_target *self = of(target);
    switch (self->state) {
    case STATIC_ASLEEP:
        target_forget_outcome(target);
        begin_wake(self);
        return;
    case STATIC_SLEEPING:
        self->wanted = true;
        return;
    case STATIC_WAKING:
        hook_renew(self->hook);
        return;
    case STATIC_UP:
        return;
    }
}

static void static_sleep(struct wg_target *target)
{
    struct static_target *self = of(target);
    target_forget_outcome(target);
    switch (self->state) {
    case STATIC_ASLEEP:
        target_asleep(target);
        return;
    case STATIC_SLEEPING:
        self->wanted = false;
        return;
    case STATIC_WAKING: /* it may be half awake */
    case STATIC_UP:
        begin_sleep(self);
        return;
    }
}

static void static_close(struct wg_target *target)
{
    struct static_target *self = of(target);
    self->hook = hook_cancel(self->hook);
    for (size_t i = 0; i < self->n; i++) {
        struct endpoint *endpoint = &self->endpoints[i];
        wg_timer_cancel(&endpoint->ask);
        endpoint->question = resolve_cancel(endpoint->question);
        for (size_t k = 0; k < endpoint->n; k++)
            wg_address_clear(&endpoint->places[k].address);
    }
    self->mailbox = wg_mailbox_free(self->mailbox);
    free(self->endpoints);
    self->magic = 0;
}

const struct target_kind static_kind = {
    .size = sizeof(struct static_target),
    .open = static_open,
    .wake = static_wake,
    .sleep = static_sleep,
    .close = static_close,
};
