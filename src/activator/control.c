/* The activator as others see it: messages in from any thread, publications out. All decisions are the
 * models'. */
#include "control.h"

#include <errno.h>
#include <stdlib.h>

#include "model.h"
#include "wakegate/base/log.h"

/* Who gets every publication. */
struct subscriber {
    struct wg_list link;
    struct wg_mailbox *mailbox;
    void (*deliver)(struct wg_mail *mail, void *receiver);
};

static struct wg_model *model_by_id(const struct wg_activator *activator, uint32_t id)
{
    return id < activator->n_models ? activator->models[id] : NULL;
}

static struct wg_model *model_by_name(const struct wg_activator *activator, const char *name)
{
    return wg_map_get(activator->ids, wg_slice_str(name));
}

/* ---- publications ---- */

void wg_activator_publish(struct wg_activator *activator, struct wg_view *view, struct wg_plan *plan)
{
    pthread_mutex_lock(&activator->lock);
    wg_list_foreach (node, &activator->subscribers) {
        const struct subscriber *subscriber = WG_LIST_ENTRY(node, struct subscriber, link);
        struct wg_publication *publication = WG_NEW(struct wg_publication);
        wg_mail_init(&publication->mail, subscriber->deliver);
        publication->view = view ? wg_view_ref(view) : NULL;
        publication->plan = plan ? wg_plan_ref(plan) : NULL;
        wg_mailbox_post(subscriber->mailbox, &publication->mail);
    }
    pthread_mutex_unlock(&activator->lock);
}

void wg_activator_subscribe(struct wg_activator *activator, struct wg_mailbox *mailbox,
                            void (*deliver)(struct wg_mail *mail, void *receiver))
{
    struct subscriber *subscriber = WG_NEW(struct subscriber);
    subscriber->mailbox = mailbox;
    subscriber->deliver = deliver;
    wg_list_init(&subscriber->link);
    pthread_mutex_lock(&activator->lock);
    wg_list_append(&activator->subscribers, &subscriber->link);
    pthread_mutex_unlock(&activator->lock);
}

void wg_activator_unsubscribe(struct wg_activator *activator, struct wg_mailbox *mailbox)
{
    pthread_mutex_lock(&activator->lock);
    wg_list_foreach_safe (node, &activator->subscribers) {
        struct subscriber *subscriber = WG_LIST_ENTRY(node, struct subscriber, link);
        if (subscriber->mailbox != mailbox)
            continue;
        wg_list_remove(&subscriber->link);
        free(subscriber);
    }
    pthread_mutex_unlock(&activator->lock);
}

/* ---- messages that carry little ---- */

struct message {
    struct wg_mail mail;
    void (*run)(struct wg_activator *activator, const struct message *message);
    uint32_t model_id;
    struct wg_config *config;     /* a reference, or NULL */
    struct wg_endpoint *endpoint; /* likewise */
};

static void on_message(struct wg_mail *mail, void *receiver)
{
    struct message *message = WG_CONTAINER_OF(mail, struct message, mail);
    message->run(WG_CAST(wg_activator, receiver, WG_ACTIVATOR_MAGIC), message);
    wg_config_unref(message->config);
    wg_endpoint_unref(message->endpoint);
    free(message);
}

static void post(struct wg_activator *activator, struct message fields)
{
    struct message *message = WG_NEW(struct message);
    *message = fields;
    wg_mail_init(&message->mail, on_message);
    wg_mailbox_post(activator->inbox, &message->mail);
}

static void run_freed(struct wg_activator *activator, const struct message *message)
{
    struct wg_model *model = model_by_id(activator, message->model_id);
    if (model)
        wg_model_freed(model);
}

void wg_activator_freed(struct wg_activator *activator, uint32_t model_id)
{
    post(activator, (struct message){.run = run_freed, .model_id = model_id});
}

static void run_suspect(struct wg_activator *activator, const struct message *message)
{
    struct wg_model *model = model_by_id(activator, message->model_id);
    if (model)
        wg_model_suspect(model, message->endpoint);
}

