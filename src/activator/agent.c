/* Carries out control's orders on the service loop (wake, sleep, prove) and reports what its target and its
 * probers see. */
#include "agent.h"

#include <stdio.h>
#include <stdlib.h>

#include "prober.h"
#include "wakegate/base/log.h"
#include "wakegate/base/map.h"

#define SERVICE_MAGIC 0x5e2b1ce0
#define AGENT_MAGIC   0xa6e27001

enum { SEEN_MAX = 16 };

struct wg_service {
    uint32_t magic;
    struct wg_target_env env;
    struct wg_mailbox *orders;  /* ours */
    struct wg_mailbox *control; /* where events go */
    void (*report)(struct wg_mail *mail, void *receiver);
    struct wg_list agents;
    bool stopped; /* the loop is gone: orders that are left only free what they carry */
};

struct wg_agent {
    uint32_t magic;
    struct wg_list link;
    struct wg_service *service;
    uint32_t model_id;
    uint64_t id, epoch;
    struct wg_config *config;
    const struct wg_config_model *spec;
    struct wg_model_metrics *metrics;
    struct wg_target *target;
    struct wg_list instances;
    uint64_t seen[SEEN_MAX]; /* failures of this wake that are logged already, as hashes */
    size_t n_seen;
};

/* What the target found, until it is lost. */
struct instance {
    uint32_t magic;
    struct wg_list link;
    struct wg_agent *agent;
    uint64_t id;
    struct wg_address address;
    struct wg_prober *prober; /* NULL: proved, or condemned */
    bool condemned;           /* a sleep has been ordered since */
    char why[320];            /* the last failure that was reported, and whether as steady */
    bool steady;
};
#define INSTANCE_MAGIC 0x1257a2ce

struct order {
    struct wg_mail mail;
    struct wg_agent *agent;
    void (*run)(struct wg_agent *agent, const struct order *order);
    uint64_t epoch, instance;
    struct wg_config *config; /* a reference, or NULL */
    const struct wg_config_model *spec;
};

/* ---- events ---- */

static struct wg_agent_event *event_new(struct wg_agent *agent, enum wg_agent_event_kind kind,
                                        uint64_t instance)
{
    struct wg_agent_event *event = WG_NEW(struct wg_agent_event);
    wg_mail_init(&event->mail, agent->service->report);
    event->kind = kind;
    event->model_id = agent->model_id;
    event->agent_id = agent->id;
    event->epoch = agent->epoch;
    event->instance = instance;
    return event;
}

static void event_post(struct wg_agent *agent, struct wg_agent_event *event)
{
    wg_mailbox_post(agent->service->control, &event->mail);
}

static void event_post_text(struct wg_agent *agent, struct wg_agent_event *event, const char *text)
{
    (void)snprintf(event->text, sizeof(event->text), "%s", text);
    event_post(agent, event);
}

static void report_phase(struct wg_agent *agent, enum wg_phase phase, wg_usec at)
{
    struct wg_agent_event *event = event_new(agent, WG_AGENT_PHASE, 0);
    event->phase = phase;
    event->at = at;
    event_post(agent, event);
}

/* ---- what the probers see ---- */

/* True once a wake for each text, and never for more than SEEN_MAX of them. */
static bool first_time(struct wg_agent *agent, const char *why)
{
    const uint64_t hash = wg_hash(why, strlen(why));
    for (size_t i = 0; i < agent->n_seen; i++)
        if (agent->seen[i] == hash)
            return false;
    if (agent->n_seen == SEEN_MAX)
        return false;
    agent->seen[agent->n_seen++] = hash;
    return true;
}

static void on_connected(void *arg, wg_usec at)
{
    struct instance *instance = WG_CAST(instance, arg, INSTANCE_MAGIC);
    report_phase(instance->agent, WG_PHASE_LISTENING, at);
}

static void on_not_ready(void *arg, const char *why, bool steady)
{
    struct instance *instance = WG_CAST(instance, arg, INSTANCE_MAGIC);
    struct wg_agent *agent = instance->agent;
    if (first_time(agent, why))
        wg_info("probe", agent->spec->name, "%s is not ready: %s", instance->address.text, why);
    if (steady == instance->steady && strncmp(instance->why, why, sizeof(instance->why) - 1) == 0)
        return;
    instance->steady = steady;
    (void)snprintf(instance->why, sizeof(instance->why), "%s", why);
    struct wg_agent_event *event = event_new(agent, WG_AGENT_NOT_READY, instance->id);
    event->steady = steady;
    event_post_text(agent, event, why);
}

static void on_proved(void *arg, wg_usec at)
{
    struct instance *instance = WG_CAST(instance, arg, INSTANCE_MAGIC);
    instance->prober = wg_prober_free(instance->prober);
    struct wg_agent_event *event = event_new(instance->agent, WG_AGENT_PROVED, instance->id);
    event->at = at;
    event_post(instance->agent, event);
}

