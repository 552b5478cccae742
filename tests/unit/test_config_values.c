/* What a right configuration becomes: defaults, every option of the contract, values of every type. */
#include "config_check.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <unistd.h>

#define SEC WG_USEC_PER_SEC

static void an_empty_file_has_the_defaults(void **state)
{
    (void)state;
    struct wg_config *config = parse_good("");
    assert_int_equal(config->n_listeners, 1);
    assert_string_equal(config->listeners[0].address.text, "127.0.0.1:8080");
    assert_string_equal(config->admin.address.text, "127.0.0.1:9090");
    assert_int_equal(config->workers, 0);
    assert_int_equal(config->log.level, WG_LOG_INFO);
    assert_int_equal(config->log.format, WG_LOG_TEXT);
    assert_true(config->log.access);
    assert_int_equal(config->shutdown.delay, 0);
    assert_int_equal(config->shutdown.grace, 300 * SEC);
    assert_int_equal(config->limits.max_held_bytes, 1 << 30);
    assert_int_equal(config->limits.max_connections, 20000);
    assert_int_equal(config->limits.max_header_bytes, 65536);
    assert_int_equal(config->limits.header_timeout, 10 * SEC);
    assert_int_equal(config->limits.body_idle_timeout, 30 * SEC);
    assert_int_equal(config->limits.write_idle_timeout, 60 * SEC);
    assert_int_equal(config->limits.idle_timeout, 180 * SEC);
    assert_int_equal(config->tokens.default_max_tokens, 256);
    assert_int_equal(config->tokens.per_image, 1024);
    assert_false(config->anonymous_allow);
    assert_true(config->open);
    assert_int_equal(config->n_tenants, 1);
    assert_string_equal(config->tenants[0].name, "default");
    assert_int_equal(config->tenants[0].weight, 1);
    assert_int_equal(config->n_models, 0);
    assert_ptr_equal(wg_config_ref(config), config);
    assert_null(wg_config_unref(config));
    assert_null(wg_config_unref(config));
    assert_null(wg_config_unref(NULL));
}

static void a_model_has_the_defaults(void **state)
{
    (void)state;
    struct wg_config *config = parse_good(
        "models:\n"
        "  - name: meta/llama\n"
        "    target: {static: {endpoints: [\"http://10.0.0.5:8000\", \"http://[::1]\", http://gpu-1/]}}\n"
        "  - name: local\n"
        "    aliases: [tiny, gpt-4]\n"
        "    target: {process: {command: [server, \"--port={port}\"]}}\n"
        "    probe: {kind: tcp}\n");
    const struct wg_config_model *remote = &config->models[0], *local = &config->models[1];
    assert_int_equal(config->n_models, 2);
    assert_string_equal(remote->name, "meta/llama");
    assert_int_equal(remote->target, WG_TARGET_STATIC);
    assert_int_equal(remote->static_.n_endpoints, 3);
    assert_string_equal(remote->static_.endpoints[0].host, "10.0.0.5");
    assert_int_equal(remote->static_.endpoints[0].port, 8000);
    assert_string_equal(remote->static_.endpoints[1].host, "::1");
    assert_int_equal(remote->static_.endpoints[1].port, 80);
    assert_string_equal(remote->static_.endpoints[2].host, "gpu-1");
    assert_string_equal(remote->static_.wake.method, "POST");
    assert_string_equal(remote->static_.wake.url, "");
    assert_string_equal(remote->upstream_model, "");
    assert_string_equal(remote->upstream_key, "");
    assert_int_equal(remote->probe.kind, WG_PROBE_CHAT);
    assert_string_equal(remote->probe.prompt, "Hi");
    assert_string_equal(remote->probe.path, "/v1/chat/completions");
    assert_int_equal(remote->probe.max_tokens, 1);
    assert_int_equal(remote->probe.connect_interval, 50000);
    assert_int_equal(remote->probe.interval, 250000);
    assert_int_equal(remote->probe.timeout, 30 * SEC);
    assert_int_equal(remote->wake.timeout, 900 * SEC);
    assert_int_equal(remote->wake.backoff, 10 * SEC);
    assert_int_equal(remote->wake.max_backoff, 300 * SEC);
    assert_int_equal(remote->hold.timeout, 900 * SEC);
    assert_int_equal(remote->hold.silent_timeout, 290 * SEC);
    assert_int_equal(remote->hold.busy_timeout, 60 * SEC);
    assert_int_equal(remote->hold.max_requests, 2000);
    assert_int_equal(remote->hold.max_bytes, 256 << 20);
    assert_int_equal(remote->hold.heartbeat_after, 40 * SEC);
    assert_int_equal(remote->hold.heartbeat_every, 10 * SEC);
    assert_int_equal(remote->max_body_bytes, 32 << 20);
    assert_int_equal(remote->paths.n, 16);
    assert_int_equal(remote->concurrency.per_endpoint, 256);
    assert_int_equal(remote->concurrency.ramp_start, 16);
    assert_int_equal(remote->timeouts.connect, 2 * SEC);
    assert_int_equal(remote->timeouts.first_byte, 600 * SEC);
    assert_int_equal(remote->timeouts.idle, 300 * SEC);
    assert_int_equal(remote->timeouts.reuse, 4 * SEC);
    assert_int_equal(remote->idle_timeout, 1800 * SEC);
    assert_int_equal(remote->min_replicas, 0);
    assert_false(remote->preload);
    assert_int_equal(local->index, 1);
    assert_int_equal(local->target, WG_TARGET_PROCESS);
    assert_int_equal(local->process.stop_timeout, 10 * SEC);
    assert_string_equal(local->process.command.items[1], "--port={port}");
    assert_int_equal(local->concurrency.per_endpoint, 4);
    assert_int_equal(local->concurrency.ramp_start, 4);
    assert_string_equal(local->probe.path, "");
    assert_ptr_equal(wg_config_model(config, WG_SLICE("gpt-4")), local);
    assert_ptr_equal(wg_config_model(config, WG_SLICE("meta/llama")), remote);
    assert_null(wg_config_model(config, WG_SLICE("meta")));
    wg_config_unref(config);
}

