/* modelsim: an OpenAI-compatible model server without a model, with a cold start, slots and faults on order.
 * It stands on libevent's own evhttp and shares no code with Wakegate. One thread; everything hangs on struct
 * sim. */
#pragma once

#include <event2/event.h>
#include <event2/http.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum sim_fault {
    FAULT_NONE,
    FAULT_HANG,                /* takes the request, never answers */
    FAULT_SILENCE,             /* headers of a 200, then nothing */
    FAULT_RESET_BEFORE,        /* RST instead of an answer */
    FAULT_RESET_AFTER_HEADERS, /* headers and the first piece, then RST */
    FAULT_TRUNCATE,            /* half of the answer, then FIN */
    FAULT_ERROR_200,           /* an error object inside a 200 */
    FAULT_SSE_ERROR,           /* half of the stream, then an error event and a regular end */
    FAULT_GARBAGE,             /* a 200 that is not JSON */
    FAULT_NO_CHOICES,          /* a 200 with an empty list of choices */
    FAULT_NO_USAGE,            /* a good answer without usage */
    FAULT_REASONING,           /* all tokens go to reasoning, the text is empty */
    FAULT_STATUS,              /* status:NNN, an error answer */
};

enum sim_phase {
    PHASE_CLOSED,  /* the port is not open yet */
    PHASE_LOADING, /* 503 "Loading model" on every route of the API */
    PHASE_READY,
    PHASE_ASLEEP, /* after POST /sleep: prompts get 503 */
};

/* Every one of them is a row of the table in options.c; names there, units here. */
struct sim_options {
    char host[64], model[128], log[256], only[64], fault_name[32];
    int port, tokens, chunk_bytes, slots, fault_after, fault_count, exit_code;
    double port_closed, load, wake_load, keep_alive, exit_after; /* seconds */
    double ttft;                                                 /* milliseconds */
    double tokens_per_second;                                    /* 0: as fast as they are taken */
    bool ignore_term, fork, asleep;
    enum sim_fault fault; /* fault_name, understood */
    int fault_status;     /* of status:NNN */
};

struct sim_stats {
    uint64_t executions;    /* prompts that were taken up, whatever became of them */
    uint64_t finished;      /* of these: answered to the end */
    uint64_t client_closed; /* of these: the client went first */
    uint64_t faulted;       /* of these: ended by a fault */
    uint64_t refused;       /* prompts above the slots */
    uint64_t loading;       /* requests answered with "Loading model", or while asleep */
    uint64_t connections;   /* accepted */
    uint64_t body_bytes;
    unsigned concurrent, max_concurrent;             /* prompts that run */
    unsigned open_connections, max_open_connections; /* of those that sent at least one request */
    unsigned wakes, sleeps;                          /* POST /wake_up, /sleep */
};

enum { SIM_RECORDS = 8192, SIM_CONNECTIONS = 65536, SIM_MAX_BODY = 256 << 20 };

/* One request, in a ring of the last SIM_RECORDS. */
struct sim_record {
    uint64_t id; /* 1, 2, … in order of arrival; 0: empty */
    char method[8], path[160], model[128], prompt[160], sha256[65];
    char *body;      /* the first 4 KiB, NUL-terminated */
    json_t *headers; /* list of [name, value] as received */
    size_t body_size;
    double begin, end;    /* monotonic seconds; end 0: still running */
    unsigned concurrency; /* prompts running when it began, itself included */
    unsigned connection;  /* serial number of its connection */
    int status, tokens;
    const char *outcome; /* "running", "finished", "client_closed", "fault", "refused" */
};

struct sim_job;

/* A client connection, from its first request on; found by its descriptor. */
struct sim_conn {
    struct sim *sim;
    struct evhttp_connection *evcon;
    struct event *closed; /* the client has shut its side */
    struct sim_job *job;  /* the prompt that runs on it */
    int fd;
    unsigned serial;
};

struct sim {
    struct sim_options options;
    struct event_base *base;
    struct evhttp *http;
    struct event *phase_timer, *exit_timer, *on_term, *on_int;
    enum sim_phase phase;
    int listen_fd;
    FILE *log;
    struct sim_stats stats;
    uint64_t prompts; /* since the last change of the fault */
    uint64_t last_id;
    unsigned last_serial;
    struct sim_record records[SIM_RECORDS];
    struct sim_conn *conns[SIM_CONNECTIONS];
};

double sim_now(void);

/* options.c: 0; -1 and a message on stderr for a wrong call; 1 when --help was printed. */
int sim_options_parse(struct sim_options *options, int argc, char **argv);
/* Those that may change while it runs, from a JSON object. False and a message in `why` if one may not. */
bool sim_options_update(struct sim_options *options, const json_t *changes, char *why, size_t size);

/* phase.c: begins a load of that many seconds; 0 is ready at once. */
void sim_load(struct sim *sim, double seconds);
bool sim_listen(struct sim *sim);

/* journal.c */
struct sim_record *sim_record_new(struct sim *sim, struct evhttp_request *req, unsigned connection);
/* NULL when the ring has overwritten it. */
struct sim_record *sim_record_find(struct sim *sim, uint64_t id);
void sim_record_end(struct sim *sim, struct sim_record *record, const char *outcome, int status, int tokens);
void sim_journal_clear(struct sim *sim);
json_t *sim_stats_json(const struct sim *sim);
json_t *sim_requests_json(struct sim *sim, size_t last);

/* api.c: every request comes here. */
void sim_handle(struct evhttp_request *req, void *arg);
void sim_reply_json(struct evhttp_request *req, int status, json_t *body);

/* job.c: answers a prompt over time. `prompt` is borrowed, NULL for a body that is not JSON. */
enum sim_kind { KIND_CHAT, KIND_COMPLETION, KIND_EMBEDDING, KIND_ECHO };
void sim_job_start(struct sim *sim, struct sim_conn *conn, struct evhttp_request *req,
                   struct sim_record *record, enum sim_kind kind, const json_t *prompt);
/* The client has gone, or the server ends. `req_lost`: evhttp has let go of the request, it is ours to free.
 */
void sim_job_abort(struct sim_job *job, bool req_lost);
