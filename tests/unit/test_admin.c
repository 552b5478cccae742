/* The admin as its callers meet it: a real front, a real activator, real sockets, each loop on its thread. */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <nghttp2/nghttp2.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

#include "wakegate/admin.h"
#include "wakegate/tenant.h"

enum { CONNECTIONS = 256 };

/* Two threads, an activator and an admin, as main builds them. */
struct house {
    struct wg_loop *service, *control;
    struct wg_thread *service_thread, *control_thread;
    struct wg_keeper *keeper;
    struct wg_fetch *fetch;
    struct wg_activator *activator;
    struct wg_admin *admin;
    struct wg_mailbox *orders; /* of the test to the service thread */
    atomic_bool ready;
    int listen_fd;
    struct sockaddr_storage address;
    socklen_t address_len;
};

/* ---- configuration ---- */

#define MODELS                                                                                               \
    "models:\n"                                                                                              \
    "  - name: org/m\n"                                                                                      \
    "    aliases: [small]\n"                                                                                 \
    "    target: { process: { command: [sh, -c, exec sleep 600, \"{port}\"] } }\n"                           \
    "  - name: fixed\n"                                                                                      \
    "    target: { static: { endpoints: [\"http://127.0.0.1:1\"] } }\n"

static struct wg_config *parse(const char *text)
{
    struct wg_config_faults faults = {.text = WG_BUF_INIT(1 << 16)};
    struct wg_config *config = NULL;

    if (wg_config_parse("test.yaml", wg_slice_str(text), &config, &faults) < 0)
        fail_msg("%s", wg_buf_str(&faults.text));
    wg_config_faults_clear(&faults);
    return config;
}

static struct wg_config *parse_with_key(const char *key)
{
    struct wg_key hash;
    char hex[65], text[2048];

    wg_key_hash(wg_slice_str(key), &hash);
    for (size_t i = 0; i < sizeof(hash.sha256); i++)
        snprintf(hex + 2 * i, 3, "%02x", hash.sha256[i]);
    snprintf(text, sizeof(text), "admin: { keys: [ { sha256: \"%s\" } ] }\n" MODELS, hex);
    return parse(text);
}

/* ---- the house ---- */

static void run_loop(void *arg)
{
    wg_loop_run(arg);
}

static struct house *build(const struct sockaddr *address, socklen_t len, struct wg_config *config)
{
    struct house *house = WG_NEW(struct house);
    struct wg_keeper_seat *seat = NULL;

    assert_int_equal(wg_keeper_fork(&seat), 0);
    house->service = wg_loop_new();
    house->control = wg_loop_new();
    house->keeper = wg_keeper_attach(seat, house->service);
    house->fetch = wg_fetch_new(house->service);
    house->activator = wg_activator_new(&(struct wg_activator_env){
        .control = house->control,
        .service = {.loop = house->service, .keeper = house->keeper, .fetch = house->fetch}});
    assert_non_null(house->activator);
    wg_activator_configure(house->activator, config);

    house->listen_fd = wg_listen(address, len);
    assert_true(house->listen_fd >= 0);
    house->address_len = sizeof(house->address);
    assert_int_equal(getsockname(house->listen_fd, (struct sockaddr *)&house->address, &house->address_len),
                     0);
    atomic_store(&house->ready, true);
    house->admin = wg_admin_new(&(struct wg_admin_env){.loop = house->service,
                                                       .activator = house->activator,
                                                       .config = config,
                                                       .listen_fd = house->listen_fd,
                                                       .ready = &house->ready});
    assert_non_null(house->admin);
    house->orders = wg_mailbox_new(house->service, house);
    wg_config_unref(config);
    assert_int_equal(wg_thread_start("service", run_loop, house->service, &house->service_thread), 0);
    assert_int_equal(wg_thread_start("control", run_loop, house->control, &house->control_thread), 0);
    return house;
}

static struct house *build_loopback(struct wg_config *config)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return build((struct sockaddr *)&any, sizeof(any), config);
}

