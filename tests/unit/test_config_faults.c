/* What is wrong in one place: the form of the file, unknown keys, values of the wrong type or out of range,
 * keys without function. Each fault with its line and its key, and all of them at once. */
#include "config_check.h"

#include <stdlib.h>

struct wrong {
    const char *text, *fault;
};

static void assert_all_wrong(const struct wrong *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *faults WG_AUTO_FREE = parse_bad(cases[i].text);
        assert_fault(faults, cases[i].fault);
    }
}
#define ASSERT_ALL_WRONG(cases) assert_all_wrong(cases, WG_COUNT_OF(cases))

static void the_form_of_the_file(void **state)
{
    static const struct wrong cases[] = {
        {"a: [", "test.yaml:2: is not YAML: "},
        {"log:\n  level: info\n format: text\n", "test.yaml:3: "},
        {"log: {level: info}\nworkers: \"a\n", "test.yaml:3: is not YAML: "},
        {"\n\nx: \xff\n", "test.yaml:3: is not YAML: "},
        {"- a\n", "test.yaml:1: must be a mapping"},
        {"just text", "test.yaml:1: must be a mapping"},
        {"workers: 1\n---\nworkers: 2\n", "test.yaml:2: a second document begins here"},
        {"workers: 1\nlog: {level: info,\n  level: warn}\nworkers: 2\n",
         "test.yaml:3: log.level: is given twice, first in line 2"},
        {"workers: 1\nworkers: 2\n", "test.yaml:2: workers: is given twice, first in line 1"},
        {"workers: &a 1\n", "test.yaml:1: workers: anchors, aliases and tags of YAML are not supported"},
        {"log: &a {level: info}\n", "test.yaml:1: log: anchors"},
        {"admin: {keys: *a}\n", "test.yaml:1: admin.keys: anchors"},
        {"models:\n  - name: !!int 1\n", "test.yaml:2: models[0].name: anchors"},
        {"models: !x []\n", "test.yaml:1: models: anchors"},
        {"<<: {a: b}\n", "test.yaml:1: <<: unknown key"},
        {"? [a]\n: b\n", "test.yaml:1: a key must be text"},
        {"models:\n  - name: \"a\\0b\"\n", "test.yaml:2: models[0].name: has a NUL character inside"},
        {"workers: ${WG_TEST_NOT_SET}\n",
         "test.yaml:1: workers: the environment variable WG_TEST_NOT_SET is not set"},
        {"workers: \"${}\"\n", "test.yaml:1: workers: \"${\" begins the name"},
        {"workers: ${A B}\n", "test.yaml:1: workers: \"${\" begins the name"},
        {"workers: ${HOME\n", "test.yaml:1: workers: \"${\" begins the name"},
        {"workers: \"${1A}\"\n", "test.yaml:1: workers: \"${\" begins the name"},
    };

    (void)state;
    unsetenv("WG_TEST_NOT_SET");
    ASSERT_ALL_WRONG(cases);
}

static char *repeat(const char *head, const char *part, size_t n, const char *tail)
{
    struct wg_buf text = WG_BUF_INIT(8 << 20);

    wg_buf_add_str(&text, head);
    for (size_t i = 0; i < n; i++)
        wg_buf_add_str(&text, part);
    wg_buf_add_str(&text, tail);
    assert_false(text.failed);
    return text.data;
}

static void the_size_of_the_file(void **state)
{
    const struct {
        const char *head, *part;
        size_t n;
        const char *tail, *fault;
    } cases[] = {
        {"a: ", "[", 40, "", "test.yaml:1: a[0][0]"},
        {"a: ", "[", 100000, "", "test.yaml:1: a[0][0]"},
        {"a: [", "1,", 100001, "]", "test.yaml:1: a[99998]: more than 100000 values in one file"},
        {"#", " ", 1 << 20, "", "test.yaml: is larger than 1048576 bytes"},
        {"models: [", "{},", 20001, "]", "test.yaml:1: models: must have at most 20000 members"},
        {"trustedPeers: [", "a,", 10001, "]", "test.yaml:1: trustedPeers: must have at most 10000 members"},
    };
    struct wg_buf keys = WG_BUF_INIT(1 << 20);

    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(cases); i++) {
        char *text WG_AUTO_FREE = repeat(cases[i].head, cases[i].part, cases[i].n, cases[i].tail);
        char *faults WG_AUTO_FREE = parse_bad(text);
        assert_fault(faults, cases[i].fault);
    }
    for (int i = 0; i < 1001; i++)
        wg_buf_addf(&keys, "k%d: 1\n", i);
    char *faults WG_AUTO_FREE = parse_bad(wg_buf_str(&keys));
    assert_fault(faults, "test.yaml:1001: more than 1000 keys in one mapping");
    wg_buf_clear(&keys);
}

