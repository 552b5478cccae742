/* What does not fit together: names, keys and their files, targets, sizes, and what a reload may change. */
#include "config_check.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROCESS "target: {process: {command: [x, \"{port}\"]}}"
#define STATIC  "target: {static: {endpoints: [http://h]}}"
#define HASH    "31e88fb8d93d42b6dbc23f7f5df2a3fb8ed2ce7b6b98eb2e10d1fd4bc1fb1eb4"
#define OTHER   "41e88fb8d93d42b6dbc23f7f5df2a3fb8ed2ce7b6b98eb2e10d1fd4bc1fb1eb4"

struct told {
    const char *text, *line;
};

static void faults_between_options(void **state)
{
    static const struct told cases[] = {
        {"models: [{name: a}]", "test.yaml:1: models[0].target: is required"},
        {"models: [{name: a, target: {}}]",
         "test.yaml:1: models[0].target: must have exactly one of process, static"},
        {"models: [{name: a, target: {process: {command: [x], port: 1}, static: {endpoints: [http://h]}}}]",
         "test.yaml:1: models[0].target: must have exactly one of process, static"},
        {"models: [{name: a, " PROCESS "}, {name: b, aliases: [a], " PROCESS "}]",
         "test.yaml:1: models[1].aliases[0]: \"a\" is a name of models[0] already"},
        {"models: [{name: a, aliases: [a], " PROCESS "}]",
         "test.yaml:1: models[0].aliases[0]: \"a\" is a name of models[0]"},
        {"models: [{name: a, target: {process: {command: [x]}}}]",
         "test.yaml:1: models[0].target.process.command: must have {port}"},
        {"models: [{name: a, target: {process: {command: [\"\", \"{port}\"]}}}]",
         "test.yaml:1: models[0].target.process.command: the name of the program is empty"},
        {"models: [{name: a, target: {static: {endpoints: [http://h], sleep: {url: \"http://h/sleep\"}}}}]",
         "test.yaml:1: models[0].target.static.sleep: needs a wake hook too"},
        {"models:\n  - name: a\n    " STATIC "\n    concurrency: {perEndpoint: 2, rampStart: 3}",
         "test.yaml:4: models[0].concurrency.rampStart: must not be more than perEndpoint, which is 2"},
        {"models: [{name: a, " STATIC ", probe: {expect: \"(\"}}]",
         "test.yaml:1: models[0].probe.expect: is no POSIX extended regular expression: "},
        {"models: [{name: a, " STATIC ", probe: {kind: tcp, expect: x}}]",
         "test.yaml:1: models[0].probe.expect: does not go with probe.kind: tcp"},
        {"models: [{name: a, " STATIC ", wake: {backoff: 10m}}]",
         "test.yaml:1: models[0].wake.backoff: must not be longer than wake.maxBackoff"},
        {"models: [{name: a, " STATIC ", upstreamKey: {file: /nonexistent}}]",
         "test.yaml:1: models[0].upstreamKey.file: /nonexistent: No such file or directory"},
        {"listeners: [{address: \"127.0.0.1:1\"}, {address: \"127.0.0.1:1\"}]",
         "test.yaml:1: listeners[1].address: is the address of listeners[0] too"},
        {"listeners: [{address: \"127.0.0.1:9090\"}]",
         "test.yaml:1: listeners[0].address: is the address of admin too"},
        {"tenants: [{name: a}, {name: a}]",
         "test.yaml:1: tenants[1].name: \"a\" is the name of another tenant too"},
        {"tenants: [{}]", "test.yaml:1: tenants[0].name: is required"},
        {"tenants: [{name: a, keys: [{}]}]",
         "test.yaml:1: tenants[0].keys[0]: must have exactly one of sha256, file, san"},
        {"tenants: [{name: a, keys: [{sha256: " HASH ", file: x}]}]",
         "test.yaml:1: tenants[0].keys[0]: must have exactly one of sha256, file, san"},
        {"tenants: [{name: a, keys: [{san: Host.test}]}, {name: b, keys: [{san: x}, {san: host.TEST}]}]",
         "test.yaml:1: tenants[1].keys[1].san: is a name of the tenant \"a\" already"},
        {"tenants: [{name: a, keys: [{sha256: " HASH ", san: x}]}]",
         "test.yaml:1: tenants[0].keys[0]: must have exactly one of sha256, file, san"},
        {"tenants: [{name: a, keys: [{san: x}, {san: X}]}]",
         "test.yaml:1: tenants[0].keys[1].san: is a name of the tenant \"a\" already"},
        {"listeners: [{address: \":1\", tls: {keyFile: /dev/null}}]",
         "test.yaml:1: listeners[0].tls.certFile: is required"},
        {"listeners: [{address: \":1\", tls: {certFile: /nonexistent}}]",
         "test.yaml:1: listeners[0].tls.keyFile: is required"},
        {"listeners:\n- address: \":1\"\n  tls:\n    certFile: /nonexistent\n    keyFile: /dev/null",
         "test.yaml:4: listeners[0].tls.certFile: /nonexistent: No such file or directory"},
        {"listeners:\n- address: \":1\"\n  tls:\n    certFile: /nonexistent\n    keyFile: /dev/null",
         "test.yaml:5: listeners[0].tls.keyFile: /dev/null: not a regular file"},
        {"listeners:\n- address: \":1\"\n  tls: {certFile: /x, keyFile: /x,\n    clientCaFile: /x,\n"
         "    certificates: [\n      {certFile: /x,\n       keyFile: /x}]}",
         "test.yaml:4: listeners[0].tls.clientCaFile: /x: No such file or directory"},
        {"listeners:\n- address: \":1\"\n  tls: {certFile: /x, keyFile: /x,\n    clientCaFile: /x,\n"
         "    certificates: [\n      {certFile: /x,\n       keyFile: /x}]}",
         "test.yaml:7: listeners[0].tls.certificates[0].keyFile: /x: No such file or directory"},
        {"listeners: [{address: \":1\", tls: {certFile: \"\", keyFile: \"\"}}]",
         "test.yaml:1: listeners[0].tls.certFile: must not be empty"},
        {"tenants:\n  - {name: a, keys: [{sha256: " HASH "}]}\n  - {name: b, keys: [{sha256: " OTHER
         "}, {sha256: " HASH "}]}",
         "test.yaml:3: tenants[1].keys[1]: is a key of the tenant \"a\" already"},
        {"tenants: [{name: a, models: [nope]}]",
         "test.yaml:1: tenants[0].models[0]: there is no model \"nope\""},
        {"models: [{name: a, aliases: [b], " PROCESS "}]\ntenants: [{name: a, models: [a, b]}]",
         "test.yaml:2: tenants[0].models[1]: \"b\" is an alias; name the model, \"a\""},
        {"admin: {keys: [{file: /dev/null}]}",
         "test.yaml:1: admin.keys[0].file: /dev/null: not a regular file"},
    };

    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(cases); i++) {
        char *faults WG_AUTO_FREE = parse_bad(cases[i].text);
        assert_fault(faults, cases[i].line);
    }
}