void wg_activator_suspect(struct wg_activator *activator, uint32_t model_id, struct wg_endpoint *endpoint)
{
    post(activator,
         (struct message){.run = run_suspect, .model_id = model_id, .endpoint = wg_endpoint_ref(endpoint)});
}

static void shut(struct wg_activator *activator)
{
    activator->shutting = true;
    for (uint32_t id = 0; id < activator->n_models; id++)
        wg_hold_refuse_all(activator->models[id], WG_REASON_SHUTTING_DOWN, NULL);
}

static void run_shut(struct wg_activator *activator, const struct message *message WG_UNUSED)
{
    shut(activator);
}

void wg_activator_shut(struct wg_activator *activator)
{
    post(activator, (struct message){.run = run_shut});
}

/* ---- configuration ---- */

static struct wg_model *model_get(struct wg_activator *activator, const char *name)
{
    struct wg_model *model = model_by_name(activator, name);
    if (model)
        return model;
    const uint32_t id = activator->n_models++;
    activator->models = wg_xrealloc(activator->models, activator->n_models, sizeof(void *));
    model = activator->models[id] = wg_model_new(activator, id, name);
    const int r = wg_map_insert(activator->ids, wg_slice_str(name), model);
    WG_ASSERT(r == 0);
    return model;
}

static struct wg_plan *plan_new(const struct wg_activator *activator, struct wg_config *config)
{
    struct wg_plan *plan = wg_xcalloc(1, sizeof(*plan) + config->n_models * sizeof(plan->model_ids[0]));
    atomic_init(&plan->refs, 1);
    plan->config = wg_config_ref(config);
    plan->n_ids = activator->n_models;
    for (size_t i = 0; i < config->n_models; i++)
        plan->model_ids[i] = model_by_name(activator, config->models[i].name)->id;
    return plan;
}

static void remove_missing(struct wg_activator *activator, const struct wg_config *config)
{
    for (uint32_t id = 0; id < activator->n_models; id++) {
        struct wg_model *model = activator->models[id];
        const struct wg_config_model *spec = wg_config_model(config, wg_slice_str(model->name));
        /* Its name may be another one's alias now. */
        if (!spec || strcmp(spec->name, model->name) != 0)
            wg_model_remove(model);
    }
}

static void run_configure(struct wg_activator *activator, const struct message *message)
{
    if (!activator->service)
        return;
    struct wg_config *config = message->config;
    remove_missing(activator, config);
    for (size_t i = 0; i < config->n_models; i++)
        wg_model_configure(model_get(activator, config->models[i].name), config, &config->models[i]);
    for (uint32_t id = 0; id < activator->n_models; id++)
        wg_model_publish(activator->models[id]);
    struct wg_plan *plan = plan_new(activator, config);
    wg_activator_publish(activator, NULL, plan);
    wg_plan_unref(plan);
}

void wg_activator_configure(struct wg_activator *activator, struct wg_config *config)
{
    post(activator, (struct message){.run = run_configure, .config = wg_config_ref(config)});
}

/* ---- tickets, orders, status: they carry themselves ---- */

static void on_hold(struct wg_mail *mail, void *receiver)
{
    struct wg_ticket *ticket = WG_CONTAINER_OF(mail, struct wg_ticket, mail);
    const struct wg_activator *activator = WG_CAST(wg_activator, receiver, WG_ACTIVATOR_MAGIC);
    wg_hold_prepare(ticket, activator->loop);
    struct wg_model *model = model_by_id(activator, ticket->model_id);
    if (model)
        wg_hold_ticket(model, ticket);
    else
        wg_hold_refuse(ticket, WG_REASON_MODEL_NOT_FOUND, 0, NULL);
}

void wg_activator_hold(struct wg_activator *activator, struct wg_ticket *ticket)
{
    ticket->mail_home = ticket->mail.deliver;
    wg_mail_init(&ticket->mail, on_hold);
    wg_mailbox_post(activator->inbox, &ticket->mail);
}

static void on_leave(struct wg_mail *mail, void *receiver)
{
    (void)WG_CAST(wg_activator, receiver, WG_ACTIVATOR_MAGIC);
    wg_hold_leave(WG_CONTAINER_OF(mail, struct wg_ticket, leave));
}

