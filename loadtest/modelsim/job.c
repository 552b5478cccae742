/* The answer to one prompt, token by token: what a model would say, when it would say it, and how it fails on
 * order. */
#include "modelsim.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { BATCH_BYTES = 64 << 10 };

struct sim_job {
    struct sim *sim;
    struct sim_conn *conn;
    struct evhttp_request *req;
    struct event *timer;
    uint64_t record;
    enum sim_kind kind;
    enum sim_fault fault;
    int fault_status;
    bool stream, usage, started, writing;
    int tokens, sent, prompt_tokens, inputs, chunk_bytes;
    double first, rate; /* when the first token is due; tokens a second, 0: at once */
    char model[128];
};

static const char *const words[] = {"the ", "model ", "was ",   "asleep, ", "now ",
                                    "it ",  "is ",    "awake ", "and ",     "counts "};

static void token_text(const struct sim_job *job, int i, char *out, size_t size)
{
    if (job->chunk_bytes == 0) {
        snprintf(out, size, "%s", words[(size_t)i % (sizeof words / sizeof words[0])]);
        return;
    }
    size_t n = (size_t)job->chunk_bytes < size ? (size_t)job->chunk_bytes : size - 1;
    memset(out, 'a' + i % 26, n);
    out[n] = '\0';
}

/* ---- the ends of a job ---- */

static struct sim_job *job_free(struct sim_job *job)
{
    job->sim->stats.concurrent--;
    job->conn->job = NULL;
    event_free(job->timer);
    free(job);
    return NULL;
}

static void job_end(struct sim_job *job, const char *outcome, int status)
{
    sim_record_end(job->sim, sim_record_find(job->sim, job->record), outcome, status, job->sent);
    job_free(job);
}

static void job_finish(struct sim_job *job, int status)
{
    job->sim->stats.finished++;
    job_end(job, "finished", status);
}

void sim_job_abort(struct sim_job *job, bool req_lost)
{
    /* evhttp lets go of a request that was not answered yet: then nobody else would free it */
    if (req_lost && evhttp_request_get_connection(job->req) == NULL)
        evhttp_request_free(job->req);
    job->sim->stats.client_closed++;
    job_end(job, "client_closed", job->started ? 200 : 0);
}

/* Breaks the connection: with RST, or with FIN after what was written. */
static void job_break(struct sim_job *job, bool reset)
{
    struct evhttp_connection *evcon = job->conn->evcon;
    int fd = job->conn->fd;
    job->sim->stats.faulted++;
    if (reset)
        (void)connect(fd, &(struct sockaddr){.sa_family = AF_UNSPEC}, sizeof(struct sockaddr));
    evhttp_connection_set_closecb(evcon, NULL, NULL);
    struct sim_conn *conn = job->conn;
    job_end(job, "fault", 0);
    event_free(conn->closed);
    conn->sim->conns[fd] = NULL;
    conn->sim->stats.open_connections--;
    free(conn);
    evhttp_connection_free(evcon);
}

static void job_after(struct sim_job *job, double seconds)
{
    long usec = (long)(seconds * 1e6);
    struct timeval tv = {.tv_sec = usec / 1000000, .tv_usec = usec % 1000000};
    event_add(job->timer, &tv);
}

/* ---- pieces of an answer ---- */

static json_t *usage_json(const struct sim_job *job)
{
    return json_pack("{s:i, s:i, s:i}", "prompt_tokens", job->prompt_tokens, "completion_tokens", job->sent,
                     "total_tokens", job->prompt_tokens + job->sent);
}

/* The part of a choice that carries text: message, delta or text. */
static json_t *choice_json(const struct sim_job *job, const char *text, bool delta, const char *finish)
{
    json_t *choice = json_pack("{s:i, s:s?}", "index", 0, "finish_reason", finish);
    if (job->kind == KIND_COMPLETION) {
        json_object_set_new(choice, "text", json_string(job->fault == FAULT_REASONING ? "" : text));
        return choice;
    }
    json_t *part = json_object();
    if (!delta || job->sent == 0)
        json_object_set_new(part, "role", json_string("assistant"));
    if (job->fault == FAULT_REASONING)
        json_object_set_new(part, "reasoning_content", json_string(text));
    json_object_set_new(part, "content", json_string(job->fault == FAULT_REASONING ? "" : text));
    json_object_set_new(choice, delta ? "delta" : "message",
                        finish != NULL && delta ? json_object() : json_incref(part));
    json_decref(part);
    return choice;
}