static void warnings(void **state)
{
    static const struct told cases[] = {
        {"", "test.yaml:1: models: warning: there are none"},
        {"listeners: [{address: \":80\"}]",
         "test.yaml:1: listeners[0].address: warning: without tenants whoever can connect"},
        {"admin: {address: \"0.0.0.0:1\"}", "test.yaml:1: admin.address: warning: is not a loopback address"},
        {"models: [{name: a, " STATIC ", idle: {timeout: 5m}}]",
         "test.yaml:1: models[0].idle.timeout: warning: does nothing"},
        {"models: [{name: a, " STATIC ", preload: true}]",
         "test.yaml:1: models[0].preload: warning: does nothing"},
        {"limits: {maxHeldBytes: 1Mi}\nmodels: [{name: a, " STATIC "}]",
         "test.yaml:2: models[0].maxBodyBytes: warning: is larger than limits.maxHeldBytes"},
        {"models: [{name: a, " STATIC ", hold: {maxBytes: 1Mi}}]",
         "test.yaml:1: models[0].maxBodyBytes: warning: is larger than hold.maxBytes"},
        {"models: [{name: a, target: {process: {command: [x], port: 7}}}, {name: b, target: {process: "
         "{command: [x], port: 7}}}]",
         "test.yaml:1: models[1].target.process.port: warning: is the port of models[0] too"},
        {"tenants: [{name: a}]", "test.yaml:1: tenants[0]: warning: the tenant \"a\" has no keys"},
        {"tenants: [{name: anonymous}]",
         "test.yaml:1: tenants[0].name: warning: this tenant is for requests without a key"},
        {"tenants:\n- name: a\n  keys:\n  - san: x",
         "test.yaml:4: tenants[0].keys[0].san: warning: no listener has a clientCaFile"},
        {"tenants: [{name: a, keys: [{sha256: " HASH "}]}]\nanonymous: allow",
         "test.yaml:2: anonymous: warning: there is no tenant \"anonymous\""},
    };

    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(cases); i++) {
        char *found WG_AUTO_FREE = warnings_of(cases[i].text);
        assert_fault(found, cases[i].line);
    }
    char *none WG_AUTO_FREE =
        warnings_of("models: [{name: a, " PROCESS "}]\n"
                    "tenants: [{name: a, keys: [{sha256: " HASH "}]}, {name: anonymous}]\n"
                    "anonymous: allow\n");
    assert_string_equal(none, "");
}