/* The order of the end is the one that main keeps: loops, activator, admin. */
static void tear_down(struct house *house)
{
    wg_loop_stop(house->control);
    wg_loop_stop(house->service);
    wg_thread_join(house->control_thread);
    wg_thread_join(house->service_thread);
    wg_activator_free(house->activator);
    wg_admin_free(house->admin);
    wg_fetch_free(house->fetch);
    wg_keeper_free(house->keeper);
    wg_mailbox_free(house->orders);
    wg_loop_free(house->service);
    wg_loop_free(house->control);
    close(house->listen_fd);
    free(house);
}

struct reload {
    struct wg_mail mail;
    struct wg_config *config;
    sem_t done;
};

static void reload_came(struct wg_mail *mail, void *receiver)
{
    struct house *house = receiver;
    struct reload *reload = WG_CONTAINER_OF(mail, struct reload, mail);

    wg_admin_configure(house->admin, reload->config);
    sem_post(&reload->done);
}

static void configure(struct house *house, struct wg_config *config)
{
    struct reload reload = {.config = config};

    sem_init(&reload.done, 0, 0);
    wg_mail_init(&reload.mail, reload_came);
    wg_activator_configure(house->activator, config);
    wg_mailbox_post(house->orders, &reload.mail);
    while (sem_wait(&reload.done) < 0)
        assert_int_equal(errno, EINTR);
    sem_destroy(&reload.done);
    wg_config_unref(config);
}

/* ---- a client ---- */