static void prove(struct instance *instance)
{
    struct wg_agent *agent = instance->agent;
    if (instance->prober || instance->condemned)
        return;
    instance->why[0] = '\0';
    instance->steady = false;
    const struct wg_prober_env env = {
        .loop = agent->service->env.loop,
        .fetch = agent->service->env.fetch,
        .metrics = agent->metrics,
        .connected = on_connected,
        .not_ready = on_not_ready,
        .proved = on_proved,
        .arg = instance,
    };
    instance->prober = wg_prober_new(&env, &instance->address, agent->spec);
}

/* ---- instances ---- */

static struct instance *instance_new(struct wg_agent *agent, uint64_t id, const struct wg_address *address)
{
    struct instance *instance = WG_NEW(struct instance);
    instance->magic = INSTANCE_MAGIC;
    instance->agent = agent;
    instance->id = id;
    instance->address = *address;
    instance->address.text = wg_xstrdup(address->text);
    wg_list_init(&instance->link);
    wg_list_append(&agent->instances, &instance->link);
    return instance;
}

static void instance_free(struct instance *instance)
{
    wg_list_remove(&instance->link);
    wg_prober_free(instance->prober);
    free(instance->address.text);
    instance->magic = 0;
    free(instance);
}

static struct instance *instance_find(struct wg_agent *agent, uint64_t id)
{
    wg_list_foreach (node, &agent->instances) {
        struct instance *instance = WG_LIST_ENTRY(node, struct instance, link);
        if (instance->id == id)
            return instance;
    }
    return NULL;
}

/* ---- what the target sees ---- */

static void on_found(void *arg, uint64_t id, const struct wg_address *address)
{
    struct wg_agent *agent = WG_CAST(wg_agent, arg, AGENT_MAGIC);
    struct instance *instance = instance_new(agent, id, address);
    struct wg_agent_event *event = event_new(agent, WG_AGENT_FOUND, id);
    event->sa = address->sa;
    event->sa_len = address->len;
    event_post_text(agent, event, address->text);
    prove(instance);
}

static void on_lost(void *arg, uint64_t id, const char *why)
{
    struct wg_agent *agent = WG_CAST(wg_agent, arg, AGENT_MAGIC);
    struct instance *instance = instance_find(agent, id);
    if (instance)
        instance_free(instance);
    event_post_text(agent, event_new(agent, WG_AGENT_LOST, id), why);
}

static void on_phase(void *arg, enum wg_phase phase, wg_usec at)
{
    report_phase(WG_CAST(wg_agent, arg, AGENT_MAGIC), phase, at);
}

static void on_trouble(void *arg, const char *why)
{
    struct wg_agent *agent = WG_CAST(wg_agent, arg, AGENT_MAGIC);
    event_post_text(agent, event_new(agent, WG_AGENT_TROUBLE, 0), why);
}

static void on_failed(void *arg, const char *why)
{
    struct wg_agent *agent = WG_CAST(wg_agent, arg, AGENT_MAGIC);
    event_post_text(agent, event_new(agent, WG_AGENT_FAILED, 0), why);
}

static void on_detail(void *arg, const char *why)
{
    struct wg_agent *agent = WG_CAST(wg_agent, arg, AGENT_MAGIC);
    event_post_text(agent, event_new(agent, WG_AGENT_DETAIL, 0), why);
}

static void on_asleep(void *arg)
{
    struct wg_agent *agent = WG_CAST(wg_agent, arg, AGENT_MAGIC);
    event_post(agent, event_new(agent, WG_AGENT_ASLEEP, 0));
}

static const struct wg_target_handler target_handler = {
    .found = on_found,
    .lost = on_lost,
    .phase = on_phase,
    .trouble = on_trouble,
    .failed = on_failed,
    .detail = on_detail,
    .asleep = on_asleep,
};

/* ---- orders, on the service loop ---- */

static void run_start(struct wg_agent *agent, const struct order *order WG_UNUSED)
{
    agent->target = wg_target_new(&agent->service->env, agent->config, agent->spec, &target_handler, agent);
}

static void run_wake(struct wg_agent *agent, const struct order *order)
{
    agent->epoch = order->epoch;
    agent->n_seen = 0;
    wg_list_foreach (node, &agent->instances) {
        struct instance *instance = WG_LIST_ENTRY(node, struct instance, link);
        instance->why[0] = '\0';
        instance->steady = false;
        if (instance->prober)
            wg_prober_rearm(instance->prober);
    }
    if (agent->target && wg_target_wakes(agent->spec))
        wg_target_wake(agent->target);
}