/* A folder with one file in it, in which a configuration with relative names stands. */
struct folder {
    char path[64], config[96], file[96];
};

static struct folder make_folder(const char *content)
{
    struct folder folder = {.path = "/tmp/wakegate-test-XXXXXX"};

    assert_non_null(mkdtemp(folder.path));
    snprintf(folder.config, sizeof(folder.config), "%s/w.yaml", folder.path);
    snprintf(folder.file, sizeof(folder.file), "%s/key", folder.path);
    FILE *out = fopen(folder.file, "w");
    assert_non_null(out);
    fputs(content, out);
    fclose(out);
    return folder;
}

static void remove_folder(const struct folder *folder)
{
    unlink(folder->file);
    unlink(folder->config);
    rmdir(folder->path);
}

static const char *const key_files = "models: [{name: a, " STATIC ", upstreamKey: {file: key}}]\n"
                                     "admin: {keys: [{file: key}]}\n"
                                     "tenants: [{name: a, keys: [{file: key}]}]\n";

static void keys_are_read_from_files(void **state)
{
    /* SHA-256 of "wg-example" */
    static const uint8_t first[4] = {0x3c, 0x5c, 0x44, 0x6c};
    struct wg_config_faults faults = {0};
    struct wg_config *config = NULL;

    (void)state;
    struct folder folder = make_folder(" \n wg-example \r\n");
    FILE *out = fopen(folder.config, "w");
    assert_non_null(out);
    fputs(key_files, out);
    fclose(out);
    assert_int_equal(wg_config_load(folder.config, &config, &faults), 0);
    assert_string_equal(config->models[0].upstream_key, "wg-example");
    assert_memory_equal(config->tenants[0].keys[0].sha256, first, sizeof(first));
    assert_memory_equal(config->admin.keys[0].sha256, first, sizeof(first));
    wg_config_unref(config);
    wg_config_faults_clear(&faults);
    remove_folder(&folder);
}

static void assert_key_file_refused(const struct folder *folder, const char *why)
{
    struct wg_config_faults faults = {0};
    struct wg_config *config = NULL;
    char line[256];

    assert_int_equal(wg_config_parse(folder->config, wg_slice_str(key_files), &config, &faults), -EINVAL);
    snprintf(line, sizeof(line), "%s:3: tenants[0].keys[0].file: key: %s", folder->config, why);
    assert_fault(wg_buf_str(&faults.text), line);
    snprintf(line, sizeof(line), "%s:2: admin.keys[0].file: key: %s", folder->config, why);
    assert_fault(wg_buf_str(&faults.text), line);
    snprintf(line, sizeof(line), "%s:1: models[0].upstreamKey.file: key: %s", folder->config, why);
    assert_fault(wg_buf_str(&faults.text), line);
    assert_null(strstr(wg_buf_str(&faults.text), "two words"));
    wg_config_faults_clear(&faults);
}

static void bad_key_files_are_faults(void **state)
{
    char *large WG_AUTO_FREE = wg_xcalloc(1, 4098);
    const struct told cases[] = {
        {"", "empty"},
        {" \n\t", "empty"},
        {"two words", "not one key"},
        {"two\nlines", "not one key"},
        {"k\xc3\xa4", "not one key"},
        {large, "larger than 4096 bytes"},
    };

    (void)state;
    memset(large, 'x', 4097);
    for (size_t i = 0; i < WG_COUNT_OF(cases); i++) {
        struct folder folder = make_folder(cases[i].text);
        assert_key_file_refused(&folder, cases[i].line);
        remove_folder(&folder);
    }
    struct folder folder = make_folder("");
    unlink(folder.file);
    assert_key_file_refused(&folder, "No such file or directory");
    assert_int_equal(mkfifo(folder.file, 0600), 0);
    assert_key_file_refused(&folder, "not a regular file");
    remove_folder(&folder);
}

static void files_of_tls_count_from_the_folder(void **state)
{
    struct wg_config_faults faults = {0};
    struct wg_config *config = NULL, *plain = NULL;
    struct wg_buf changed = WG_BUF_INIT(1000);

    (void)state;
    struct folder folder = make_folder("anything");
    static const char text[] =
        "listeners: [{address: \"127.0.0.1:8080\", tls: {certFile: key, keyFile: ./key, "
        "clientCaFile: key, certificates: [{certFile: key, keyFile: key}]}}]";
    assert_int_equal(wg_config_parse(folder.config, wg_slice_str(text), &config, &faults), 0);
    const struct wg_config_tls *tls = &config->listeners[0].tls;
    assert_string_equal(tls->cert_file, folder.file);
    assert_string_equal(tls->client_ca_file, folder.file);
    assert_int_equal(tls->n_certificates, 1);
    assert_string_equal(tls->certificates[0].key_file, folder.file);
    plain = parse_good("listeners: [{address: \"127.0.0.1:8080\"}]");
    assert_string_equal(plain->listeners[0].tls.cert_file, "");
    wg_config_restart_needed(plain, config, &changed); /* switching TLS on is no new listener */
    assert_string_equal(wg_buf_str(&changed), "");
    wg_config_unref(plain);
    wg_config_unref(config);
    wg_config_faults_clear(&faults);
    remove_folder(&folder);
}

