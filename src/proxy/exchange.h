/* One request's life: what the parts of this room (admit, hold, forward, relay, answer) share of it. */
#pragma once

#include "route.h"
#include "worker.h"

#define EXCHANGE_MAGIC 0xe8c4a29e

/* States only move forward, but for the one way back to HELD: a request that provably never ran. */
enum exchange_state {
    EXCHANGE_HEAD,    /* the head is being checked */
    EXCHANGE_BODY,    /* the body arrives and is read */
    EXCHANGE_HELD,    /* a ticket is lent to control (or about to be): the model is cold or busy */
    EXCHANGE_CONNECT, /* a slot is taken; the connection to the endpoint is being made */
    EXCHANGE_SEND,    /* the request goes out; the answer's head is awaited */
    EXCHANGE_RELAY,   /* the answer is passed on */
    EXCHANGE_SETTLED, /* everything taken was given back; to be reaped */
};

/* Why the answer's head is not simply passed on: a heartbeat has begun the answer already. */
enum late_state {
    LATE_NOT,    /* the answer's head is still ours to send */
    LATE_BEGUN,  /* 200 and text/event-stream went out with the first heartbeat */
    LATE_FAILED, /* and the model's answer is no stream: its text is collected for the error event */
};

struct hold;

struct exchange {
    uint32_t magic;
    enum exchange_state state;
    struct worker *worker;
    struct wg_stream *stream; /* NULL once the answer is complete or the client is gone */
    struct wg_list link;      /* in worker->exchanges */
    struct routes *routes;

    /* who asks for what */
    const struct wg_config_tenant *tenant;
    const struct wg_config_model *model; /* NULL until known */
    enum wg_api api;
    bool sniff;   /* whether the body is JSON is told by its first byte */
    bool named;   /* the path or the gateway named the model, not the body */
    bool no_wake; /* GET, HEAD, OPTIONS */
    char method[24];
    char *path;         /* that the model gets, without the query */
    struct wg_buf head; /* request line and fields for the model, without Host, Content-Length and its key */
    char *accept_encoding; /* NULL: none */
    char id[129];          /* x-request-id */
    uint64_t declared;     /* Content-Length of the request, 0 if unknown */

    /* the body */
    struct wg_chain body;
    uint64_t charged; /* bytes taken from limits.maxHeldBytes: what is kept of the head, and */
    uint64_t room;    /* those of them that are for the body */
    uint64_t received;
    struct wg_skim *skim;
    struct wg_multipart *multipart;
    bool streams; /* "stream": true */
    uint64_t tokens;

    /* waiting and running */
    struct hold *hold;
    wg_usec client_wait; /* Prefer: wait; NEVER: not said */
    wg_usec announced;   /* the SDK's own timeout; NEVER: not said */
    bool waited_cold, waited;
    unsigned attempts;            /* that provably did not run */
    struct wg_endpoint *endpoint; /* a reference, with a slot taken */
    struct wg_back *back;
    bool healthy; /* the endpoint did its part: the slot limit may grow */
    enum late_state late;
    struct wg_buf late_text;
    wg_usec heartbeat_at, deadline; /* monotonic; NEVER: none */
    struct wg_timer timer;          /* at the nearer of the two, or earlier */
    struct wg_deferred step;        /* hold or dispatch at the end of this turn */
    struct wg_deferred dead;

    /* for metrics and the access log */
    wg_usec arrived, held_at, held_for, first_byte_at;
    int status;
    uint64_t answered;  /* bytes of the answer's body */
    int outcome;        /* enum wg_reason, WG_OUTCOME_OK or WG_OUTCOME_CLIENT_CLOSED */
    const char *detail; /* for the log: what went wrong behind; static text or owned by detail_text */
    char detail_text[128];
};

/* exchange.c */
struct exchange *exchange_new(struct worker *worker, struct wg_stream *stream);
/* The one place that changes the state. */
void exchange_set_state(struct exchange *x, enum exchange_state state);
/* The one place that gives back whatever was taken: slot, bytes, ticket, back connection. Idempotent. */
void exchange_settle(struct exchange *x, int outcome);
void exchange_set_heartbeat(struct exchange *x, wg_usec at);
void exchange_set_deadline(struct exchange *x, wg_usec at);
void exchange_give_back_slot(struct exchange *x);
/* Body and head are with the model, or not wanted any more: it is not sent again. */
void exchange_free_request(struct exchange *x);
const struct wg_skim_result *exchange_skimmed(const struct exchange *x);
struct wg_model_metrics *exchange_model_metrics(const struct exchange *x);
static inline const struct wg_config *exchange_config(const struct exchange *x)
{
    return x->routes->plan->config;
}

/* admit.c: the checks, in the contract's order. */
void *admit_head(void *owner, struct wg_stream *stream, const struct wg_request *request);
void admit_body(void *x, const char *data, size_t len);
void admit_body_end(void *x, const struct wg_fields *trailers);
void admit_body_failed(void *x, const char *why);
void admit_body_stalled(void *x);

/* patience.c: how long the client says it will wait; a length, or NEVER. */
wg_usec patience_prefer(const struct wg_fields *fields);
wg_usec patience_announced(const struct wg_fields *fields);

/* hold.c */
/* Takes a slot if the model is warm and one is free, else holds. */
void hold_or_forward(struct exchange *x);
/* Held again after an attempt that provably never ran. */
void hold_again(struct exchange *x);
/* The client left, or the request ended otherwise, while control has the ticket. */
void hold_leave(struct exchange *x);
/* The heartbeat's time has come. */
void hold_beat(struct exchange *x);

/* forward.c */
/* Request line and fields, made while the client's head is there. */
void forward_prepare(struct exchange *x, const struct wg_request *request, struct wg_slice path, bool trusted,
                     const struct sockaddr_storage *peer);
/* Applies the edits to the body: the model's name. */
void forward_edit_body(struct exchange *x);
/* A slot of x->endpoint is taken: off it goes. */
void forward_start(struct exchange *x);

/* relay.c */
extern const struct wg_back_handler relay_handler;
void relay_drained(void *x);
void relay_timed_out(struct exchange *x);

/* answer.c: our own answers. Each settles the exchange. */
/* message NULL: the reason's own. retry_after 0: none. */
void answer_refuse(struct exchange *x, enum wg_reason reason, const char *message);
void answer_refuse_retry(struct exchange *x, enum wg_reason reason, const char *message, int retry_after,
                         bool never_retry);
void answer_refuse_method(struct exchange *x, const char *allow);
/* A 200 with a JSON body. */
void answer_json(struct exchange *x, struct wg_buf *body);
/* The fields that each answer carries. */
void answer_add_common(struct exchange *x, struct wg_fields *fields, char timing[static 64]);
/* The JSON for a head that could not be parsed. */
void answer_malformed(void *owner, struct wg_front *front, int status, const char *why, struct wg_buf *body);

/* models.c: GET /v1/models and /v1/models/{id}. */
void models_list(struct exchange *x);
void models_entry(struct exchange *x, const struct wg_config_model *model);

/* access.c */
void access_log(const struct exchange *x);