static void unknown_keys(void **state)
{
    static const struct wrong cases[] = {
        {"worker: 1", "test.yaml:1: worker: unknown key; did you mean \"workers\"?"},
        {"limits: {max_held_bytes: 1}",
         "test.yaml:1: limits.max_held_bytes: unknown key; did you mean \"maxHeldBytes\"?"},
        {"Log: {}", "test.yaml:1: Log: unknown key; did you mean \"log\"?"},
        {"foo: 1", "test.yaml:1: foo: unknown key\n"},
        {"log.level: info", "test.yaml:1: log.level: unknown key\n"},
        {"models:\n  - nam: x", "test.yaml:2: models[0].nam: unknown key; did you mean \"name\"?"},
        {"tenants: [{name: a, keys: [{sha: x}]}]", "test.yaml:1: tenants[0].keys[0].sha: unknown key\n"},
        {"\"a\\nb\": 1", "test.yaml:1: a\\x0ab: unknown key"},
    };

    (void)state;
    ASSERT_ALL_WRONG(cases);
}

static void wrong_types(void **state)
{
    static const struct wrong cases[] = {
        {"log: info", "test.yaml:1: log: must be a mapping"},
        {"log: {level: [info]}", "test.yaml:1: log.level: must be one word, not a list"},
        {"log: {access: {}}", "test.yaml:1: log.access: must be one word, not a mapping"},
        {"log: {access: yes}", "test.yaml:1: log.access: \"yes\" must be false or true"},
        {"log: {level: loud}", "test.yaml:1: log.level: \"loud\" must be error, warn, info or debug"},
        {"anonymous: true", "test.yaml:1: anonymous: \"true\" must be deny or allow"},
        {"workers: many", "test.yaml:1: workers: \"many\" must be a whole number or auto"},
        {"workers: \"4\"", "test.yaml:1: workers: \"4\" must be a whole number"},
        {"workers: 1.5", "test.yaml:1: workers: \"1.5\" must be a whole number"},
        {"workers: [1]", "test.yaml:1: workers: must be a number, not a list"},
        {"listeners: {address: x}", "test.yaml:1: listeners: must be a list"},
        {"listeners: [x]", "test.yaml:1: listeners[0]: must be a mapping"},
        {"listeners: [{address: here}]",
         "test.yaml:1: listeners[0].address: \"here\" must be a numeric address"},
        {"listeners: [{address: {}}]",
         "test.yaml:1: listeners[0].address: must be an address, not a mapping"},
        {"listeners: [{}]", "test.yaml:1: listeners[0].address: is required"},
        {"trustedPeers: 10.0.0.0/8", "test.yaml:1: trustedPeers: must be a list"},
        {"trustedPeers:\n  - 10.0.0.0/8\n  - 10.0.0.0/33",
         "test.yaml:3: trustedPeers[1]: \"10.0.0.0/33\" must be a network"},
        {"trustedPeers: [[]]", "test.yaml:1: trustedPeers[0]: must be a network"},
        {"trustedPeers: [gateway]", "test.yaml:1: trustedPeers[0]: \"gateway\" must be a network"},
        {"limits: {headerTimeout: 10}", "test.yaml:1: limits.headerTimeout: \"10\" must be a duration"},
        {"limits: {headerTimeout: never}", "test.yaml:1: limits.headerTimeout: \"never\" must be a duration"},
        {"limits: {maxHeldBytes: 1GB}", "test.yaml:1: limits.maxHeldBytes: \"1GB\" must be a size"},
        {"limits: {maxHeldBytes: []}", "test.yaml:1: limits.maxHeldBytes: must be a size, not a list"},
        {"models: [{aliases: a}]", "test.yaml:1: models[0].aliases: must be a list"},
        {"models: [{aliases: [~]}]", "test.yaml:1: models[0].aliases[0]: must be a string"},
        {"models: [{name: {}}]", "test.yaml:1: models[0].name: must be a string, not a mapping"},
        {"models: [{target: {process: {env: [A]}}}]",
         "test.yaml:1: models[0].target.process.env: must be a mapping of names"},
        {"models: [{target: {process: {env: {\"A=B\": c}}}}]",
         "test.yaml:1: models[0].target.process.env: \"A=B\" cannot be"},
        {"models: [{target: {process: {env: {A: []}}}}]",
         "test.yaml:1: models[0].target.process.env: the value of A must be"},
        {"tenants: [{keys: [{sha256: abc}]}]",
         "test.yaml:1: tenants[0].keys[0].sha256: must be 64 hexadecimal digits"},
        {"tenants: [{keys: [{sha256: g1e88fb8d93d42b6dbc23f7f5df2a3fb8ed2ce7b6b98eb2e10d1fd4bc1fb1eb4}]}]",
         "test.yaml:1: tenants[0].keys[0].sha256: must be 64 hexadecimal digits"},
    };

    (void)state;
    ASSERT_ALL_WRONG(cases);
}