static int dial(const struct house *house)
{
    int fd = socket(house->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval patience = {.tv_sec = 20};

    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    assert_int_equal(connect(fd, (const struct sockaddr *)&house->address, house->address_len), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    size_t len = strlen(text);

    for (size_t sent = 0; sent < len;) {
        ssize_t n = send(fd, text + sent, len - sent, MSG_NOSIGNAL);
        assert_true(n > 0);
        sent += (size_t)n;
    }
}

static char answer_text[1 << 20];

/* All that comes until the server closes. */
static const char *hear(int fd)
{
    size_t len = 0;

    for (;;) {
        ssize_t n = recv(fd, answer_text + len, sizeof(answer_text) - 1 - len, 0);
        if (n < 0 && errno == ECONNRESET)
            break;
        assert_true(n >= 0);
        if (n == 0)
            break;
        len += (size_t)n;
    }
    answer_text[len] = '\0';
    return answer_text;
}

static void hang_up(int fd)
{
    struct linger hard = {.l_onoff = 1};

    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    close(fd);
}

/* One request on a connection of its own; `fields` are whole lines. */
static const char *ask(const struct house *house, const char *line, const char *fields, const char *body)
{
    char *text =
        wg_xasprintf("%s HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n%s\r\n%s", line, fields, body);
    int fd = dial(house);

    say(fd, text);
    hear(fd);
    close(fd);
    free(text);
    return answer_text;
}

static const char *body_of(const char *answer)
{
    const char *end = strstr(answer, "\r\n\r\n");
    assert_non_null(end);
    return end + 4;
}

static void expect_status(const char *answer, int status)
{
    if (strncmp(answer, "HTTP/1.1 ", 9) != 0 || atoi(answer + 9) != status)
        fail_msg("not a %d: %s", status, answer);
}

static void expect_code(const char *answer, int status, const char *code)
{
    expect_status(answer, status);
    json_t *root = json_loads(body_of(answer), 0, NULL);
    assert_non_null(root);
    const json_t *error = json_object_get(root, "error");
    assert_string_equal(json_string_value(json_object_get(error, "code")), code);
    assert_non_null(json_string_value(json_object_get(error, "message")));
    json_decref(root);
}

/* ---- tests ---- */

static void health_and_readiness(void **state)
{
    struct house *house = *state;

    expect_status(ask(house, "GET /healthz", "", ""), 200);
    assert_string_equal(body_of(answer_text), "ok\n");
    expect_status(ask(house, "HEAD /healthz", "", ""), 200);
    assert_string_equal(body_of(answer_text), "");
    assert_non_null(strstr(answer_text, "Content-Length: 3\r\n"));
    expect_status(ask(house, "GET /readyz?x=1", "", ""), 200);
    assert_string_equal(body_of(answer_text), "ready\n");
    atomic_store(&house->ready, false);
    expect_status(ask(house, "GET /readyz", "", ""), 503);
    assert_string_equal(body_of(answer_text), "not ready\n");
    expect_status(ask(house, "GET /healthz", "", ""), 200);
    expect_status(ask(house, "GET /", "", ""), 200);
    assert_non_null(strstr(answer_text, "/models/{name}/wake"));
}

static void metrics_are_prometheus_text(void **state)
{
    expect_status(ask(*state, "GET /status", "", ""), 200); /* control has taken the configuration over */
    expect_status(ask(*state, "GET /metrics", "", ""), 200);
    assert_non_null(strcasestr(answer_text, "content-type: text/plain; version=0.0.4"));
    assert_non_null(strstr(answer_text, "\n# TYPE wakegate_requests_total counter\n"));
    assert_non_null(strstr(answer_text, "wakegate_model_state{model=\"org/m\",state=\"cold\"} 1\n"));
}

static void status_names_models_and_tenants(void **state)
{
    expect_status(ask(*state, "GET /status", "", ""), 200);
    assert_non_null(strcasestr(answer_text, "content-type: application/json\r\n"));
    json_t *root = json_loads(body_of(answer_text), 0, NULL);
    assert_non_null(root);
    const json_t *models = json_object_get(root, "models"), *tenants = json_object_get(root, "tenants");
    assert_int_equal(json_array_size(models), 2);
    const json_t *model = json_array_get(models, 0);
    assert_string_equal(json_string_value(json_object_get(model, "name")), "org/m");
    assert_string_equal(json_string_value(json_object_get(model, "state")), "cold");
    assert_string_equal(json_string_value(json_object_get(json_array_get(tenants, 0), "name")), "default");
    assert_true(json_is_true(json_object_get(json_object_get(root, "process"), "ready")));
    json_decref(root);
}

static void scaler_counts_demand(void **state)
{
    expect_status(ask(*state, "GET /scaler/org/m", "", ""), 200);
    assert_string_equal(body_of(answer_text), "{\"held\":0,\"inflight\":0,\"demand\":0}\n");
    expect_status(ask(*state, "GET /scaler/org%2Fm", "", ""), 200);
    expect_status(ask(*state, "GET /scaler/small", "", ""), 200);
    expect_code(ask(*state, "GET /scaler/none", "", ""), 404, "model_not_found");
    expect_code(ask(*state, "GET /scaler/%zz", "", ""), 400, "invalid_request");
}

static void wait_for_state(const struct house *house, const char *name, const char *wanted)
{
    char *part = wg_xasprintf("{\"name\":\"%s\",\"state\":\"%s\"", name, wanted);

    for (int i = 0; i < 10000; i++) {
        if (strstr(ask(house, "GET /status", "", ""), part)) {
            free(part);
            return;
        }
    }
    fail_msg("%s never became %s: %s", name, wanted, answer_text);
}

static void orders_are_carried_out(void **state)
{
    struct house *house = *state;

    expect_status(ask(house, "POST /models/org/m/wake", "", ""), 202);
    assert_string_equal(body_of(answer_text), "{\"model\":\"org/m\",\"status\":\"waking\"}\n");
    wait_for_state(house, "org/m", "waking");
    expect_status(ask(house, "POST /models/small/wake", "Content-Length: 2\r\n", "{}"), 202);
    expect_code(ask(house, "POST /models/fixed/sleep", "", ""), 400, "not_supported");
    expect_code(ask(house, "POST /models/none/wake", "", ""), 404, "model_not_found");
    expect_code(ask(house, "POST /models/a%0ab/wake", "", ""), 400, "invalid_request");
}

static void wrong_calls_get_clear_answers(void **state)
{
    struct house *house = *state;

    expect_code(ask(house, "GET /models/org/m/wake", "", ""), 405, "method_not_allowed");
    assert_non_null(strcasestr(answer_text, "allow: POST\r\n"));
    expect_code(ask(house, "POST /status", "", ""), 405, "method_not_allowed");
    assert_non_null(strcasestr(answer_text, "allow: GET, HEAD\r\n"));
    expect_code(ask(house, "GET /v1/models", "", ""), 404, "not_found");
    expect_code(ask(house, "POST /models/org/m/wake", "Sec-Fetch-Site: cross-site\r\n", ""), 403,
                "cross_site");
    int fd = dial(house);
    say(fd, "GET / HTTP/1.1\r\nHost : x\r\n\r\n");
    expect_code(hear(fd), 400, "invalid_request");
    close(fd);
}

static void bodies_are_bounded(void **state)
{
    struct house *house = *state;
    char *large = wg_xcalloc(65538, 1), *chunk;

    memset(large, 'x', 65537);
    expect_code(ask(house, "POST /models/org/m/wake", "Content-Length: 65537\r\n", ""), 413,
                "body_too_large");
    expect_status(ask(house, "POST /models/org/m/wake", "Content-Length: 65536\r\n", large + 1), 202);
    chunk = wg_xasprintf("10001\r\n%s\r\n0\r\n\r\n", large);
    expect_code(ask(house, "POST /models/org/m/wake", "Transfer-Encoding: chunked\r\n", chunk), 413,
                "body_too_large");
    expect_code(ask(house, "POST /models/org/m/wake", "Transfer-Encoding: chunked\r\n", "zz\r\n"), 400,
                "invalid_request");
    free(chunk);
    free(large);
}

static void a_connection_is_kept(void **state)
{
    int fd = dial(*state);

    say(fd, "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nGET /status HTTP/1.1\r\nHost: a\r\n\r\n"
            "GET /readyz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    const char *answer = hear(fd);
    close(fd);
    const char *second = strstr(body_of(answer), "HTTP/1.1 200");
    assert_non_null(second);
    const char *third = strstr(second + 1, "HTTP/1.1 200");
    assert_non_null(third);
    assert_string_equal(body_of(third), "ready\n");
}

/* ---- over HTTP/2 ---- */

enum { AT_ONCE = 16, STREAM_IDS = 256 };

/* Frames of the library on a blocking socket; what came is kept by stream id. */
struct h2_client {
    int fd;
    nghttp2_session *session;
    unsigned closed;
    struct {
        int status;
        size_t len;
        uint32_t error;
    } streams[STREAM_IDS];
};

static ssize_t h2_send(nghttp2_session *session, const uint8_t *data, size_t len, int flags, void *arg)
{
    (void)session, (void)flags;
    return send(((struct h2_client *)arg)->fd, data, len, MSG_NOSIGNAL);
}

static int h2_on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                        size_t name_len, const uint8_t *value, size_t len, uint8_t flags, void *arg)
{
    struct h2_client *client = arg;

    (void)session, (void)flags, (void)len;
    if (name_len == 7 && memcmp(name, ":status", 7) == 0)
        client->streams[frame->hd.stream_id].status = atoi((const char *)value);
    return 0;
}

static int h2_on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t len,
                      void *arg)
{
    (void)session, (void)flags, (void)data;
    ((struct h2_client *)arg)->streams[id].len += len;
    return 0;
}

static int h2_on_closed(nghttp2_session *session, int32_t id, uint32_t error, void *arg)
{
    struct h2_client *client = arg;

    (void)session;
    client->streams[id].error = error;
    client->closed++;
    return 0;
}

static void h2_open(struct h2_client *client, const struct house *house)
{
    nghttp2_session_callbacks *callbacks;

    *client = (struct h2_client){.fd = dial(house)};
    assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
    nghttp2_session_callbacks_set_send_callback(callbacks, h2_send);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, h2_on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, h2_on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, h2_on_closed);
    assert_int_equal(nghttp2_session_client_new(&client->session, callbacks, client), 0);
    nghttp2_session_callbacks_del(callbacks);
    assert_int_equal(nghttp2_submit_settings(client->session, 0, NULL, 0), 0);
}