void wg_activator_leave(struct wg_activator *activator, struct wg_ticket *ticket)
{
    ticket->leave_home = ticket->leave.deliver;
    wg_mail_init(&ticket->leave, on_leave);
    wg_mailbox_post(activator->inbox, &ticket->leave);
}

static int carry_out(struct wg_activator *activator, const struct wg_order *order)
{
    struct wg_model *model = model_by_name(activator, order->model);
    if (!model || !model->agent.handle || model->turnover == WG_TURNOVER_REMOVE)
        return -ENOENT;
    if (order->command == WG_COMMAND_SLEEP)
        return wg_model_sleep(model);
    wg_model_wake(model);
    return 0;
}

static void on_order(struct wg_mail *mail, void *receiver)
{
    struct wg_order *order = WG_CONTAINER_OF(mail, struct wg_order, mail);
    order->ret_error = carry_out(WG_CAST(wg_activator, receiver, WG_ACTIVATOR_MAGIC), order);
    order->mail.deliver = order->mail_home;
    wg_mailbox_post(order->home, &order->mail);
}

void wg_activator_order(struct wg_activator *activator, struct wg_order *order)
{
    order->mail_home = order->mail.deliver;
    wg_mail_init(&order->mail, on_order);
    wg_mailbox_post(activator->inbox, &order->mail);
}

static void on_status(struct wg_mail *mail, void *receiver)
{
    struct wg_status *status = WG_CONTAINER_OF(mail, struct wg_status, mail);
    wg_activator_fill_status(WG_CAST(wg_activator, receiver, WG_ACTIVATOR_MAGIC), status);
    status->mail.deliver = status->mail_home;
    wg_mailbox_post(status->home, &status->mail);
}

void wg_activator_status(struct wg_activator *activator, struct wg_status *status)
{
    status->mail_home = status->mail.deliver;
    wg_mail_init(&status->mail, on_status);
    wg_mailbox_post(activator->inbox, &status->mail);
}

static void on_event(struct wg_mail *mail, void *receiver)
{
    struct wg_agent_event *event = WG_CONTAINER_OF(mail, struct wg_agent_event, mail);
    const struct wg_activator *activator = WG_CAST(wg_activator, receiver, WG_ACTIVATOR_MAGIC);
    struct wg_model *model = model_by_id(activator, event->model_id);
    WG_ASSERT(model);
    wg_model_event(model, event);
    free(event);
}

/* ---- life ---- */

struct wg_activator *wg_activator_new(const struct wg_activator_env *env)
{
    struct wg_activator *activator = WG_NEW(struct wg_activator);
    activator->magic = WG_ACTIVATOR_MAGIC;
    activator->loop = env->control;
    activator->ids = wg_map_new();
    pthread_mutex_init(&activator->lock, NULL);
    wg_list_init(&activator->subscribers);
    activator->inbox = wg_mailbox_new(env->control, activator);
    if (activator->inbox)
        activator->service = wg_service_new(&env->service, activator->inbox, on_event);
    return activator->service ? activator : wg_activator_free(activator);
}

/* The agents are gone with the service: what is still in the inbox finds models that own nothing outside. */
static void orphan(struct wg_model *model)
{
    model->agent.handle = NULL;
    model->turnover = WG_TURNOVER_NONE;
    wg_records_clear(&model->records);
}

struct wg_activator *wg_activator_free(struct wg_activator *activator)
{
    if (!activator)
        return NULL;
    activator->service = wg_service_free(activator->service);
    for (uint32_t id = 0; id < activator->n_models; id++)
        orphan(activator->models[id]);
    shut(activator);
    wg_mailbox_free(activator->inbox);
    for (uint32_t id = 0; id < activator->n_models; id++)
        wg_model_free(activator->models[id]);
    free(activator->models);
    wg_map_free(activator->ids);
    wg_list_foreach_safe (node, &activator->subscribers)
        free(WG_LIST_ENTRY(node, struct subscriber, link));
    pthread_mutex_destroy(&activator->lock);
    activator->magic = 0;
    free(activator);
    return NULL;
}