static void out_of_range(void **state)
{
    static const struct wrong cases[] = {
        {"workers: 0", "test.yaml:1: workers: \"0\" must be between 1 and 256"},
        {"workers: -1", "test.yaml:1: workers: \"-1\" must be between 1 and 256"},
        {"workers: 99999999999999999999",
         "test.yaml:1: workers: \"99999999999999999999\" must be a whole number"},
        {"limits: {headerTimeout: 0s}",
         "test.yaml:1: limits.headerTimeout: \"0s\" must be between 1ms and 1h"},
        {"limits: {headerTimeout: 999999999999d}",
         "test.yaml:1: limits.headerTimeout: \"999999999999d\" must be between"},
        {"limits: {maxStreams: 0}", "test.yaml:1: limits.maxStreams: \"0\" must be between 1 and 10000"},
        {"limits: {maxStreams: 10001}",
         "test.yaml:1: limits.maxStreams: \"10001\" must be between 1 and 10000"},
        {"limits: {maxHeldBytes: 1}",
         "test.yaml:1: limits.maxHeldBytes: \"1\" must be between 1Ki and 1024Gi"},
        {"limits: {maxHeldBytes: 99999999999999999999Gi}", "test.yaml:1: limits.maxHeldBytes: "},
        {"limits: {maxConnections: 0}", "test.yaml:1: limits.maxConnections: "},
        {"models: [{name: \"\"}]", "test.yaml:1: models[0].name: must not be empty"},
        {"models: [{name: \"a\\tb\"}]",
         "test.yaml:1: models[0].name: \"a\\x09b\" must not have control characters"},
        {"models: [{aliases: [\"\"]}]", "test.yaml:1: models[0].aliases[0]: \"\" must have 1 to 256 bytes"},
        {"models: [{paths: []}]", "test.yaml:1: models[0].paths: must not be empty"},
        {"models: [{paths: [v1]}]", "test.yaml:1: models[0].paths[0]: \"v1\" must begin with \"/\""},
        {"models: [{paths: [/a?b]}]",
         "test.yaml:1: models[0].paths[0]: \"/a?b\" must be a path without query"},
        {"models: [{paths: [/a*]}]",
         "test.yaml:1: models[0].paths[0]: \"/a*\" \"*\" stands for one whole segment"},
        {"models: [{probe: {path: v1}}]", "test.yaml:1: models[0].probe.path: \"v1\" must begin with \"/\""},
        {"models: [{probe: {path: \"/v 1\"}}]",
         "test.yaml:1: models[0].probe.path: \"/v 1\" must be a path without spaces"},
        {"models: [{probe: {maxTokens: 0}}]",
         "test.yaml:1: models[0].probe.maxTokens: \"0\" must be between 1 and"},
        {"models: [{probe: {expect: \"x{100}{100}\"}}]",
         "test.yaml:1: models[0].probe.expect: \"x{100}{100}\" has repetitions"},
        {"models: [{target: {process: {port: 70000}}}]",
         "test.yaml:1: models[0].target.process.port: \"70000\" must be between"},
        {"models: [{target: {static: {endpoints: [\"https://h\"]}}}]",
         "test.yaml:1: models[0].target.static.endpoints[0]: \"https://h\" has https, which is not "
         "available"},
        {"models: [{target: {static: {endpoints: [h]}}}]",
         "test.yaml:1: models[0].target.static.endpoints[0]: \"h\" must begin with http://"},
        {"models: [{target: {static: {endpoints: [\"http://h/v1\"]}}}]",
         "test.yaml:1: models[0].target.static.endpoints[0]: \"http://h/v1\" must be http://HOST[:PORT] "
         "without a path"},
        {"models: [{target: {static: {endpoints: [\"http://u:p@h\"]}}}]",
         "test.yaml:1: models[0].target.static.endpoints[0]: \"http://u:p@h\" must not have a user name"},
        {"models: [{target: {static: {endpoints: [\"http://\"]}}}]",
         "test.yaml:1: models[0].target.static.endpoints[0]: \"http://\" must be http://HOST[:PORT]"},
        {"models: [{target: {static: {endpoints: [\"http://h:0\"]}}}]",
         "test.yaml:1: models[0].target.static.endpoints[0]: "},
        {"models: [{target: {static: {endpoints: [\"http://a b\"]}}}]",
         "test.yaml:1: models[0].target.static.endpoints[0]: "},
        {"models: [{target: {static: {endpoints: [\"http://[::x]\"]}}}]",
         "test.yaml:1: models[0].target.static.endpoints[0]: "},
        {"models: [{target: {static: {endpoints: []}}}]",
         "test.yaml:1: models[0].target.static.endpoints: must not be empty"},
        {"models: [{target: {static: {}}}]", "test.yaml:1: models[0].target.static.endpoints: is required"},
        {"models: [{target: {static: {wake: {url: \"https://h/\"}}}}]",
         "test.yaml:1: models[0].target.static.wake.url: \"https://h/\" has https"},
        {"models: [{target: {static: {wake: {url: \"http://h/ x\"}}}}]",
         "test.yaml:1: models[0].target.static.wake.url: \"http://h/ x\" must be http://HOST[:PORT]/PATH"},
        {"models: [{target: {static: {wake: {method: SEND}}}}]",
         "test.yaml:1: models[0].target.static.wake.method: \"SEND\" must be POST, PUT, PATCH, GET or "
         "DELETE"},
        {"models: [{target: {process: {}}}]", "test.yaml:1: models[0].target.process.command: is required"},
        {"tenants: [{keys: [{file: \"\"}]}]", "test.yaml:1: tenants[0].keys[0].file: \"\" must not be empty"},
        {"admin: {keys: [{file: \"\"}]}", "test.yaml:1: admin.keys[0].file: \"\" must not be empty"},
        {"tenants: [{keys: [{san: \"\"}]}]",
         "test.yaml:1: tenants[0].keys[0].san: \"\" must have 1 to 512 bytes"},
        {"tenants: [{keys: [{san: \"a b\"}]}]",
         "test.yaml:1: tenants[0].keys[0].san: \"a b\" must not have spaces or control characters"},
        {"tenants: [{keys: [{san: [a]}]}]",
         "test.yaml:1: tenants[0].keys[0].san: must be a string, not a list"},
        {"tenants: [{weight: 0}]", "test.yaml:1: tenants[0].weight: \"0\" must be between 1 and 1000"},
    };

    (void)state;
    ASSERT_ALL_WRONG(cases);
}