static json_t *envelope(const struct sim_job *job, bool chunk)
{
    const char *object = job->kind == KIND_COMPLETION ? "text_completion"
                         : chunk                      ? "chat.completion.chunk"
                                                      : "chat.completion";
    char id[40];
    snprintf(id, sizeof id, "%s-%llu", job->kind == KIND_COMPLETION ? "cmpl" : "chatcmpl",
             (unsigned long long)job->record);
    return json_pack("{s:s, s:s, s:i, s:s}", "id", id, "object", object, "created", 1700000000, "model",
                     job->model);
}

static json_t *error_json(int code, const char *message)
{
    return json_pack("{s:{s:i, s:s, s:s}}", "error", "code", code, "message", message, "type",
                     "server_error");
}

static json_t *whole_text(struct sim_job *job)
{
    struct evbuffer *text = evbuffer_new();
    char token[8192];
    for (int i = 0; i < job->tokens; i++) {
        token_text(job, i, token, sizeof token);
        evbuffer_add(text, token, strlen(token));
    }
    job->sent = job->tokens;
    size_t len = evbuffer_get_length(text);
    json_t *string = json_stringn(len > 0 ? (const char *)evbuffer_pullup(text, -1) : "", len);
    evbuffer_free(text);
    return string;
}

static json_t *embeddings_json(struct sim_job *job)
{
    json_t *data = json_array();
    for (int i = 0; i < job->inputs; i++)
        json_array_append_new(data, json_pack("{s:s, s:i, s:[f,f,f,f]}", "object", "embedding", "index", i,
                                              "embedding", 0.25, -0.5, 0.125, 1.0));
    if (job->fault == FAULT_NO_CHOICES)
        json_array_clear(data);
    return json_pack("{s:s, s:o, s:s, s:{s:i, s:i}}", "object", "list", "data", data, "model", job->model,
                     "usage", "prompt_tokens", job->prompt_tokens, "total_tokens", job->prompt_tokens);
}

static json_t *answer_json(struct sim_job *job)
{
    if (job->fault == FAULT_ERROR_200)
        return error_json(500, "the engine died");
    if (job->kind == KIND_EMBEDDING)
        return embeddings_json(job);
    if (job->kind == KIND_ECHO)
        return json_pack("{s:s, s:s, s:s}", "object", "echo", "model", job->model, "text", "heard you");
    json_t *text = whole_text(job);
    json_t *json = envelope(job, false);
    json_t *choices = json_array();
    if (job->fault != FAULT_NO_CHOICES)
        json_array_append_new(choices, choice_json(job, json_string_value(text), false, "stop"));
    json_object_set_new(json, "choices", choices);
    if (job->fault != FAULT_NO_USAGE)
        json_object_set_new(json, "usage", usage_json(job));
    json_decref(text);
    return json;
}

/* ---- answers in one piece ---- */

static void answer_status(struct sim_job *job)
{
    int status = job->fault_status;
    json_t *body = error_json(status, "refused on order");
    if (status == 503 || status == 429)
        evhttp_add_header(evhttp_request_get_output_headers(job->req), "Retry-After", "1");
    struct evhttp_request *req = job->req;
    job->sim->stats.faulted++;
    job_end(job, "fault", status);
    sim_reply_json(req, status, body);
}

/* A declared length that is never reached. */
static void answer_cut(struct sim_job *job, const char *text, size_t len, size_t part)
{
    char size[32];
    snprintf(size, sizeof size, "%zu", len);
    struct evkeyvalq *headers = evhttp_request_get_output_headers(job->req);
    evhttp_add_header(headers, "Content-Type", "application/json");
    evhttp_add_header(headers, "Content-Length", size);
    evhttp_send_reply_start(job->req, 200, NULL);
    job->started = true;
    struct evbuffer *out = evbuffer_new();
    evbuffer_add(out, text, part);
    evhttp_send_reply_chunk(job->req, out);
    evbuffer_free(out);
    if (job->fault != FAULT_SILENCE)
        job_after(job, 0.02); /* once it is written: job_tick breaks it */
}

