/* The JSON Schema (draft 2020-12), made from the table of options. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "node.h"
#include "types.h"

/* ${NAME} may stand for any value. */
#define OR_ENV "|.*\\\\$\\\\{.*"

struct writing {
    struct wg_buf *out;
    int indent;
    bool first; /* nothing yet in the innermost object */
};

static void begin_member(struct writing *w, const char *name)
{
    wg_buf_addf(w->out, "%s\n%*s\"%s\": ", w->first ? "" : ",", w->indent, "", name);
    w->first = false;
}

static void open_object(struct writing *w)
{
    wg_buf_add_char(w->out, '{');
    w->indent += 2;
    w->first = true;
}

static void close_object(struct writing *w)
{
    w->indent -= 2;
    if (!w->first)
        wg_buf_addf(w->out, "\n%*s", w->indent, "");
    wg_buf_add_char(w->out, '}');
    w->first = false;
}

static void add_string(struct wg_buf *out, struct wg_slice text)
{
    wg_buf_add_char(out, '"');
    wg_buf_add_json(out, text);
    wg_buf_add_char(out, '"');
}

static void member_string(struct writing *w, const char *name, const char *text)
{
    begin_member(w, name);
    add_string(w->out, wg_slice_str(text));
}

static bool is_number(const struct option *option)
{
    return option->type == OPT_INT || option->type == OPT_UINT || option->type == OPT_PORT ||
           option->type == OPT_COUNT;
}

static void add_value(struct wg_buf *out, const struct option *option, const struct node *node)
{
    if (node->kind == NODE_MAPPING) {
        wg_buf_add_str(out, "{}");
    } else if (node->kind == NODE_LIST) {
        wg_buf_add_char(out, '[');
        for (size_t i = 0; i < node->n; i++) {
            wg_buf_add_str(out, i > 0 ? ", " : "");
            add_string(out, node_slice(node->items[i]));
        }
        wg_buf_add_char(out, ']');
    } else if ((is_number(option) && node->text[0] >= '0' && node->text[0] <= '9') ||
               strcmp(node->text, "true") == 0 || strcmp(node->text, "false") == 0) {
        wg_buf_add_str(out, node->text);
    } else {
        add_string(out, node_slice(node));
    }
}

/* The default as JSON; "default", or "const" for what may be nothing else. */
static void member_default(struct writing *w, const char *name, const struct option *option)
{
    struct wg_config_faults faults = {0};

    if (option->fallback == NULL)
        return;
    const char *text = option->fallback[0] != '\0' ? option->fallback : "\"\"";
    struct node *node = node_parse("default", wg_slice_str(text), &faults);
    WG_ASSERT(node != NULL);
    begin_member(w, name);
    add_value(w->out, option, node);
    node_free(node);
    wg_config_faults_clear(&faults);
}

static void members_words(struct writing *w, const struct option *option)
{
    struct wg_slice word;

    begin_member(w, "enum");
    for (size_t i = 0; option_word(option, i, &word); i++) {
        wg_buf_add_str(w->out, i == 0 ? "[" : ", ");
        if (wg_slice_eq(wg_slice_str(option->words), WG_SLICE("false|true")))
            wg_buf_add_slice(w->out, word);
        else
            add_string(w->out, word);
    }
    wg_buf_add_char(w->out, ']');
}

static void members_number(struct writing *w, const struct option *option)
{
    begin_member(w, "type");
    wg_buf_add_str(w->out, "[\"integer\", \"string\"]");
    begin_member(w, "minimum");
    wg_buf_addf(w->out, "%" PRId64, option->min);
    begin_member(w, "maximum");
    wg_buf_addf(w->out, "%" PRId64, option->max);
    begin_member(w, "pattern");
    wg_buf_addf(w->out, "\"^(%s" OR_ENV ")$\"", option->words != NULL ? option->words : "");
}

static void members_list(struct writing *w, const char *items)
{
    member_string(w, "type", "array");
    begin_member(w, "items");
    wg_buf_add_str(w->out, items);
}

static void members_of(struct writing *w, const char *inside, bool one_of);

static void members_mapping(struct writing *w, const struct option *option)
{
    char inside[128];

    option_inside(option, inside);
    bool one_of = (option->flags & OPTION_ONE_OF) != 0;
    if (option->type == OPT_SECTION) {
        members_of(w, inside, one_of);
        return;
    }
    member_string(w, "type", "array");
    begin_member(w, "items");
    open_object(w);
    members_of(w, inside, one_of);
    close_object(w);
}