static void what_comes_later_is_never_silent(void **state)
{
    static const char *const paths[][2] = {
        {"stateDir: /var/lib/wakegate", "stateDir"},
        {"kubernetes: {kubeconfig: x}", "kubernetes.kubeconfig"},
        {"kubernetes: {context: x}", "kubernetes.context"},
        {"tenantHeader: x-tenant", "tenantHeader"},
        {"models: [{target: {kubernetes: {name: x}}}]", "models[0].target.kubernetes"},
        {"models: [{idle: {minReplicas: 1}}]", "models[0].idle.minReplicas"},
        {"models: [{group: g}]", "models[0].group"},
        {"groups: [{name: g}]", "groups"},
        {"admin: {keys: [{san: x}]}", "admin.keys[0].san"},
        {"tenants: [{requestsPerMinute: 1}]", "tenants[0].requestsPerMinute"},
        {"tenants: [{requestsBurst: 1}]", "tenants[0].requestsBurst"},
        {"tenants: [{tokensPerMinute: 1}]", "tenants[0].tokensPerMinute"},
        {"tenants: [{tokensBurst: 1}]", "tenants[0].tokensBurst"},
        {"tenants: [{tokensPerDay: 1}]", "tenants[0].tokensPerDay"},
        {"tenants: [{tokensPerMonth: 1}]", "tenants[0].tokensPerMonth"},
        {"tenants: [{timezone: Europe/Berlin}]", "tenants[0].timezone"},
        {"tenants: [{maxConcurrent: 1}]", "tenants[0].maxConcurrent"},
        {"tenants: [{maxHeld: 1}]", "tenants[0].maxHeld"},
        {"tenants: [{maxHeldBytes: 1}]", "tenants[0].maxHeldBytes"},
        {"tenants: [{wakesPerHour: 1}]", "tenants[0].wakesPerHour"},
        {"tenants: [{perModel: {}}]", "tenants[0].perModel"},
    };
    char fault[128];

    (void)state;
    for (size_t i = 0; i < WG_COUNT_OF(paths); i++) {
        char *faults WG_AUTO_FREE = parse_bad(paths[i][0]);
        snprintf(fault, sizeof(fault), "test.yaml:1: %s: is not available in this version", paths[i][1]);
        assert_fault(faults, fault);
    }
}