static void answer_whole(struct sim_job *job)
{
    json_t *json = answer_json(job);
    char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    size_t len = strlen(text);
    if (job->fault == FAULT_TRUNCATE || job->fault == FAULT_RESET_AFTER_HEADERS) {
        answer_cut(job, text, len, len / 2);
    } else if (job->fault == FAULT_SILENCE) {
        answer_cut(job, text, len, 0);
    } else {
        struct evbuffer *out = evbuffer_new();
        if (job->fault == FAULT_GARBAGE)
            evbuffer_add_printf(out, "<html>this is no model</html>");
        else
            evbuffer_add(out, text, len);
        struct evhttp_request *req = job->req;
        evhttp_add_header(evhttp_request_get_output_headers(req), "Content-Type", "application/json");
        job_finish(job, 200);
        evhttp_send_reply(req, 200, NULL, out);
        evbuffer_free(out);
    }
    free(text);
}

/* ---- answers as a stream ---- */

static void add_event(struct evbuffer *out, json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT);
    evbuffer_add_printf(out, "data: %s\n\n", text);
    free(text);
    json_decref(json);
}

static void add_token(struct sim_job *job, struct evbuffer *out)
{
    char token[8192];
    token_text(job, job->sent, token, sizeof token);
    json_t *json = envelope(job, true);
    json_object_set_new(json, "choices", json_pack("[o]", choice_json(job, token, true, NULL)));
    add_event(out, json);
    job->sent++;
}

static void add_ending(struct sim_job *job, struct evbuffer *out)
{
    json_t *json = envelope(job, true);
    json_object_set_new(json, "choices", json_pack("[o]", choice_json(job, "", true, "stop")));
    add_event(out, json);
    if (job->usage && job->fault != FAULT_NO_USAGE) {
        json = envelope(job, true);
        json_object_set_new(json, "choices", json_array());
        json_object_set_new(json, "usage", usage_json(job));
        add_event(out, json);
    }
    evbuffer_add_printf(out, "data: [DONE]\n\n");
}

static void stream_step(struct sim_job *job);

static void on_written(struct evhttp_connection *evcon, void *arg)
{
    (void)evcon;
    struct sim_job *job = arg;
    job->writing = false;
    if (!event_pending(job->timer, EV_TIMEOUT, NULL))
        job_after(job, 0);
}

static void stream_start(struct sim_job *job)
{
    struct evkeyvalq *headers = evhttp_request_get_output_headers(job->req);
    evhttp_add_header(headers, "Content-Type", "text/event-stream");
    evhttp_add_header(headers, "Cache-Control", "no-cache");
    evhttp_send_reply_start(job->req, 200, NULL);
    job->started = true;
}

static void stream_end(struct sim_job *job, struct evbuffer *out)
{
    struct evhttp_request *req = job->req;
    if (evbuffer_get_length(out) > 0)
        evhttp_send_reply_chunk(req, out);
    job_finish(job, 200);
    evhttp_send_reply_end(req);
}

/* Where this stream stops being a good one: after that many tokens. */
static int stream_limit(const struct sim_job *job)
{
    switch (job->fault) {
    case FAULT_ERROR_200:
    case FAULT_SILENCE:
    case FAULT_GARBAGE:
    case FAULT_NO_CHOICES:
        return 0;
    case FAULT_RESET_AFTER_HEADERS:
        return 1;
    case FAULT_TRUNCATE:
    case FAULT_SSE_ERROR:
        return job->tokens / 2;
    default:
        return job->tokens;
    }
}

/* The limit is reached: how it goes on from there. */
static void stream_close(struct sim_job *job, struct evbuffer *out)
{
    switch (job->fault) {
    case FAULT_SILENCE:
        evhttp_send_reply_chunk(job->req, out);
        return;
    case FAULT_RESET_AFTER_HEADERS:
    case FAULT_TRUNCATE:
        if (evbuffer_get_length(out) > 0)
            evhttp_send_reply_chunk(job->req, out);
        job->sent = job->tokens;
        job_after(job, 0.02);
        return;
    case FAULT_GARBAGE:
        evbuffer_add_printf(out, "this is no event\n\n");
        break;
    case FAULT_NO_CHOICES:
        evbuffer_add_printf(out, "data: [DONE]\n\n");
        break;
    case FAULT_ERROR_200:
    case FAULT_SSE_ERROR:
        add_event(out, error_json(500, "the engine died"));
        evbuffer_add_printf(out, "data: [DONE]\n\n");
        break;
    default:
        add_ending(job, out);
        break;
    }
    stream_end(job, out);
}

