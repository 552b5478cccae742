/* The routes of modelsim: OpenAI's API, vLLM's sleep mode, and /sim for tests. Prompts are answered by job.c.
 */
#include "modelsim.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/keyvalq_struct.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

void sim_reply_json(struct evhttp_request *req, int status, json_t *body)
{
    char *text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    struct evbuffer *out = evbuffer_new();
    evbuffer_add(out, text, strlen(text));
    free(text);
    evhttp_add_header(evhttp_request_get_output_headers(req), "Content-Type", "application/json");
    evhttp_send_reply(req, status, NULL, out);
    evbuffer_free(out);
}

static void reply_error(struct evhttp_request *req, int status, const char *type, const char *message)
{
    sim_reply_json(
        req, status,
        json_pack("{s:{s:i, s:s, s:s}}", "error", "code", status, "message", message, "type", type));
}

/* ---- connections ---- */

static struct sim_conn *conn_free(struct sim_conn *conn)
{
    event_free(conn->closed);
    conn->sim->conns[conn->fd] = NULL;
    conn->sim->stats.open_connections--;
    free(conn);
    return NULL;
}

/* evhttp drops the connection: it closed, broke, or idled out. */
static void on_dropped(struct evhttp_connection *evcon, void *arg)
{
    (void)evcon;
    struct sim_conn *conn = arg;
    if (conn->job != NULL)
        sim_job_abort(conn->job, true);
    conn_free(conn);
}

/* evhttp does not read while a request runs; so the end of the client's side is watched here. */
static void on_closed(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct sim_conn *conn = arg;
    if (conn->job == NULL) {
        event_del(conn->closed);
        return;
    }
    struct evhttp_connection *evcon = conn->evcon;
    evhttp_connection_set_closecb(evcon, NULL, NULL);
    sim_job_abort(conn->job, false);
    conn_free(conn);
    evhttp_connection_free(evcon);
}

static struct sim_conn *conn_of(struct sim *sim, struct evhttp_request *req)
{
    struct evhttp_connection *evcon = evhttp_request_get_connection(req);
    int fd = bufferevent_getfd(evhttp_connection_get_bufferevent(evcon));
    if (fd < 0 || fd >= SIM_CONNECTIONS)
        return NULL;
    if (sim->conns[fd] != NULL)
        return sim->conns[fd];
    struct sim_conn *conn = calloc(1, sizeof *conn);
    if (conn == NULL)
        return NULL;
    *conn = (struct sim_conn){.sim = sim, .evcon = evcon, .fd = fd, .serial = ++sim->last_serial};
    conn->closed = event_new(sim->base, fd, EV_CLOSED | EV_PERSIST, on_closed, conn);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    evhttp_connection_set_closecb(evcon, on_dropped, conn);
    sim->conns[fd] = conn;
    if (++sim->stats.open_connections > sim->stats.max_open_connections)
        sim->stats.max_open_connections = sim->stats.open_connections;
    return conn;
}

/* ---- prompts ---- */

static const struct route {
    const char *path;
    enum sim_kind kind;
} prompts[] = {
    {"/v1/chat/completions", KIND_CHAT},
    {"/v1/completions", KIND_COMPLETION},
    {"/v1/embeddings", KIND_EMBEDDING},
    {"/v1/responses", KIND_ECHO},
    {"/v1/messages", KIND_ECHO},
    {"/v1/rerank", KIND_ECHO},
    {"/v1/audio/transcriptions", KIND_ECHO},
    {"/tokenize", KIND_ECHO},
};

/* What tests recognise a request by: the last message, the prompt, or the input. */
static void note_prompt(struct sim_record *record, const json_t *prompt)
{
    const json_t *messages = json_object_get(prompt, "messages");
    const json_t *text =
        json_array_size(messages) > 0
            ? json_object_get(json_array_get(messages, json_array_size(messages) - 1), "content")
            : NULL;
    if (text == NULL)
        text = json_object_get(prompt, "prompt");
    if (text == NULL)
        text = json_object_get(prompt, "input");
    const char *model = json_string_value(json_object_get(prompt, "model"));
    snprintf(record->model, sizeof record->model, "%s", model != NULL ? model : "");
    /* cut at the first bytes that are plain, so that what is kept stays valid UTF-8 */
    const char *s = json_string_value(text);
    size_t n = 0;
    while (s != NULL && n + 1 < sizeof record->prompt && (unsigned char)s[n] >= ' ' &&
           (unsigned char)s[n] < 127)
        n++;
    snprintf(record->prompt, sizeof record->prompt, "%.*s", (int)n, s != NULL ? s : "");
}

static void refuse(struct sim *sim, struct evhttp_request *req, struct sim_record *record, int status,
                   const char *type, const char *message)
{
    sim_record_end(sim, record, "refused", status, 0);
    reply_error(req, status, type, message);
}

static json_t *read_prompt(struct evhttp_request *req, struct sim_record *record)
{
    struct evbuffer *input = evhttp_request_get_input_buffer(req);
    size_t len = evbuffer_get_length(input);
    json_t *prompt = len > 0 ? json_loadb((const char *)evbuffer_pullup(input, -1), len, 0, NULL) : NULL;
    note_prompt(record, prompt);
    return prompt;
}