/* What the contract shows, but for keys without function; those are at their defaults where they have one. */
static const char *const contract =
    "listeners:\n  - address: \"0.0.0.0:8080\"\n"
    "admin: { address: \"127.0.0.1:9090\", keys: [] }\n"
    "workers: 3\nstateDir: \"\"\n"
    "log: { level: debug, format: json, access: false }\n"
    "shutdown: { delay: 5s, grace: 1m }\n"
    "limits: { maxHeldBytes: 2Gi, maxConnections: 100, maxStreams: 64, headerTimeout: 1s, bodyIdleTimeout: "
    "2s, "
    "writeIdleTimeout: 3s, idleTimeout: 4s, maxHeaderBytes: 32Ki }\n"
    "kubernetes: { kubeconfig: \"\", context: \"\" }\n"
    "trustedPeers: [10.0.0.0/8, \"fd00::/8\", 192.168.1.77]\ntenantHeader: \"\"\n"
    "models:\n"
    "  - name: qwen3-8b\n    aliases: [q]\n    upstreamModel: Qwen/Qwen3-8B\n"
    "    target:\n"
    "      process: { command: [llama-server, \"--port\", \"{port}\"], port: 7000, stopTimeout: 1s, "
    "workingDir: /srv, "
    "env: { A: b, N: 5 } }\n"
    "    upstreamKey: { file: \"\" }\n"
    "    probe: { kind: completions, prompt: Hello, maxTokens: 16, path: /x, body: '{\"a\": 1}', expect: "
    "\"^[0-9]+$\", "
    "connectInterval: 1ms, interval: 2ms, timeout: 3ms }\n"
    "    wake: { timeout: 1m, backoff: 2s, maxBackoff: 3m }\n"
    "    hold: { timeout: 1m, silentTimeout: 2m, busyTimeout: 0s, maxRequests: 7, maxBytes: 64Mi, "
    "heartbeat: { after: 0s, every: 1s } }\n"
    "    maxBodyBytes: 1Mi\n    paths: [/v1/chat/completions, /v1/audio/*]\n"
    "    concurrency: { perEndpoint: 8, rampStart: 2 }\n"
    "    timeouts: { connect: 1s, firstByte: 2s, idle: 3s, reuse: 0s }\n"
    "    idle: { timeout: never, minReplicas: 0 }\n    preload: true\n    group: \"\"\n"
    "groups: []\n"
    "tenants:\n"
    "  - name: search\n"
    "    keys: [ { sha256: \"31E88FB8d93d42b6dbc23f7f5df2a3fb8ed2ce7b6b98eb2e10d1fd4bc1fb1eb4\" } ]\n"
    "    models: [qwen3-8b]\n    priority: -5\n    weight: 3\n    timezone: UTC\n"
    "  - name: anonymous\n"
    "anonymous: allow\n"
    "tokens: { defaultMaxTokens: 10, perImage: 0 }\n";