static void members_type(struct writing *w, const struct option *option)
{
    switch (option->type) {
    case OPT_SECTION:
    case OPT_LIST:
        members_mapping(w, option);
        break;
    case OPT_STRING:
        if (option->words != NULL)
            members_words(w, option);
        else
            member_string(w, "type", "string");
        break;
    case OPT_BOOL:
    case OPT_CHOICE:
        members_words(w, option);
        break;
    case OPT_INT:
    case OPT_UINT:
    case OPT_PORT:
    case OPT_COUNT:
        members_number(w, option);
        break;
    case OPT_SIZE:
        begin_member(w, "type");
        wg_buf_add_str(w->out, "[\"integer\", \"string\"]");
        begin_member(w, "pattern");
        wg_buf_add_str(w->out, "\"^([0-9]+(Ki|Mi|Gi)?" OR_ENV ")$\"");
        break;
    case OPT_DURATION:
        begin_member(w, "type");
        wg_buf_add_str(w->out, "[\"string\", \"integer\"]");
        begin_member(w, "pattern");
        wg_buf_addf(w->out, "\"^(0|[0-9]+(ms|s|m|h|d)%s%s" OR_ENV ")$\"", option->words != NULL ? "|" : "",
                    option->words != NULL ? option->words : "");
        break;
    case OPT_STRINGS:
    case OPT_CIDRS:
    case OPT_ENDPOINTS:
        members_list(w, "{\"type\": \"string\"}");
        break;
    case OPT_ENV:
        member_string(w, "type", "object");
        begin_member(w, "additionalProperties");
        wg_buf_add_str(w->out, "{\"type\": [\"string\", \"number\", \"boolean\"]}");
        break;
    case OPT_ADDRESS:
    case OPT_SHA256:
        member_string(w, "type", "string");
        break;
    case OPT_LATER:
    case OPT_TYPES:
        break;
    }
}

static void member_option(struct writing *w, const struct option *option)
{
    begin_member(w, option_key(option));
    open_object(w);
    member_string(w, "description", option->prose);
    if (option->type == OPT_LATER) {
        if (option->fallback != NULL) {
            member_default(w, "const", option);
        } else {
            begin_member(w, "not");
            wg_buf_add_str(w->out, "{}");
        }
    } else {
        members_type(w, option);
        if ((option->flags & OPTION_REQUIRED) == 0)
            member_default(w, "default", option);
    }
    close_object(w);
}

static void member_required(struct writing *w, const char *inside)
{
    bool any = false;

    for (size_t i = 0; i < n_options; i++) {
        if ((options[i].flags & OPTION_REQUIRED) == 0 || !option_is_child(&options[i], inside) ||
            (options[i].fallback != NULL && options[i].fallback[0] != '\0' &&
             strcmp(options[i].fallback, "[]") != 0))
            continue;
        if (!any)
            begin_member(w, "required");
        wg_buf_addf(w->out, "%s\"%s\"", any ? ", " : "[", option_key(&options[i]));
        any = true;
    }
    if (any)
        wg_buf_add_char(w->out, ']');
}

static void members_of(struct writing *w, const char *inside, bool one_of)
{
    member_string(w, "type", "object");
    begin_member(w, "additionalProperties");
    wg_buf_add_str(w->out, "false");
    member_required(w, inside);
    if (one_of) {
        begin_member(w, "minProperties");
        wg_buf_add_str(w->out, "1");
        begin_member(w, "maxProperties");
        wg_buf_add_str(w->out, "1");
    }
    begin_member(w, "properties");
    open_object(w);
    for (size_t i = 0; i < n_options; i++)
        if (option_is_child(&options[i], inside))
            member_option(w, &options[i]);
    close_object(w);
}

int wg_config_schema(struct wg_buf *out)
{
    struct writing w = {.out = out};

    open_object(&w);
    member_string(&w, "$schema", "https://json-schema.org/draft/2020-12/schema");
    member_string(&w, "title", "Configuration of Wakegate");
    members_of(&w, "", false);
    close_object(&w);
    wg_buf_add_char(out, '\n');
    return out->failed ? -ENOSPC : 0;
}