static void handle_prompt(struct sim *sim, struct evhttp_request *req, struct sim_record *record,
                          const struct route *route, const json_t *prompt)
{
    struct sim_conn *conn = conn_of(sim, req);
    if (sim->options.only[0] != '\0' && strcmp(sim->options.only, route->path) != 0) {
        refuse(sim, req, record, 404, "not_found_error", "this model does not know that");
        return;
    }
    if (sim->options.slots > 0 && sim->stats.concurrent >= (unsigned)sim->options.slots) {
        sim->stats.refused++;
        evhttp_add_header(evhttp_request_get_output_headers(req), "Retry-After", "1");
        refuse(sim, req, record, 503, "unavailable_error", "no slot is free");
        return;
    }
    if (!json_is_object(prompt) && route->kind != KIND_ECHO) {
        refuse(sim, req, record, 400, "invalid_request_error", "the body is not a JSON object");
        return;
    }
    sim_job_start(sim, conn, req, record, route->kind, prompt);
}

/* ---- everything else ---- */

static void handle_models(struct sim *sim, struct evhttp_request *req, struct sim_record *record)
{
    sim_record_end(sim, record, "finished", 200, 0);
    sim_reply_json(req, 200,
                   json_pack("{s:s, s:[{s:s, s:s, s:i, s:s}]}", "object", "list", "data", "id",
                             sim->options.model, "object", "model", "created", 0, "owned_by", "modelsim"));
}

static void handle_sleep_mode(struct sim *sim, struct evhttp_request *req, struct sim_record *record,
                              const char *path)
{
    if (strcmp(path, "/sleep") == 0) {
        sim->stats.sleeps++;
        sim->phase = PHASE_ASLEEP;
        event_del(sim->phase_timer);
    } else if (strcmp(path, "/wake_up") == 0) {
        sim->stats.wakes++;
        if (sim->phase == PHASE_ASLEEP)
            sim_load(sim, sim->options.wake_load);
    }
    sim_record_end(sim, record, "finished", 200, 0);
    sim_reply_json(req, 200, json_pack("{s:b}", "is_sleeping", sim->phase == PHASE_ASLEEP));
}

static void handle_config(struct sim *sim, struct evhttp_request *req)
{
    struct evbuffer *input = evhttp_request_get_input_buffer(req);
    size_t len = evbuffer_get_length(input);
    json_t *changes = len > 0 ? json_loadb((const char *)evbuffer_pullup(input, -1), len, 0, NULL) : NULL;
    char why[160] = "the body is not a JSON object";
    if (!json_is_object(changes) || !sim_options_update(&sim->options, changes, why, sizeof why)) {
        reply_error(req, 400, "invalid_request_error", why);
    } else {
        if (json_object_get(changes, "load") != NULL)
            sim_load(sim, sim->options.load);
        if (json_object_get(changes, "fault") != NULL)
            sim->prompts = 0;
        sim_reply_json(req, 200, sim_stats_json(sim));
    }
    json_decref(changes);
}

static void handle_sim(struct sim *sim, struct evhttp_request *req, const char *path)
{
    if (strcmp(path, "/sim/stats") == 0) {
        sim_reply_json(req, 200, sim_stats_json(sim));
    } else if (strcmp(path, "/sim/requests") == 0) {
        struct evkeyvalq query;
        const char *text = evhttp_uri_get_query(evhttp_request_get_evhttp_uri(req));
        size_t n = 100;
        if (text != NULL && evhttp_parse_query_str(text, &query) == 0) {
            const char *value = evhttp_find_header(&query, "n");
            n = value != NULL ? strtoul(value, NULL, 10) : n;
            evhttp_clear_headers(&query);
        }
        sim_reply_json(req, 200, sim_requests_json(sim, n));
    } else if (strcmp(path, "/sim/reset") == 0) {
        sim_journal_clear(sim);
        sim_reply_json(req, 200, sim_stats_json(sim));
    } else if (strcmp(path, "/sim/config") == 0) {
        handle_config(sim, req);
    } else {
        reply_error(req, 404, "not_found_error", "no such page");
    }
}

static const struct route *prompt_route(const char *path)
{
    for (size_t i = 0; i < sizeof prompts / sizeof prompts[0]; i++) {
        if (strcmp(prompts[i].path, path) == 0)
            return &prompts[i];
    }
    return NULL;
}

void sim_handle(struct evhttp_request *req, void *arg)
{
    struct sim *sim = arg;
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(req));
    bool post = evhttp_request_get_command(req) == EVHTTP_REQ_POST;
    if (strncmp(path, "/sim/", 5) == 0) {
        handle_sim(sim, req, path);
        return;
    }
    struct sim_conn *conn = conn_of(sim, req);
    struct sim_record *record = sim_record_new(sim, req, conn != NULL ? conn->serial : 0);
    const struct route *route = prompt_route(path);
    json_t *prompt = route != NULL ? read_prompt(req, record) : NULL;
    if (conn == NULL) {
        refuse(sim, req, record, 500, "server_error", "too many connections");
    } else if (sim->phase == PHASE_LOADING) {
        sim->stats.loading++;
        refuse(sim, req, record, 503, "unavailable_error", "Loading model");
    } else if (strcmp(path, "/sleep") == 0 || strcmp(path, "/wake_up") == 0 ||
               strcmp(path, "/is_sleeping") == 0) {
        handle_sleep_mode(sim, req, record, path);
    } else if (strcmp(path, "/health") == 0) {
        sim_record_end(sim, record, "finished", 200, 0);
        sim_reply_json(req, 200, json_pack("{s:s}", "status", "ok"));
    } else if (strcmp(path, "/v1/models") == 0) {
        handle_models(sim, req, record);
    } else if (route == NULL) {
        refuse(sim, req, record, 404, "not_found_error", "no such page");
    } else if (!post) {
        refuse(sim, req, record, 405, "invalid_request_error", "POST it");
    } else if (sim->phase == PHASE_ASLEEP) {
        sim->stats.loading++;
        refuse(sim, req, record, 503, "unavailable_error", "the model sleeps");
    } else {
        handle_prompt(sim, req, record, route, prompt);
    }
    json_decref(prompt);
}
