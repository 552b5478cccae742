/* The command line: run, check, key, status, version. */
#include "serve.h"

#include "wakegate/tenant.h"

#include <stdio.h>
#include <string.h>

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

static const char usage[] =
    "usage: wakegate [serve] -c FILE       run in the foreground\n"
    "       wakegate check -c FILE [--print]  validate FILE; --print shows what is in effect\n"
    "       wakegate key                   make a tenant key\n"
    "       wakegate status [--admin URL]  what a running instance is doing\n"
    "       wakegate reference             all options, in Markdown\n"
    "       wakegate schema                the same as a JSON Schema\n"
    "       wakegate version\n"
    "       wakegate --help\n";

struct options {
    const char *config, *admin;
    bool print;
};

static int wrong_usage(const char *what, const char *word)
{
    fprintf(stderr, "wakegate: %s%s%s\n%s", what, word ? ": " : "", word ? word : "", usage);
    return EXIT_USAGE;
}

static int run_serve(const struct options *options)
{
    return options->config ? serve(options->config) : wrong_usage("serve needs -c FILE", NULL);
}

static void warn_files(const struct wg_config *config, const char *path)
{
    uint64_t fits = 0;
    if (!files_fit(config, false, &fits))
        fprintf(stderr,
                "%s:1: limits.maxConnections: warning: the limit of open files (RLIMIT_NOFILE) is enough for "
                "%llu, and cannot be raised here\n",
                path, (unsigned long long)fits);
}

static bool check_certificates(struct wg_config *config)
{
    struct wg_buf faults = WG_BUF_INIT(FAULTS_MAX);
    struct certificates *loaded = NULL;
    struct wg_tls_tickets *tickets = wg_tls_tickets_new();
    if (tickets)
        loaded = certificates_load(config, tickets, &faults);
    else
        wg_buf_add_str(&faults, "wakegate: no random bytes to be had\n");
    const bool good = loaded;
    fputs(wg_buf_str(&faults), stderr);
    certificates_free(loaded);
    wg_tls_tickets_free(tickets);
    wg_buf_clear(&faults);
    return good;
}

static int print_config(const struct wg_config *config)
{
    struct wg_buf text = WG_BUF_INIT(64 * 1024 * 1024);
    const bool made = wg_config_print(config, &text) == 0 && !text.failed;
    if (made)
        fputs(wg_buf_str(&text), stdout);
    wg_buf_clear(&text);
    return made ? EXIT_OK : EXIT_FAILED;
}

static int run_check(const struct options *options)
{
    if (!options->config)
        return wrong_usage("check needs -c FILE", NULL);
    struct wg_config *config = NULL;
    struct wg_config_faults faults = {0};
    const int error = wg_config_load(options->config, &config, &faults);
    fputs(wg_buf_str(&faults.text), stderr);
    wg_config_faults_clear(&faults);
    if (error < 0)
        return EXIT_FAILED;
    warn_files(config, options->config);
    int code = check_certificates(config) ? EXIT_OK : EXIT_FAILED;
    if (code == EXIT_OK && options->print)
        code = print_config(config);
    else if (code == EXIT_OK)
        printf("%s: valid\n", options->config);
    wg_config_unref(config);
    return code;
}

static int run_key(const struct options *options WG_UNUSED)
{
    char key[64], sha256[65];
    if (wg_key_make(key, sha256) < 0) {
        fputs("wakegate: no random bytes to be had\n", stderr);
        return EXIT_FAILED;
    }
    printf("key: %s\nfor the tenant's `keys` in the configuration:\n  - { sha256: \"%s\" }\n", key, sha256);
    return EXIT_OK;
}

static int run_status(const struct options *options)
{
    return wg_admin_print_status(options->admin ? options->admin : "http://127.0.0.1:9090");
}

static int print_made(int (*make)(struct wg_buf *out))
{
    struct wg_buf text = WG_BUF_INIT(4 * 1024 * 1024);
    const bool made = make(&text) == 0 && !text.failed;
    if (made)
        fputs(wg_buf_str(&text), stdout);
    wg_buf_clear(&text);
    return made ? EXIT_OK : EXIT_FAILED;
}

static int run_reference(const struct options *options WG_UNUSED)
{
    return print_made(wg_config_reference);
}

static int run_schema(const struct options *options WG_UNUSED)
{
    return print_made(wg_config_schema);
}

static int run_version(const struct options *options WG_UNUSED)
{
    puts("wakegate " WAKEGATE_VERSION);
    return EXIT_OK;
}

static int run_help(const struct options *options WG_UNUSED)
{
    fputs(usage, stdout);
    return EXIT_OK;
}

static const struct command {
    const char *name;
    int (*run)(const struct options *options);
    const char *takes; /* the options that it knows, each between spaces */
} commands[] = {
    {"serve", run_serve, " -c --config "},
    {"check", run_check, " -c --config --print "},
    {"key", run_key, ""},
    {"status", run_status, " --admin "},
    {"reference", run_reference, ""},
    {"schema", run_schema, ""},
    {"version", run_version, ""},
    {"--version", run_version, ""},
    {"help", run_help, ""},
    {"--help", run_help, ""},
    {"-h", run_help, ""},
};

static bool takes(const struct command *command, const char *option)
{
    const size_t len = strlen(option);
    const char *at = len > 0 ? strstr(command->takes, option) : NULL;
    return at && at[-1] == ' ' && at[len] == ' ';
}

static int run(const struct command *command, int argc, char **argv)
{
    struct options options = {0};
    for (int i = 0; i < argc; i++) {
        const char *option = argv[i];
        if (!takes(command, option))
            return wrong_usage("this is not understood here", option);
        if (strcmp(option, "--print") == 0) {
            options.print = true;
            continue;
        }
        if (++i == argc)
            return wrong_usage("a value is missing behind", option);
        if (strcmp(option, "--admin") == 0)
            options.admin = argv[i];
        else
            options.config = argv[i];
    }
    const int code = command->run(&options);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    fputs("wakegate: standard output could not be written\n", stderr);
    return EXIT_FAILED;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return wrong_usage("nothing to do", NULL);
    for (size_t i = 0; i < WG_COUNT_OF(commands); i++)
        if (strcmp(argv[1], commands[i].name) == 0)
            return run(&commands[i], argc - 2, argv + 2);
    if (argv[1][0] == '-')
        return run(&commands[0], argc - 1, argv + 1);
    return wrong_usage("no such command", argv[1]);
}