static void only_some_changes_need_a_restart(void **state)
{
    static const struct told cases[] = {
        {"workers: 2", "workers\n"},
        {"listeners: [{address: \"127.0.0.1:81\"}]", "listeners\n"},
        {"admin: {address: \"127.0.0.1:82\"}\nworkers: 3", "admin.address\nworkers\n"},
        {"listeners: [{address: \"127.0.0.1:8080\"}]\nadmin: {address: \"127.0.0.1:9090\"}\nworkers: auto",
         ""},
        {"log: {level: debug}\nmodels: [{name: a, " STATIC "}]\nadmin: {keys: [{sha256: " HASH "}]}", ""},
    };

    (void)state;
    struct wg_config *was = parse_good("");
    for (size_t i = 0; i < WG_COUNT_OF(cases); i++) {
        struct wg_buf out = WG_BUF_INIT(1000);
        struct wg_config *is = parse_good(cases[i].text);
        wg_config_restart_needed(was, is, &out);
        assert_string_equal(wg_buf_str(&out), cases[i].line);
        wg_buf_clear(&out);
        wg_config_unref(is);
    }
    wg_config_unref(was);
}

static void the_target_decides_whether_it_is_the_same(void **state)
{
    static const struct {
        const char *text;
        bool same;
    } cases[] = {
        {"{name: a, target: {process: {command: [x, \"{port}\"], env: {A: b}}}}", true},
        {"{name: b, aliases: [c], target: {process: {command: [x, \"{port}\"], env: {A: b}}}, hold: "
         "{timeout: 1s}, "
         "probe: {kind: tcp}, concurrency: {perEndpoint: 9}, idle: {timeout: never}}",
         true},
        {"{name: a, target: {process: {command: [x, \"{port}\"], env: {A: c}}}}", false},
        {"{name: a, target: {process: {command: [x, y, \"{port}\"], env: {A: b}}}}", false},
        {"{name: a, target: {process: {command: [x, \"{port}\"], env: {A: b}, port: 7}}}", false},
        {"{name: a, target: {process: {command: [x, \"{port}\"], env: {A: b}, stopTimeout: 1s}}}", false},
        {"{name: a, target: {process: {command: [x, \"{port}\"], env: {A: b}, workingDir: /}}}", false},
        {"{name: a, " STATIC "}", false},
    };
    char text[512];

    (void)state;
    snprintf(text, sizeof(text), "models: [%s]", cases[0].text);
    struct wg_config *was = parse_good(text);
    for (size_t i = 0; i < WG_COUNT_OF(cases); i++) {
        snprintf(text, sizeof(text), "models: [%s]", cases[i].text);
        struct wg_config *is = parse_good(text);
        assert_int_equal(wg_config_same_target(&was->models[0], &is->models[0]), cases[i].same);
        wg_config_unref(is);
    }
    wg_config_unref(was);
}

static void tenants_may_use_what_they_name(void **state)
{
    (void)state;
    struct wg_config *config =
        parse_good("models: [{name: a, " PROCESS "}, {name: b/c, aliases: [d], " PROCESS "}]\n"
                   "tenants: [{name: x, models: [b/c]}, {name: y}, {name: z, models: []}]\n");
    assert_false(wg_config_tenant_may(&config->tenants[0], &config->models[0]));
    assert_true(wg_config_tenant_may(&config->tenants[0], wg_config_model(config, WG_SLICE("d"))));
    assert_true(wg_config_tenant_may(&config->tenants[1], &config->models[0]));
    assert_false(wg_config_tenant_may(&config->tenants[2], &config->models[0]));
    wg_config_unref(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_between_options),
        cmocka_unit_test(warnings),
        cmocka_unit_test(keys_are_read_from_files),
        cmocka_unit_test(bad_key_files_are_faults),
        cmocka_unit_test(files_of_tls_count_from_the_folder),
        cmocka_unit_test(only_some_changes_need_a_restart),
        cmocka_unit_test(the_target_decides_whether_it_is_the_same),
        cmocka_unit_test(tenants_may_use_what_they_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