static int32_t h2_ask(struct h2_client *client, const char *method, const char *path)
{
    const char *const fields[][2] = {
        {":method", method}, {":scheme", "http"}, {":authority", "admin"}, {":path", path}};
    nghttp2_nv nv[WG_COUNT_OF(fields)];

    for (size_t i = 0; i < WG_COUNT_OF(fields); i++)
        nv[i] = (nghttp2_nv){.name = (uint8_t *)(uintptr_t)fields[i][0],
                             .namelen = strlen(fields[i][0]),
                             .value = (uint8_t *)(uintptr_t)fields[i][1],
                             .valuelen = strlen(fields[i][1])};
    int32_t id = nghttp2_submit_request(client->session, NULL, nv, WG_COUNT_OF(nv), NULL, NULL);
    assert_true(id > 0 && id < STREAM_IDS);
    return id;
}

/* Sends what was asked, and reads until so many streams are over. */
static void h2_run(struct h2_client *client, unsigned closed)
{
    static uint8_t bytes[65536];

    assert_int_equal(nghttp2_session_send(client->session), 0);
    while (client->closed < closed) {
        ssize_t n = recv(client->fd, bytes, sizeof(bytes), 0);
        assert_true(n > 0);
        assert_int_equal(nghttp2_session_mem_recv(client->session, bytes, (size_t)n), n);
        assert_int_equal(nghttp2_session_send(client->session), 0);
    }
}