static int tokens_due(const struct sim_job *job)
{
    if (job->rate <= 0)
        return job->tokens;
    double due = 1 + (sim_now() - job->first) * job->rate + 1e-6;
    return due < job->tokens ? (int)due : job->tokens;
}

static void stream_step(struct sim_job *job)
{
    if (job->writing)
        return;
    if (!job->started)
        stream_start(job);
    struct evbuffer *out = evbuffer_new();
    int limit = stream_limit(job);
    int due = tokens_due(job);
    while (job->sent < due && job->sent < limit && evbuffer_get_length(out) < BATCH_BYTES)
        add_token(job, out);
    if (job->sent >= limit) {
        stream_close(job, out);
    } else {
        if (evbuffer_get_length(out) > 0) {
            job->writing = true;
            evhttp_send_reply_chunk_with_cb(job->req, out, on_written, job);
        }
        if (job->rate > 0)
            job_after(job, 1 / job->rate > 0.005 ? 1 / job->rate : 0.005);
    }
    evbuffer_free(out);
}

/* ---- the clock of a job ---- */

static void job_tick(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct sim_job *job = arg;
    if (job->fault == FAULT_RESET_BEFORE)
        job_break(job, true);
    else if (job->fault == FAULT_STATUS)
        answer_status(job);
    else if (job->started && job->sent >= job->tokens &&
             (job->fault == FAULT_TRUNCATE || job->fault == FAULT_RESET_AFTER_HEADERS))
        job_break(job, job->fault == FAULT_RESET_AFTER_HEADERS);
    else if (job->stream)
        stream_step(job);
    else
        answer_whole(job);
}

static enum sim_fault next_fault(struct sim *sim)
{
    const struct sim_options *options = &sim->options;
    uint64_t nth = sim->prompts++;
    uint64_t first = (uint64_t)options->fault_after;
    if (nth < first || (options->fault_count > 0 && nth >= first + (uint64_t)options->fault_count))
        return FAULT_NONE;
    return options->fault;
}

static int wanted_tokens(const struct sim *sim, const json_t *prompt)
{
    const json_t *cap = json_object_get(prompt, "max_completion_tokens");
    if (!json_is_integer(cap))
        cap = json_object_get(prompt, "max_tokens");
    json_int_t n = json_is_integer(cap) ? json_integer_value(cap) : sim->options.tokens;
    return n < sim->options.tokens ? (int)n : sim->options.tokens;
}

void sim_job_start(struct sim *sim, struct sim_conn *conn, struct evhttp_request *req,
                   struct sim_record *record, enum sim_kind kind, const json_t *prompt)
{
    struct sim_job *job = calloc(1, sizeof *job);
    if (job == NULL)
        abort();
    const json_t *options = json_object_get(prompt, "stream_options");
    const json_t *input = json_object_get(prompt, "input");
    *job = (struct sim_job){
        .sim = sim,
        .conn = conn,
        .req = req,
        .record = record->id,
        .kind = kind,
        .fault = next_fault(sim),
        .fault_status = sim->options.fault_status,
        .stream =
            json_is_true(json_object_get(prompt, "stream")) && (kind == KIND_CHAT || kind == KIND_COMPLETION),
        .usage = json_is_true(json_object_get(options, "include_usage")),
        .tokens = wanted_tokens(sim, prompt),
        .prompt_tokens = (int)(strlen(record->prompt) / 4 + 1),
        .inputs = json_is_array(input) ? (int)json_array_size(input) : 1,
        .chunk_bytes = sim->options.chunk_bytes,
        .rate = sim->options.tokens_per_second,
        .first = sim_now() + sim->options.ttft / 1e3,
    };
    snprintf(job->model, sizeof job->model, "%s", record->model);
    job->timer = evtimer_new(sim->base, job_tick, job);
    conn->job = job;
    event_add(conn->closed, NULL);
    sim->stats.executions++;
    if (++sim->stats.concurrent > sim->stats.max_concurrent)
        sim->stats.max_concurrent = sim->stats.concurrent;
    record->concurrency = sim->stats.concurrent;
    double wait = sim->options.ttft / 1e3;
    if (!job->stream && job->rate > 0)
        wait += job->tokens / job->rate;
    if (job->fault != FAULT_HANG)
        job_after(job, wait);
}
