/* What is made from the table of options: --print, the reference, the schema; and the files of the project
 * that must agree with it. */
#include "config_check.h"

#include <stdlib.h>

#include "options.h"

static char *read_file(const char *name)
{
    char path[1024], *text = wg_xcalloc(1, 1 << 20);

    snprintf(path, sizeof(path), "%s/%s", WAKEGATE_SOURCE_DIR, name);
    FILE *in = fopen(path, "r");
    if (in == NULL)
        fail_msg("%s cannot be read", path);
    else {
        size_t n = fread(text, 1, (1 << 20) - 1, in);
        text[n] = '\0';
        fclose(in);
    }
    return text;
}

static char *print(const struct wg_config *config)
{
    struct wg_buf out = WG_BUF_INIT(1 << 20);

    assert_int_equal(wg_config_print(config, &out), 0);
    return out.data;
}

/* Secrets cannot come back from what hides them: any hash stands for one. */
static char *with_hashes(const char *text)
{
    static const char hidden[] = "sha256: \"<redacted>\"";
    struct wg_buf out = WG_BUF_INIT(1 << 20);
    unsigned n = 0;

    for (const char *at; (at = strstr(text, hidden)) != NULL; text = at + sizeof(hidden) - 1) {
        wg_buf_add(&out, text, (size_t)(at - text));
        wg_buf_addf(&out, "sha256: %064x", ++n);
    }
    wg_buf_add_str(&out, text);
    return out.data;
}

static void assert_round_trip(const char *text)
{
    struct wg_config *config = parse_good(text);
    char *once WG_AUTO_FREE = print(config);
    char *readable WG_AUTO_FREE = with_hashes(once);
    struct wg_config *again = parse_good(readable);
    char *twice WG_AUTO_FREE = print(again);

    assert_string_equal(once, twice);
    wg_config_unref(config);
    wg_config_unref(again);
}

static void what_is_printed_reads_back(void **state)
{
    (void)state;
    char *every WG_AUTO_FREE = read_file("config/every-option.yaml");
    setenv("WG_TEST_ODD", "a\xff\"b\\ ${x}\n", 1);
    assert_round_trip("");
    assert_round_trip(every);
    assert_round_trip(
        "trustedPeers: [10.1.2.3/8, \"::1\"]\n"
        "anonymous: allow\n"
        "admin: {keys: [{sha256: 31e88fb8d93d42b6dbc23f7f5df2a3fb8ed2ce7b6b98eb2e10d1fd4bc1fb1eb4}]}\n"
        "models:\n"
        "  - name: \"odd \\\" \\\\ $$ {x} \\u00e4 \\u2028\\u2029\\ufeff\\x85 #: - \"\n"
        "    upstreamModel: \"${WG_TEST_ODD}\"\n"
        "    probe: {prompt: \"line\\nline\\ttab\\x01\\x7f $${HOME} $$$$\", kind: embeddings, expect: "
        "\"a$\"}\n"
        "    target: {process: {command: [\"x\", \"\", \"~\", \"null\", \"1\", \"{port}\", \"- a: b\"], env: "
        "{\"K $ "
        "\\u2028\": v}, port: 7}}\n"
        "    idle: {timeout: never}\n"
        "    hold: {timeout: 1500ms}\n"
        "    maxBodyBytes: 1000\n");
    assert_round_trip(
        "models: [{name: m, target: {static: {endpoints: [\"http://[::1]:80\", http://h], "
        "wake: {url: \"http://h/wake?x=1\", method: PUT}, sleep: {url: \"http://h/sleep\"}}}}]\n"
        "tenants: [{name: t, models: [m], priority: -3}, {name: u}]\n");
}

/* Any file will do: whether it is a certificate is seen when it is used. */
#define A_FILE "\"" WAKEGATE_SOURCE_DIR "/docs/configuration.md\""

static void what_is_printed_has_tls(void **state)
{
    static const char text[] =
        "listeners:\n"
        "  - {address: \"127.0.0.1:1\"}\n"
        "  - address: \"127.0.0.1:2\"\n"
        "    tls: {certFile: " A_FILE ", keyFile: " A_FILE ", clientCaFile: " A_FILE ",\n"
        "          certificates: [{certFile: " A_FILE ", keyFile: " A_FILE "}]}\n"
        "tenants: [{name: a, keys: [{san: \"spiffe://h/A\"}, {san: Host.test}]}]\n";
    (void)state;
    assert_round_trip(text);
    struct wg_config *config = parse_good(text);
    char *printed WG_AUTO_FREE = print(config);
    assert_non_null(strstr(printed, "listeners:\n"
                                    "  - address: \"127.0.0.1:1\"\n"
                                    "  - address: \"127.0.0.1:2\"\n"
                                    "    tls:\n"
                                    "      certFile: " A_FILE "\n"
                                    "      keyFile: " A_FILE "\n"
                                    "      certificates:\n"
                                    "        - certFile: " A_FILE "\n"
                                    "          keyFile: " A_FILE "\n"
                                    "      clientCaFile: " A_FILE "\n"));
    assert_non_null(strstr(printed, "    keys:\n"
                                    "      - san: \"spiffe://h/A\"\n"
                                    "      - san: \"Host.test\"\n"));
    wg_config_unref(config);
}