static const struct {
    const char *method, *path;
    int status;
} h2_questions[] = {
    {"GET", "/status", 200},        {"POST", "/models/org/m/wake", 202},   {"GET", "/metrics", 200},
    {"GET", "/scaler/small", 200},  {"POST", "/models/fixed/sleep", 400},  {"GET", "/nowhere", 404},
    {"GET", "/models/x/wake", 405}, {"POST", "/models/org%2Fm/wake", 202},
};

/* Control is asked by some, and others are answered at once: each stream gets its own answer. */
static void a_connection_carries_many_requests_at_once(void **state)
{
    struct h2_client client;

    h2_open(&client, *state);
    for (unsigned round = 1; round <= 4; round++) {
        int32_t ids[AT_ONCE];
        for (size_t i = 0; i < AT_ONCE; i++) {
            const size_t which = i % WG_COUNT_OF(h2_questions);
            ids[i] = h2_ask(&client, h2_questions[which].method, h2_questions[which].path);
        }
        h2_run(&client, round * AT_ONCE);
        for (size_t i = 0; i < AT_ONCE; i++) {
            assert_int_equal(client.streams[ids[i]].status,
                             h2_questions[i % WG_COUNT_OF(h2_questions)].status);
            assert_int_equal(client.streams[ids[i]].error, NGHTTP2_NO_ERROR);
            assert_true(client.streams[ids[i]].len > 0);
        }
    }
    nghttp2_session_del(client.session);
    close(client.fd);
}

/* Every other stream is reset while control has its question, then the whole connection. */
static void streams_may_leave_at_any_time(void **state)
{
    struct house *house = *state;

    for (int round = 0; round < 10; round++) {
        struct h2_client client;
        int32_t ids[AT_ONCE];
        h2_open(&client, house);
        for (size_t i = 0; i < AT_ONCE; i++)
            ids[i] = h2_ask(&client, "GET", i % 4 < 2 ? "/status" : "/scaler/small");
        assert_int_equal(nghttp2_session_send(client.session), 0);
        for (size_t i = 0; i < AT_ONCE; i += 2)
            nghttp2_submit_rst_stream(client.session, NGHTTP2_FLAG_NONE, ids[i], NGHTTP2_CANCEL);
        h2_run(&client, AT_ONCE);
        for (size_t i = 1; i < AT_ONCE; i += 2)
            assert_int_equal(client.streams[ids[i]].status, 200);
        for (size_t i = 0; i < AT_ONCE; i++)
            h2_ask(&client, "GET", "/status");
        assert_int_equal(nghttp2_session_send(client.session), 0);
        nghttp2_session_del(client.session);
        hang_up(client.fd);
    }
    expect_status(ask(house, "GET /status", "", ""), 200);
}