static void the_contract_is_understood(void **state)
{
    (void)state;
    struct wg_config *config = parse_good(contract);
    const struct wg_config_model *model = &config->models[0];
    assert_int_equal(config->workers, 3);
    assert_int_equal(config->log.level, WG_LOG_DEBUG);
    assert_int_equal(config->log.format, WG_LOG_JSON);
    assert_false(config->log.access);
    assert_int_equal(config->limits.max_streams, 64);
    assert_int_equal(config->n_trusted_peers, 3);
    assert_string_equal(model->upstream_model, "Qwen/Qwen3-8B");
    assert_int_equal(model->process.port, 7000);
    assert_string_equal(model->process.working_dir, "/srv");
    assert_string_equal(model->process.env.items[0], "A=b");
    assert_string_equal(model->process.env.items[1], "N=5");
    assert_int_equal(model->probe.kind, WG_PROBE_COMPLETIONS);
    assert_string_equal(model->probe.path, "/x");
    assert_string_equal(model->probe.body, "{\"a\": 1}");
    assert_int_equal(regexec(&model->probe.expect_regex, "42", 0, NULL, 0), 0);
    assert_int_equal(regexec(&model->probe.expect_regex, "no", 0, NULL, 0), REG_NOMATCH);
    assert_int_equal(model->hold.busy_timeout, 0);
    assert_int_equal(model->hold.heartbeat_after, 0);
    assert_int_equal(model->concurrency.per_endpoint, 8);
    assert_int_equal(model->concurrency.ramp_start, 2);
    assert_int_equal(model->timeouts.reuse, 0);
    assert_true(model->idle_timeout == WG_USEC_NEVER);
    assert_true(model->preload);
    assert_false(config->open);
    assert_true(config->anonymous_allow);
    assert_int_equal(config->tenants[0].priority, -5);
    assert_int_equal(config->tenants[0].weight, 3);
    assert_int_equal(config->tenants[0].keys[0].sha256[1], 0xe8);
    assert_true(wg_config_tenant_may(&config->tenants[0], model));
    assert_true(wg_config_tenant_may(&config->tenants[1], model));
    assert_int_equal(config->tenants[1].index, 1);
    wg_config_unref(config);
}

static void json_is_yaml_too(void **state)
{
    (void)state;
    struct wg_config *config = parse_good("{\"workers\": 2, \"limits\": {\"maxHeldBytes\": 4096},\n"
                                          " \"anonymous\": \"allow\", \"models\": null, \"tenants\": []}");
    assert_int_equal(config->workers, 2);
    assert_int_equal(config->limits.max_held_bytes, 4096);
    assert_true(config->open);
    wg_config_unref(config);
}

static void the_environment_is_put_in(void **state)
{
    (void)state;
    setenv("WG_TEST_NAME", "llama", 1);
    setenv("WG_TEST_NUMBER", "12", 1);
    setenv("WG_TEST_EMPTY", "", 1);
    struct wg_config *config = parse_good(
        "workers: ${WG_TEST_NUMBER}\n"
        "limits: { maxConnections: \"${WG_TEST_NUMBER}0\" }\n"
        "models:\n"
        "  - name: \"${WG_TEST_NAME}-$$-$1-$\"\n"
        "    upstreamModel: ${WG_TEST_EMPTY}\n"
        "    target: {process: {command: [\"$${NOT}\", \"${WG_TEST_NAME}${WG_TEST_NAME}{port}\"]}}\n");
    assert_int_equal(config->workers, 12);
    assert_int_equal(config->limits.max_connections, 120);
    assert_string_equal(config->models[0].name, "llama-$-$1-$");
    assert_string_equal(config->models[0].upstream_model, "");
    assert_string_equal(config->models[0].process.command.items[0], "${NOT}");
    assert_string_equal(config->models[0].process.command.items[1], "llamallama{port}");
    wg_config_unref(config);
}

static void ramp_follows_slots(void **state)
{
    static const struct {
        const char *concurrency;
        unsigned most, first;
    } process[] = {{"{}", 4, 4},
                   {"{perEndpoint: 2}", 2, 2},
                   {"{perEndpoint: 9}", 9, 4},
                   {"{rampStart: 6}", 6, 6},
                   {"{rampStart: 1}", 4, 1}};
    char text[256];

    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(process); i++) {
        snprintf(text, sizeof(text),
                 "models: [{name: m, target: {process: {command: [x], port: 1}}, concurrency: %s}]",
                 process[i].concurrency);
        struct wg_config *config = parse_good(text);
        assert_int_equal(config->models[0].concurrency.per_endpoint, process[i].most);
        assert_int_equal(config->models[0].concurrency.ramp_start, process[i].first);
        wg_config_unref(config);
    }
}

