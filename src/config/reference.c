/* The reference in Markdown, made from the table of options. */
#include <errno.h>
#include <string.h>

#include "types.h"

static const char *const intro =
    "# Configuration reference\n"
    "\n"
    "<!-- Made from the table of options, src/config/options.c; a test fails when it is not. -->\n"
    "\n"
    "A YAML file, so JSON too. Keys that are not in here, values of another type and impossible values are "
    "errors, each with file, "
    "line and key; `wakegate check -c FILE` tells all of them. `wakegate check --print -c FILE` shows what "
    "is in "
    "effect, defaults filled in and secrets as `<redacted>`. "
    "[`config/every-option.yaml`](../config/every-option.yaml) "
    "has everything in one file, and [`configuration.schema.json`](configuration.schema.json) is a JSON "
    "Schema for editors.\n"
    "\n"
    "- Durations are a whole number and a unit: `250ms`, `10s`, `5m`, `24h`, `30d`.\n"
    "- Sizes are bytes, or a whole number with `Ki`, `Mi` or `Gi`.\n"
    "- `${NAME}` in a value is the environment variable of that name, an error when it is not set; `$$` is a "
    "dollar, "
    "and so is one before anything but `{` and `$`. Inside `{…}` and `[…]` such a value needs quotes.\n"
    "- A key without a value (or `null`) is as good as none.\n"
    "- Anchors, aliases and tags of YAML are not supported. A file has at most 1 MiB.\n"
    "- The file is read again on SIGHUP and when it changes. One with errors changes nothing. Options marked "
    "*restart* keep "
    "their value until the process starts again.\n";

static void add_default(struct wg_buf *out, const struct option *option)
{
    if ((option->flags & OPTION_REQUIRED) != 0 &&
        (option->fallback == NULL || option->fallback[0] == '\0' || strcmp(option->fallback, "[]") == 0))
        wg_buf_add_str(out, "*required*");
    else if (option->type == OPT_LIST || option->type == OPT_SECTION)
        wg_buf_add_str(out, "see below");
    else if (option->fallback == NULL)
        wg_buf_add_str(out, "none");
    else if (option->fallback[0] == '\0')
        wg_buf_add_str(out, "`\"\"`");
    else
        wg_buf_addf(out, "`%s`", option->fallback);
}

static void add_words(struct wg_buf *out, const struct option *option)
{
    struct wg_slice word;

    for (size_t i = 0; option_word(option, i, &word); i++)
        wg_buf_addf(out, "%s`" WG_SLICE_FMT "`", i > 0 ? ", " : "", WG_SLICE_ARG(word));
}

static void add_type(struct wg_buf *out, const struct option *option)
{
    static const char *const names[OPT_TYPES] = {
        [OPT_SECTION] = "mapping",
        [OPT_LIST] = "list of mappings",
        [OPT_STRING] = "string",
        [OPT_STRINGS] = "list of strings",
        [OPT_ENV] = "mapping",
        [OPT_INT] = "number",
        [OPT_UINT] = "number",
        [OPT_PORT] = "number",
        [OPT_COUNT] = "number",
        [OPT_SIZE] = "size",
        [OPT_DURATION] = "duration",
        [OPT_ADDRESS] = "address",
        [OPT_CIDRS] = "list of networks",
        [OPT_ENDPOINTS] = "list of URLs",
        [OPT_SHA256] = "hexadecimal",
        [OPT_BOOL] = NULL,
        [OPT_CHOICE] = NULL,
        [OPT_LATER] = NULL,
    };

    bool only_words = names[option->type] == NULL || (option->type == OPT_STRING && option->words != NULL);
    if (!only_words)
        wg_buf_add_str(out, names[option->type]);
    if (option->words != NULL) {
        wg_buf_add_str(out, only_words ? "" : " or ");
        add_words(out, option);
    }
}

static void add_row(struct wg_buf *out, const struct option *option)
{
    wg_buf_addf(out, "| `%s` | ", option_key(option));
    add_type(out, option);
    wg_buf_add_str(out, " | ");
    add_default(out, option);
    wg_buf_addf(out, " | %s%s |\n", option->prose, (option->flags & OPTION_RESTART) != 0 ? " *restart*" : "");
}

static void add_table(struct wg_buf *out, const char *inside)
{
    wg_buf_add_str(out, "\n| key | type | default | meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < n_options; i++)
        if (option_is_child(&options[i], inside) && option_available(&options[i]))
            add_row(out, &options[i]);
}

static void add_later(struct wg_buf *out)
{
    wg_buf_add_str(
        out,
        "\n## Not available in this version\n\nThese keys are known, and setting one to anything but the "
        "default is an error rather than silence.\n\n| key | default | meaning |\n|---|---|---|\n");
    for (size_t i = 0; i < n_options; i++) {
        if (options[i].type != OPT_LATER)
            continue;
        wg_buf_addf(out, "| `%s` | ", options[i].path);
        add_default(out, &options[i]);
        wg_buf_addf(out, " | %s |\n", options[i].prose);
    }
}

int wg_config_reference(struct wg_buf *out)
{
    char inside[128];

    wg_buf_add_str(out, intro);
    wg_buf_add_str(out, "\n## The top\n");
    add_table(out, "");
    for (size_t i = 0; i < n_options; i++) {
        const struct option *option = &options[i];
        if ((option->type != OPT_SECTION && option->type != OPT_LIST) || !option_available(option))
            continue;
        option_inside(option, inside);
        wg_buf_addf(out, "\n## `%s`\n\n%s\n", inside, option->prose);
        add_table(out, inside);
    }
    add_later(out);
    return out->failed ? -ENOSPC : 0;
}