static void keys_guard_orders(void **state)
{
    struct house *house = *state;

    configure(house, parse_with_key("secret"));
    expect_code(ask(house, "POST /models/org/m/wake", "", ""), 401, "invalid_api_key");
    assert_non_null(strcasestr(answer_text, "www-authenticate: Bearer\r\n"));
    expect_code(ask(house, "POST /models/org/m/wake", "Authorization: Bearer other\r\n", ""), 401,
                "invalid_api_key");
    expect_code(ask(house, "POST /models/none/wake", "", ""), 401, "invalid_api_key");
    expect_code(ask(house, "POST /models/org/m/wake", "x-api-key: secret\r\nx-api-key: secret\r\n", ""), 400,
                "invalid_request");
    expect_status(ask(house, "POST /models/org/m/wake", "Authorization: Bearer secret\r\n", ""), 202);
    expect_status(ask(house, "POST /models/org/m/wake", "x-api-key: secret\r\n", ""), 202);
    expect_status(ask(house, "POST /models/org/m/wake", "api-key: secret\r\n", ""), 202);
    expect_status(ask(house, "GET /status", "", ""), 200);
    configure(house, parse(MODELS));
    expect_status(ask(house, "POST /models/org/m/wake", "", ""), 202);
}

/* A socket that is not loopback, and yet reachable by nobody else: a UNIX one. */
static void open_addresses_take_no_orders_without_keys(void **state)
{
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    struct house *house = build((struct sockaddr *)&any, sizeof(sa_family_t), parse(MODELS));

    (void)state;
    expect_code(ask(house, "POST /models/org/m/wake", "", ""), 403, "admin_keys_missing");
    assert_non_null(strstr(answer_text, "admin.keys"));
    expect_status(ask(house, "GET /status", "", ""), 200);
    configure(house, parse_with_key("secret"));
    expect_code(ask(house, "POST /models/org/m/wake", "", ""), 401, "invalid_api_key");
    expect_status(ask(house, "POST /models/org/m/wake", "Authorization: Bearer secret\r\n", ""), 202);
    tear_down(house);
}

static void clients_may_leave_at_any_time(void **state)
{
    static const char *const requests[] = {
        "GET /status HTTP/1.1\r\nHost: a\r\n\r\n", "POST /models/org/m/wake HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /scaler/small HTTP/1.1\r\nHost: a\r\n\r\n", "GET /metr",
        "POST /models/org/m/wake HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n12"};

    for (size_t i = 0; i < 200; i++) {
        int fd = dial(*state);
        say(fd, requests[i % WG_COUNT_OF(requests)]);
        hang_up(fd);
    }
    expect_status(ask(*state, "GET /status", "", ""), 200);
}