static void addresses(void **state)
{
    static const char *const good[][2] = {
        {"127.0.0.1:80", "127.0.0.1:80"},
        {"[::1]:8080", "[::1]:8080"},
        {":9000", "[::]:9000"},
        {"0.0.0.0:0", "0.0.0.0:0"},
        {"[2001:DB8:0::1]:65535", "[2001:db8::1]:65535"},
    };
    static const char *const bad[] = {
        "",      "127.0.0.1",      "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "localhost:80",
        "[::1]", "[::1:80",        "::1:80",     "[127.0.0.1]:80",  "1.2.3:80",     "1.2.3.4:80x",
        "[]:80", "1.2.3.4:080808", "[::1]80"};
    struct wg_address address = {0};

    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(good); i++) {
        assert_int_equal(wg_address_parse(wg_slice_str(good[i][0]), &address), 0);
        assert_string_equal(address.text, good[i][1]);
        assert_true(address.len > 0);
        wg_address_clear(&address);
        assert_null(address.text);
    }
    for (size_t i = 0; i < WG_COUNT_OF(bad); i++)
        assert_true(wg_address_parse(wg_slice_str(bad[i]), &address) < 0);
    assert_null(address.text);
}

static bool trusted(const struct wg_config *config, const char *text)
{
    struct wg_address address = {0};

    assert_int_equal(wg_address_parse(wg_slice_str(text), &address), 0);
    bool contains =
        wg_cidr_contains(config->trusted_peers, config->n_trusted_peers, (struct sockaddr *)&address.sa);
    wg_address_clear(&address);
    return contains;
}

static void networks(void **state)
{
    (void)state;
    struct wg_config *config = parse_good("trustedPeers: [10.1.2.3/9, 192.168.1.77, \"fd00::/7\", \"::1\"]");
    struct sockaddr other = {.sa_family = AF_UNIX};
    assert_true(trusted(config, "10.127.255.255:1"));
    assert_false(trusted(config, "10.128.0.0:1"));
    assert_true(trusted(config, "192.168.1.77:1"));
    assert_false(trusted(config, "192.168.1.76:1"));
    assert_true(trusted(config, "[::ffff:10.0.0.1]:1"));
    assert_true(trusted(config, "[fcff::1]:1"));
    assert_false(trusted(config, "[fe00::1]:1"));
    assert_true(trusted(config, "[::1]:1"));
    assert_false(trusted(config, "[::2]:1"));
    assert_false(wg_cidr_contains(config->trusted_peers, config->n_trusted_peers, &other));
    wg_config_unref(config);
    config = parse_good("trustedPeers: [0.0.0.0/0]");
    assert_true(trusted(config, "8.8.8.8:1"));
    assert_false(trusted(config, "[2001::1]:1"));
    wg_config_unref(config);
}

static void paths(void **state)
{
    static const char *const good[] = {
        "/v1/chat/completions", "/v1/audio/speech", "/v1/audio/a.b", "/v1/audio/...",
        "/v1/audio/%41",        "/v1/audio/100%",   "/a/x/b"};
    static const char *const bad[] = {"",
                                      "/",
                                      "v1/chat/completions",
                                      "/v1/chat/completions/",
                                      "/v1/chat",
                                      "/sleep",
                                      "/v1/audio",
                                      "/v1/audio/",
                                      "/v1/audio/a/b",
                                      "/v1/audio/..",
                                      "/v1/audio/.",
                                      "/v1/audio/%2e%2E",
                                      "/v1/audio/.%2e",
                                      "/v1/audio/%2e",
                                      "/v1/audio/..%2fsleep",
                                      "/v1/audio/a%5cb",
                                      "/v1/audio/a\\b",
                                      "/v1/audio/%00",
                                      "/a/../b",
                                      "/V1/chat/completions"};

    (void)state;
    struct wg_config *config = parse_good("models: [{name: m, target: {static: {endpoints: [http://h]}}, "
                                          "paths: [/v1/chat/completions, /v1/audio/*, /a/*/b]}]");
    for (size_t i = 0; i < WG_COUNT_OF(good); i++)
        if (!wg_config_path_allowed(&config->models[0], wg_slice_str(good[i])))
            fail_msg("%s is not allowed", good[i]);
    for (size_t i = 0; i < WG_COUNT_OF(bad); i++)
        if (wg_config_path_allowed(&config->models[0], wg_slice_str(bad[i])))
            fail_msg("%s is allowed", bad[i]);
    wg_config_unref(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_file_has_the_defaults),
        cmocka_unit_test(a_model_has_the_defaults),
        cmocka_unit_test(the_contract_is_understood),
        cmocka_unit_test(json_is_yaml_too),
        cmocka_unit_test(the_environment_is_put_in),
        cmocka_unit_test(ramp_follows_slots),
        cmocka_unit_test(addresses),
        cmocka_unit_test(networks),
        cmocka_unit_test(paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