static void run_sleep(struct wg_agent *agent, const struct order *order)
{
    agent->epoch = order->epoch;
    wg_list_foreach (node, &agent->instances) {
        struct instance *instance = WG_LIST_ENTRY(node, struct instance, link);
        instance->prober = wg_prober_free(instance->prober);
        instance->condemned = true;
    }
    if (agent->target)
        wg_target_sleep(agent->target);
}

static void run_prove(struct wg_agent *agent, const struct order *order)
{
    struct instance *instance = instance_find(agent, order->instance);
    if (instance)
        prove(instance);
}

static void run_configure(struct wg_agent *agent, const struct order *order)
{
    wg_list_foreach (node, &agent->instances) {
        struct instance *instance = WG_LIST_ENTRY(node, struct instance, link);
        if (instance->prober)
            wg_prober_configure(instance->prober, order->spec);
    }
    wg_config_unref(agent->config);
    agent->config = wg_config_ref(order->config);
    agent->spec = order->spec;
}

static void agent_free(struct wg_agent *agent)
{
    wg_list_remove(&agent->link);
    wg_list_foreach_safe (node, &agent->instances)
        instance_free(WG_LIST_ENTRY(node, struct instance, link));
    wg_target_free(agent->target);
    wg_config_unref(agent->config);
    agent->magic = 0;
    free(agent);
}

static void run_release(struct wg_agent *agent, const struct order *order WG_UNUSED)
{
    agent_free(agent);
}

static void on_order(struct wg_mail *mail, void *receiver)
{
    struct order *order = WG_CONTAINER_OF(mail, struct order, mail);
    struct wg_service *service = WG_CAST(wg_service, receiver, SERVICE_MAGIC);
    WG_CHECK_OBJ(order->agent, AGENT_MAGIC);
    if (order->run == run_start)
        wg_list_append(&service->agents, &order->agent->link);
    if (!service->stopped || order->run == run_release)
        order->run(order->agent, order);
    wg_config_unref(order->config);
    free(order);
}

/* ---- orders, from control ---- */

static void post(struct wg_agent *agent, struct order fields)
{
    struct order *order = WG_NEW(struct order);
    *order = fields;
    order->agent = agent;
    wg_mail_init(&order->mail, on_order);
    wg_mailbox_post(agent->service->orders, &order->mail);
}

struct wg_agent *wg_agent_new(struct wg_service *service, uint32_t model_id, uint64_t agent_id,
                              uint64_t epoch, struct wg_config *config, const struct wg_config_model *spec)
{
    struct wg_agent *agent = WG_NEW(struct wg_agent);
    agent->magic = AGENT_MAGIC;
    agent->service = service;
    agent->model_id = model_id;
    agent->id = agent_id;
    agent->epoch = epoch;
    agent->config = wg_config_ref(config);
    agent->spec = spec;
    agent->metrics = wg_metrics_model(spec->name);
    wg_list_init(&agent->link);
    wg_list_init(&agent->instances);
    post(agent, (struct order){.run = run_start});
    return agent;
}

void wg_agent_wake(struct wg_agent *agent, uint64_t epoch)
{
    post(agent, (struct order){.run = run_wake, .epoch = epoch});
}

void wg_agent_sleep(struct wg_agent *agent, uint64_t epoch)
{
    post(agent, (struct order){.run = run_sleep, .epoch = epoch});
}

void wg_agent_prove(struct wg_agent *agent, uint64_t instance)
{
    post(agent, (struct order){.run = run_prove, .instance = instance});
}

void wg_agent_configure(struct wg_agent *agent, struct wg_config *config, const struct wg_config_model *spec)
{
    post(agent, (struct order){.run = run_configure, .config = wg_config_ref(config), .spec = spec});
}

void wg_agent_release(struct wg_agent *agent)
{
    post(agent, (struct order){.run = run_release});
}

/* ---- the service ---- */

struct wg_service *wg_service_new(const struct wg_target_env *env, struct wg_mailbox *control,
                                  void (*report)(struct wg_mail *mail, void *receiver))
{
    struct wg_service *service = WG_NEW(struct wg_service);
    service->magic = SERVICE_MAGIC;
    service->env = *env;
    service->control = control;
    service->report = report;
    wg_list_init(&service->agents);
    service->orders = wg_mailbox_new(env->loop, service);
    return service->orders ? service : wg_service_free(service);
}

struct wg_service *wg_service_free(struct wg_service *service)
{
    if (!service)
        return NULL;
    service->stopped = true;
    wg_mailbox_free(service->orders);
    wg_list_foreach_safe (node, &service->agents)
        agent_free(WG_LIST_ENTRY(node, struct wg_agent, link));
    service->magic = 0;
    free(service);
    return NULL;
}