static void connections_are_bounded(void **state)
{
    const struct house *house = *state;
    int fds[CONNECTIONS], answered = 0;

    for (int i = 0; i < CONNECTIONS; i++)
        fds[i] = dial(house);
    int late = dial(house);
    assert_string_equal(hear(late), "");
    close(late);
    say(fds[0], "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    expect_status(hear(fds[0]), 200);
    for (int i = 0; i < CONNECTIONS; i++)
        close(fds[i]);
    for (int i = 0; i < 10000 && !answered; i++) {
        int fd = dial(house);
        (void)!send(fd, "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 54, MSG_NOSIGNAL);
        answered = strncmp(hear(fd), "HTTP/1.1 200", 12) == 0;
        close(fd);
    }
    assert_true(answered);
}

/* Questions are under way, and connections open, while the house is torn down. */
static void the_end_comes_at_any_time(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        struct house *house = build_loopback(parse(MODELS));
        int fds[20];
        for (size_t i = 0; i < WG_COUNT_OF(fds); i++) {
            fds[i] = dial(house);
            say(fds[i], i % 2 ? "GET /status HTTP/1.1\r\nHost: a\r\n\r\n" : "GET /sta");
        }
        tear_down(house);
        for (size_t i = 0; i < WG_COUNT_OF(fds); i++)
            close(fds[i]);
    }
}

/* ---- wakegate status ---- */

/* What wg_admin_print_status writes to `fd`. */
static const char *printed(int fd, const char *url, int *ret_code)
{
    FILE *file = tmpfile();

    assert_non_null(file);
    fflush(NULL);
    int kept = dup(fd);
    dup2(fileno(file), fd);
    *ret_code = wg_admin_print_status(url);
    fflush(NULL);
    dup2(kept, fd);
    close(kept);
    ssize_t n = pread(fileno(file), answer_text, sizeof(answer_text) - 1, 0);
    answer_text[WG_MAX(n, 0)] = '\0';
    fclose(file);
    return answer_text;
}

static void status_is_printed_as_a_table(void **state)
{
    const struct house *house = *state;
    unsigned port = ntohs(((const struct sockaddr_in *)&house->address)->sin_port);
    int code = -1;
    char *url = wg_xasprintf("http://127.0.0.1:%u/", port), *bare = wg_xasprintf("127.0.0.1:%u", port);

    const char *text = printed(STDOUT_FILENO, url, &code);
    assert_int_equal(code, 0);
    assert_int_equal(strncmp(text, "MODEL  STATE ", 13), 0);
    assert_non_null(strstr(text, "\norg/m  cold "));
    assert_non_null(strstr(text, "\ndefault  "));
    printed(STDOUT_FILENO, bare, &code);
    assert_int_equal(code, 0);
    free(url);
    free(bare);
}

static void status_says_why_there_is_none(void **state)
{
    const struct house *house = *state;
    unsigned port = ntohs(((const struct sockaddr_in *)&house->address)->sin_port);
    int code = -1;
    char *elsewhere = wg_xasprintf("http://127.0.0.1:%u/none", port),
         *other = wg_xasprintf("http://127.0.0.1:%u/healthz?", port);

    assert_non_null(strstr(printed(STDERR_FILENO, "http://127.0.0.1:1", &code), "Is Wakegate running"));
    assert_int_equal(code, 1);
    assert_non_null(strstr(printed(STDERR_FILENO, "ftp://127.0.0.1", &code), "no answer from ftp://"));
    assert_int_equal(code, 1);
    assert_non_null(strstr(printed(STDERR_FILENO, elsewhere, &code), "answered with status 404"));
    assert_int_equal(code, 1);
    assert_non_null(strstr(printed(STDERR_FILENO, other, &code), "does not answer like Wakegate"));
    assert_int_equal(code, 1);
    free(elsewhere);
    free(other);
}

static int setup(void **state)
{
    *state = build_loopback(parse(MODELS));
    return 0;
}

static int teardown(void **state)
{
    tear_down(*state);
    return 0;
}

#define HOUSE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HOUSE_TEST(health_and_readiness),
        HOUSE_TEST(metrics_are_prometheus_text),
        HOUSE_TEST(status_names_models_and_tenants),
        HOUSE_TEST(scaler_counts_demand),
        HOUSE_TEST(orders_are_carried_out),
        HOUSE_TEST(wrong_calls_get_clear_answers),
        HOUSE_TEST(bodies_are_bounded),
        HOUSE_TEST(a_connection_is_kept),
        HOUSE_TEST(a_connection_carries_many_requests_at_once),
        HOUSE_TEST(streams_may_leave_at_any_time),
        HOUSE_TEST(keys_guard_orders),
        cmocka_unit_test(open_addresses_take_no_orders_without_keys),
        HOUSE_TEST(clients_may_leave_at_any_time),
        HOUSE_TEST(connections_are_bounded),
        cmocka_unit_test(the_end_comes_at_any_time),
        HOUSE_TEST(status_is_printed_as_a_table),
        HOUSE_TEST(status_says_why_there_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
