/* What modelsim remembers of the requests it got: the ring of records, the counters, the log file. */
#include "modelsim.h"

#include <event2/buffer.h>
#include <event2/keyvalq_struct.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BODY_KEPT = 4096 };

double sim_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static const char *method_name(enum evhttp_cmd_type type)
{
    switch (type) {
    case EVHTTP_REQ_GET:
        return "GET";
    case EVHTTP_REQ_POST:
        return "POST";
    case EVHTTP_REQ_HEAD:
        return "HEAD";
    case EVHTTP_REQ_PUT:
        return "PUT";
    case EVHTTP_REQ_DELETE:
        return "DELETE";
    case EVHTTP_REQ_OPTIONS:
        return "OPTIONS";
    default:
        return "OTHER";
    }
}

static json_t *headers_json(const struct evkeyvalq *headers)
{
    json_t *list = json_array();
    const struct evkeyval *header = NULL;
    for (header = headers->tqh_first; header != NULL; header = header->next.tqe_next)
        json_array_append_new(list, json_pack("[s, s]", header->key, header->value));
    return list;
}

static void record_free(struct sim_record *record)
{
    json_decref(record->headers);
    free(record->body);
    *record = (struct sim_record){0};
}

static void hash(const unsigned char *data, size_t len, char hex[65])
{
    unsigned char sum[32];
    size_t n = 0;
    if (!EVP_Q_digest(NULL, "SHA256", NULL, data, len, sum, &n))
        return;
    for (size_t i = 0; i < n; i++)
        snprintf(hex + 2 * i, 3, "%02x", sum[i]);
}

static void keep_body(struct sim_record *record, struct evbuffer *input)
{
    size_t len = evbuffer_get_length(input);
    const unsigned char *data = len > 0 ? evbuffer_pullup(input, -1) : (const unsigned char *)"";
    record->body_size = len;
    hash(data, len, record->sha256);
    size_t kept = len < BODY_KEPT ? len : BODY_KEPT;
    record->body = calloc(1, kept + 1);
    if (record->body != NULL)
        memcpy(record->body, data, kept);
}

struct sim_record *sim_record_new(struct sim *sim, struct evhttp_request *req, unsigned connection)
{
    uint64_t id = ++sim->last_id;
    struct sim_record *record = &sim->records[id % SIM_RECORDS];
    record_free(record);
    record->id = id;
    record->begin = sim_now();
    record->connection = connection;
    record->outcome = "running";
    snprintf(record->method, sizeof record->method, "%s", method_name(evhttp_request_get_command(req)));
    snprintf(record->path, sizeof record->path, "%s", evhttp_request_get_uri(req));
    record->headers = headers_json(evhttp_request_get_input_headers(req));
    keep_body(record, evhttp_request_get_input_buffer(req));
    sim->stats.body_bytes += record->body_size;
    return record;
}

struct sim_record *sim_record_find(struct sim *sim, uint64_t id)
{
    struct sim_record *record = &sim->records[id % SIM_RECORDS];
    return record->id == id && id != 0 ? record : NULL;
}

static json_t *record_json(const struct sim_record *record)
{
    json_t *json =
        json_pack("{s:I, s:s, s:s, s:s, s:s, s:f, s:f, s:i, s:i, s:i, s:i, s:s, s:s, s:I, s:O}", "id",
                  (json_int_t)record->id, "method", record->method, "path", record->path, "model",
                  record->model, "prompt", record->prompt, "begin", record->begin, "end", record->end,
                  "concurrency", (int)record->concurrency, "connection", (int)record->connection, "status",
                  record->status, "tokens", record->tokens, "outcome", record->outcome, "sha256",
                  record->sha256, "body_size", (json_int_t)record->body_size, "headers", record->headers);
    if (json == NULL)
        return NULL;
    json_t *body = json_string(record->body != NULL ? record->body : "");
    if (body != NULL)
        json_object_set_new(json, "body", body);
    return json;
}

void sim_record_end(struct sim *sim, struct sim_record *record, const char *outcome, int status, int tokens)
{
    if (record == NULL)
        return;
    record->end = sim_now();
    record->outcome = outcome;
    record->status = status;
    record->tokens = tokens;
    if (sim->log == NULL)
        return;
    json_t *json = record_json(record);
    json_object_del(json, "headers");
    json_object_del(json, "body");
    json_dumpf(json, sim->log, JSON_COMPACT);
    fputc('\n', sim->log);
    fflush(sim->log);
    json_decref(json);
}

void sim_journal_clear(struct sim *sim)
{
    for (size_t i = 0; i < SIM_RECORDS; i++)
        record_free(&sim->records[i]);
    struct sim_stats was = sim->stats;
    sim->stats = (struct sim_stats){
        .concurrent = was.concurrent,
        .max_concurrent = was.concurrent,
        .open_connections = was.open_connections,
        .max_open_connections = was.open_connections,
    };
    sim->prompts = 0;
}

json_t *sim_stats_json(const struct sim *sim)
{
    static const char *const phases[] = {"closed", "loading", "ready", "asleep"};
    const struct sim_stats *s = &sim->stats;
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"executions", s->executions},
        {"finished", s->finished},
        {"client_closed", s->client_closed},
        {"faulted", s->faulted},
        {"refused", s->refused},
        {"loading", s->loading},
        {"connections", s->connections},
        {"body_bytes", s->body_bytes},
        {"concurrent", s->concurrent},
        {"max_concurrent", s->max_concurrent},
        {"open_connections", s->open_connections},
        {"max_open_connections", s->max_open_connections},
        {"wakes", s->wakes},
        {"sleeps", s->sleeps},
    };
    json_t *json = json_pack("{s:s, s:f}", "phase", phases[sim->phase], "now", sim_now());
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        json_object_set_new(json, rows[i].name, json_integer((json_int_t)rows[i].value));
    return json;
}

json_t *sim_requests_json(struct sim *sim, size_t last)
{
    json_t *list = json_array();
    uint64_t n = last < SIM_RECORDS ? last : SIM_RECORDS;
    uint64_t first = sim->last_id > n ? sim->last_id - n + 1 : 1;
    for (uint64_t id = first; id <= sim->last_id; id++) {
        const struct sim_record *record = sim_record_find(sim, id);
        if (record != NULL)
            json_array_append_new(list, record_json(record));
    }
    return list;
}
