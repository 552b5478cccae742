/* What the files of control share: the activator itself. Everything here is control's thread, unless it says
 * otherwise. */
#pragma once

#include <pthread.h>

#include "agent.h"
#include "wakegate/base/map.h"

#define WG_ACTIVATOR_MAGIC 0xac71fa70

struct wg_model;

struct wg_activator {
    uint32_t magic;
    struct wg_loop *loop;
    struct wg_mailbox *inbox;
    struct wg_service *service;
    struct wg_map *ids;       /* name -> struct wg_model, for every name ever configured */
    struct wg_model **models; /* by id; never shrinks */
    uint32_t n_models;
    uint64_t last_endpoint, last_agent; /* ids given out */
    bool shutting;
    pthread_mutex_t lock; /* guards subscribers: they come and go from other threads */
    struct wg_list subscribers;
};

/* Posts it to every subscriber; takes neither. One of the two. */
void wg_activator_publish(struct wg_activator *activator, struct wg_view *view, struct wg_plan *plan);
/* Fills in an order of the admin's kind `status`. */
void wg_activator_fill_status(struct wg_activator *activator, struct wg_status *status);