static void all_faults_are_told(void **state)
{
    (void)state;
    char *faults WG_AUTO_FREE = parse_bad("worker: 1\n"
                                          "log: {level: loud}\n"
                                          "limits:\n"
                                          "  headerTimeout: 5\n"
                                          "models:\n"
                                          "  - name: a\n"
                                          "  - name: a\n"
                                          "    target: {process: {command: [x]}}\n");
    assert_fault(faults, "test.yaml:1: worker: ");
    assert_fault(faults, "test.yaml:2: log.level: ");
    assert_fault(faults, "test.yaml:4: limits.headerTimeout: ");
    assert_fault(faults, "test.yaml:6: models[0].target: is required");
    assert_fault(faults, "test.yaml:7: models[1].name: \"a\" is a name of models[0] already");
    assert_fault(faults, "test.yaml:8: models[1].target.process.command: must have {port}");
}

static void there_is_a_last_fault(void **state)
{
    (void)state;
    char *text WG_AUTO_FREE = repeat("trustedPeers: [", "x,", 5000, "]");
    char *faults WG_AUTO_FREE = parse_bad(text);
    assert_fault(faults, "test.yaml: further faults are not shown\n");
    assert_true(strlen(faults) < 100000);
}

static void the_environment_is_not_shown(void **state)
{
    (void)state;
    setenv("WG_TEST_SECRET", "swordfish", 1);
    char *faults WG_AUTO_FREE = parse_bad("workers: ${WG_TEST_SECRET}\nlog: {level: \"${WG_TEST_SECRET}\"}\n"
                                          "tenants: [{keys: [{sha256: \"${WG_TEST_SECRET}\"}]}]");
    assert_fault(faults, "test.yaml:1: workers: the value must be a whole number");
    assert_fault(faults, "test.yaml:2: log.level: the value must be error");
    assert_null(strstr(faults, "swordfish"));
}

static void files_that_cannot_be_read(void **state)
{
    struct wg_config_faults faults = {0};
    struct wg_config *config = NULL;

    (void)state;
    assert_true(wg_config_load("/nonexistent/w.yaml", &config, &faults) < 0);
    assert_true(wg_config_load("/", &config, &faults) < 0);
    assert_true(wg_config_load("/dev/zero", &config, &faults) < 0);
    assert_string_equal(wg_buf_str(&faults.text),
                        "/nonexistent/w.yaml: cannot be read: No such file or directory\n"
                        "/: cannot be read: Is a directory\n"
                        "/dev/zero: cannot be read: larger than 1048576 bytes\n");
    assert_int_equal(faults.errors, 3);
    assert_null(config);
    wg_config_faults_clear(&faults);
    assert_int_equal(faults.errors, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_form_of_the_file),
        cmocka_unit_test(the_size_of_the_file),
        cmocka_unit_test(unknown_keys),
        cmocka_unit_test(wrong_types),
        cmocka_unit_test(out_of_range),
        cmocka_unit_test(what_comes_later_is_never_silent),
        cmocka_unit_test(all_faults_are_told),
        cmocka_unit_test(there_is_a_last_fault),
        cmocka_unit_test(the_environment_is_not_shown),
        cmocka_unit_test(files_that_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