static void secrets_are_not_printed(void **state)
{
    (void)state;
    struct wg_config *config = parse_good(
        "models: [{name: m, target: {process: {command: [x], port: 1, env: {TOKEN: swordfish}}}}]\n"
        "tenants: [{name: t, keys: [{sha256: "
        "31e88fb8d93d42b6dbc23f7f5df2a3fb8ed2ce7b6b98eb2e10d1fd4bc1fb1eb4}]}]\n");
    char *text WG_AUTO_FREE = print(config);
    assert_null(strstr(text, "swordfish"));
    assert_null(strstr(text, "31e88f"));
    assert_non_null(strstr(text, "env: {\"TOKEN\": \"<redacted>\"}\n"));
    assert_non_null(strstr(text, "- sha256: \"<redacted>\"\n"));
    wg_config_unref(config);
}

static void the_reference_is_current(void **state)
{
    struct wg_buf out = WG_BUF_INIT(1 << 20);

    (void)state;
    assert_int_equal(wg_config_reference(&out), 0);
    char *file WG_AUTO_FREE = read_file("docs/configuration.md");
    assert_string_equal(wg_buf_str(&out), file);
    wg_buf_clear(&out);
}

static void the_schema_is_current(void **state)
{
    struct wg_buf out = WG_BUF_INIT(1 << 20);

    (void)state;
    assert_int_equal(wg_config_schema(&out), 0);
    char *file WG_AUTO_FREE = read_file("docs/configuration.schema.json");
    assert_string_equal(wg_buf_str(&out), file);
    wg_buf_clear(&out);
}

static void a_buffer_too_small_is_told(void **state)
{
    struct wg_buf out = WG_BUF_INIT(100);

    (void)state;
    assert_true(wg_config_reference(&out) < 0);
    wg_buf_clear(&out);
    assert_true(wg_config_schema(&out) < 0);
    wg_buf_clear(&out);
    struct wg_config *config = parse_good("");
    assert_true(wg_config_print(config, &out) < 0);
    wg_buf_clear(&out);
    wg_config_unref(config);
}

/* "key:" at the start of a line or behind a dash. */
static bool writes(const char *yaml, const char *key)
{
    char line[64];

    snprintf(line, sizeof(line), "%s:", key);
    for (const char *at = yaml; (at = strstr(at, line)) != NULL; at++) {
        const char *before = at;
        while (before > yaml && (before[-1] == ' ' || before[-1] == '-' || before[-1] == '#'))
            before--;
        if (before == yaml || before[-1] == '\n')
            return true;
    }
    return false;
}

static void the_example_has_every_option(void **state)
{
    (void)state;
    char *every WG_AUTO_FREE = read_file("config/every-option.yaml");
    char *warned WG_AUTO_FREE = warnings_of(every);
    assert_string_equal(warned, "");
    for (size_t i = 0; i < n_options; i++) {
        if (option_available(&options[i]) && !writes(every, option_key(&options[i])))
            fail_msg("%s is not in config/every-option.yaml", options[i].path);
    }
}

/* Without what has no default, the example must say nothing that an empty file does not. */
static void the_example_shows_the_defaults(void **state)
{
    (void)state;
    char *every WG_AUTO_FREE = read_file("config/every-option.yaml");
    struct wg_config *example = parse_good(every);
    struct wg_config *plain = parse_good(
        "listeners: [{address: \"0.0.0.0:8080\"}]\n"
        "admin: {keys: [{sha256: 31e88fb8d93d42b6dbc23f7f5df2a3fb8ed2ce7b6b98eb2e10d1fd4bc1fb1eb4}]}\n"
        "models:\n"
        "  - name: qwen3-8b\n"
        "    target: {process: {command: [llama-server, --port, \"{port}\", --model, "
        "/srv/models/qwen3-8b.gguf]}}\n"
        "  - name: bge-m3\n"
        "    target: {static: {endpoints: [\"http://10.0.0.5:8000\"]}}\n"
        "    probe: {kind: embeddings}\n"
        "tenants: [{name: search, keys: [{sha256: "
        "31e88fb8d93d42b6dbc23f7f5df2a3fb8ed2ce7b6b98eb2e10d1fd4bc1fb1eb4}]}]\n");
    char *a WG_AUTO_FREE = print(example);
    char *b WG_AUTO_FREE = print(plain);
    assert_string_equal(a, b);
    wg_config_unref(example);
    wg_config_unref(plain);
}

static void rows_are_well_formed(void **state)
{
    (void)state;
    for (size_t i = 0; i < n_options; i++) {
        const struct option *option = &options[i];
        const char *dot = strrchr(option->path, '.');
        assert_ptr_equal(option_find(option->path), option);
        assert_true(strlen(option->prose) > 0 && strchr(option->prose, '|') == NULL);
        if (dot == NULL)
            continue;
        size_t len = (size_t)(dot - option->path);
        char *parent WG_AUTO_FREE = wg_xstrndup(option->path, len);
        if (len > 2 && strcmp(parent + len - 2, "[]") == 0)
            parent[len - 2] = '\0';
        assert_non_null(option_find(parent));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_printed_reads_back),   cmocka_unit_test(what_is_printed_has_tls),
        cmocka_unit_test(secrets_are_not_printed),      cmocka_unit_test(the_reference_is_current),
        cmocka_unit_test(the_schema_is_current),        cmocka_unit_test(a_buffer_too_small_is_told),
        cmocka_unit_test(the_example_has_every_option), cmocka_unit_test(the_example_shows_the_defaults),
        cmocka_unit_test(rows_are_well_formed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
