/* The half of a model that acts: its target and the probers of what the target found, on the service loop. It
 * decides nothing. Control and agent speak by mail alone, and mail keeps its order: an agent's handle may be
 * used by control until it orders FREE, and what an event tells is as old as the last order whose epoch it
 * carries. */
#pragma once

#include "wakegate/activator.h"

/* What all agents share: one a service thread. */
struct wg_service;
struct wg_agent;

enum wg_agent_event_kind {
    WG_AGENT_FOUND,     /* instance, address: there is something to prove, and it is being proved */
    WG_AGENT_LOST,      /* instance, text */
    WG_AGENT_PHASE,     /* phase, at */
    WG_AGENT_TROUBLE,   /* text: what holds up the wake, for now */
    WG_AGENT_FAILED,    /* text: the wake cannot succeed */
    WG_AGENT_DETAIL,    /* text: the last of LOST and FAILED, longer, for operators */
    WG_AGENT_ASLEEP,    /* the sleep is done */
    WG_AGENT_PROVED,    /* instance, at: the probe passed; it is not probed any more */
    WG_AGENT_NOT_READY, /* instance, text, steady: told when the answer changes */
    WG_AGENT_EVENTS
};

struct wg_agent_event {
    struct wg_mail mail;
    enum wg_agent_event_kind kind;
    uint32_t model_id;
    uint64_t agent_id;
    uint64_t epoch; /* of the last wake or sleep that the agent had taken when this happened */
    uint64_t instance;
    struct sockaddr_storage sa;
    socklen_t sa_len;
    enum wg_phase phase;
    wg_usec at;
    bool steady;    /* the same refusal for long enough that waiting will not help */
    char text[448]; /* FOUND: the authority; else words for people */
};

/* `report` is the deliver of events at `control`, which owns and frees them. NULL if the system refuses. */
struct wg_service *wg_service_new(const struct wg_target_env *env, struct wg_mailbox *control,
                                  void (*report)(struct wg_mail *mail, void *receiver));
/* When the service loop no longer runs: frees all agents too. */
struct wg_service *wg_service_free(struct wg_service *service);

/* From here on: control's thread. The epoch is the one that its first events carry. Keeps a reference to
 * config. */
struct wg_agent *wg_agent_new(struct wg_service *service, uint32_t model_id, uint64_t agent_id,
                              uint64_t epoch, struct wg_config *config, const struct wg_config_model *spec);
void wg_agent_wake(struct wg_agent *agent, uint64_t epoch);
void wg_agent_sleep(struct wg_agent *agent, uint64_t epoch);
/* Probes an instance again that was proved. */
void wg_agent_prove(struct wg_agent *agent, uint64_t instance);
/* The target is the same, other options may differ. */
void wg_agent_configure(struct wg_agent *agent, struct wg_config *config, const struct wg_config_model *spec);
/* The last order. A process is stopped in the background. */
void wg_agent_release(struct wg_agent *agent);
