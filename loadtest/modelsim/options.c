/* The options of modelsim: one table for the command line, POST /sim/config and --help. */
#include "modelsim.h"

#include <stdlib.h>
#include <string.h>

enum kind { STRING, NUMBER, INTEGER, FLAG };

struct option {
    const char *name, *help;
    size_t offset, size;
    enum kind kind;
    bool live; /* may change while it runs */
};

#define ROW(name, kind, member, live, help)                                                                  \
    {                                                                                                        \
        name, help, offsetof(struct sim_options, member), sizeof(((struct sim_options *)0)->member), kind,   \
            live                                                                                             \
    }

static const struct option table[] = {
    ROW("host", STRING, host, false, "address to listen on"),
    ROW("port", INTEGER, port, false, "port to listen on, 0 = any"),
    ROW("model", STRING, model, false, "name in GET /v1/models"),
    ROW("log", STRING, log, false, "file that gets one JSON line per request"),
    ROW("only", STRING, only, true, "serve this path alone of the prompts, the others are 404"),
    ROW("load-port-closed", NUMBER, port_closed, false, "seconds before the port opens"),
    ROW("load", NUMBER, load, true, "seconds of 503 \"Loading model\" after that"),
    ROW("wake-load", NUMBER, wake_load, true, "seconds of the same after POST /wake_up"),
    ROW("ttft", NUMBER, ttft, true, "milliseconds to the first token"),
    ROW("tokens-per-second", NUMBER, tokens_per_second, true, "0 = as fast as they are taken"),
    ROW("tokens", INTEGER, tokens, true, "length of an answer; max_tokens caps it"),
    ROW("chunk-bytes", INTEGER, chunk_bytes, true, "text of one token, 0 = words"),
    ROW("slots", INTEGER, slots, true, "prompts at the same time, 503 above; 0 = any"),
    ROW("keep-alive", NUMBER, keep_alive, false, "seconds until an idle connection is closed"),
    ROW("fault", STRING, fault_name, true,
        "none hang silence reset-before reset-after-headers truncate error-200 sse-error garbage no-choices "
        "no-usage reasoning status:NNN"),
    ROW("fault-after", INTEGER, fault_after, true, "prompts that are answered well before the fault"),
    ROW("fault-count", INTEGER, fault_count, true, "prompts that meet the fault, 0 = all"),
    ROW("exit-during-load", INTEGER, exit_code, false,
        "exit code of --exit-after, which is then half of --load"),
    ROW("exit-after", NUMBER, exit_after, false, "seconds until it exits by itself"),
    ROW("ignore-term", FLAG, ignore_term, false, "SIGTERM does nothing"),
    ROW("fork", FLAG, fork, false, "a child serves, as under a wrapper script"),
    ROW("asleep", FLAG, asleep, false, "starts as after POST /sleep"),
};

static const struct {
    const char *name;
    enum sim_fault fault;
} faults[] = {
    {"none", FAULT_NONE},
    {"hang", FAULT_HANG},
    {"silence", FAULT_SILENCE},
    {"reset-before", FAULT_RESET_BEFORE},
    {"reset-after-headers", FAULT_RESET_AFTER_HEADERS},
    {"truncate", FAULT_TRUNCATE},
    {"error-200", FAULT_ERROR_200},
    {"sse-error", FAULT_SSE_ERROR},
    {"garbage", FAULT_GARBAGE},
    {"no-choices", FAULT_NO_CHOICES},
    {"no-usage", FAULT_NO_USAGE},
    {"reasoning", FAULT_REASONING},
};

static const struct option *find(const char *name)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    }
    return NULL;
}

static bool set_string(struct sim_options *options, const struct option *option, const char *value)
{
    char *at = (char *)options + option->offset;
    return (size_t)snprintf(at, option->size, "%s", value) < option->size;
}

static bool set_number(struct sim_options *options, const struct option *option, double value)
{
    if (!(value >= 0 && value <= 1e9))
        return false;
    char *at = (char *)options + option->offset;
    if (option->kind == INTEGER)
        memcpy(at, &(int){(int)value}, sizeof(int));
    else
        memcpy(at, &value, sizeof value);
    return true;
}

static bool set_text(struct sim_options *options, const struct option *option, const char *value)
{
    if (option->kind == STRING)
        return set_string(options, option, value);
    char *end = NULL;
    double number = strtod(value, &end);
    return end != value && *end == '\0' && set_number(options, option, number);
}

static bool understand_fault(struct sim_options *options)
{
    const char *name = options->fault_name;
    if (strncmp(name, "status:", 7) == 0) {
        options->fault = FAULT_STATUS;
        options->fault_status = atoi(name + 7);
        return options->fault_status >= 200 && options->fault_status <= 599;
    }
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        if (strcmp(faults[i].name, name) == 0) {
            options->fault = faults[i].fault;
            return true;
        }
    }
    return false;
}

static void help(void)
{
    puts("usage: modelsim [--name value]...\n\nA model server without a model: OpenAI's API with a cold "
         "start, slots and faults.\n");
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        printf("  --%-20s %s\n", table[i].name, table[i].help);
    puts("\nWhile it runs: GET /sim/stats, GET /sim/requests?n=N, POST /sim/reset, POST /sim/config (JSON, "
         "the names above).");
}

int sim_options_parse(struct sim_options *options, int argc, char **argv)
{
    *options = (struct sim_options){
        .host = "127.0.0.1",
        .model = "modelsim",
        .fault_name = "none",
        .tokens = 16,
        .keep_alive = 5,
        .exit_code = -1,
    };
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            help();
            return 1;
        }
        const struct option *option = strncmp(argv[i], "--", 2) == 0 ? find(argv[i] + 2) : NULL;
        if (option == NULL) {
            fprintf(stderr, "modelsim: unknown option %s\n", argv[i]);
            return -1;
        }
        if (option->kind == FLAG) {
            *((bool *)((char *)options + option->offset)) = true;
        } else if (++i >= argc || !set_text(options, option, argv[i])) {
            fprintf(stderr, "modelsim: --%s needs a value that makes sense\n", option->name);
            return -1;
        }
    }
    if (!understand_fault(options)) {
        fprintf(stderr, "modelsim: unknown fault %s\n", options->fault_name);
        return -1;
    }
    if (options->exit_code >= 0 && options->exit_after <= 0)
        options->exit_after = options->port_closed + options->load / 2;
    return 0;
}

bool sim_options_update(struct sim_options *options, const json_t *changes, char *why, size_t size)
{
    struct sim_options changed = *options;
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)changes, name, value)
    {
        const struct option *option = find(name);
        bool ok = option != NULL && option->live &&
                  (json_is_string(value) && option->kind == STRING
                       ? set_string(&changed, option, json_string_value(value))
                       : json_is_number(value) && set_number(&changed, option, json_number_value(value)));
        if (!ok) {
            snprintf(why, size, "%s cannot be set to that while it runs", name);
            return false;
        }
    }
    if (!understand_fault(&changed)) {
        snprintf(why, size, "unknown fault %s", changed.fault_name);
        return false;
    }
    *options = changed;
    return true;
}
