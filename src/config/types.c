/* The table of types: how the value of an option is read, printed and freed. */
#include "types.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "value.h"
#include "wakegate/base/quantity.h"

enum { SHOWN_MAX = 60, LIST_MAX = 10000 };

/* The value as a fault may show it: not what came from the environment, not a secret, not all of a long one.
 */
struct shown {
    char text[SHOWN_MAX + 8];
};

static struct shown show(const struct option *option, const struct node *node)
{
    struct shown shown;

    if (node->from_env || (option->flags & OPTION_SECRET) != 0)
        snprintf(shown.text, sizeof(shown.text), "the value");
    else
        snprintf(shown.text, sizeof(shown.text), "\"%.*s\"%s", SHOWN_MAX, node->text,
                 strlen(node->text) > SHOWN_MAX ? "…" : "");
    return shown;
}

static bool is_scalar(struct reading *r, const struct option *option, const struct node *node)
{
    if (node->kind == NODE_SCALAR)
        return true;
    reading_fault(r, node, "must be %s, not a %s", option_types[option->type].name,
                  node->kind == NODE_LIST ? "list" : "mapping");
    return false;
}

static bool is_list(struct reading *r, const struct option *option, const struct node *node)
{
    if (node->kind != NODE_LIST) {
        reading_fault(r, node, "must be a list");
        return false;
    }
    if (node->n > LIST_MAX) {
        reading_fault(r, node, "must have at most %d members", LIST_MAX);
        return false;
    }
    for (size_t i = 0; i < node->n; i++)
        if (node->items[i]->kind != NODE_SCALAR) {
            reading_fault_item(r, node, i, "must be %s", option_types[option->type].name);
            return false;
        }
    return true;
}

static bool is_word(const struct option *option, struct wg_slice text)
{
    return option->words != NULL && wg_slice_eq(text, wg_slice_str(option->words));
}

/* ---- strings ---- */

static void clear_string(const struct option *option, void *base)
{
    char **field = option_field(option, base);

    if ((option->flags & OPTION_SECRET) != 0 && *field != NULL)
        explicit_bzero(*field, strlen(*field));
    free(*field);
    *field = NULL;
}

/* "POST, PUT or GET" */
static void add_words(struct wg_buf *out, const struct option *option)
{
    struct wg_slice word, next;

    for (size_t i = 0; option_word(option, i, &word); i++) {
        const char *comma = i == 0 ? "" : option_word(option, i + 1, &next) ? ", " : " or ";
        wg_buf_addf(out, "%s" WG_SLICE_FMT, comma, WG_SLICE_ARG(word));
    }
}

static int find_word(struct reading *r, const struct option *option, const struct node *node)
{
    struct wg_buf words = WG_BUF_INIT(1024);
    struct wg_slice word;

    for (size_t i = 0; option_word(option, i, &word); i++)
        if (wg_slice_eq(word, node_slice(node)))
            return (int)i;
    add_words(&words, option);
    reading_fault(r, node, "%s must be %s", show(option, node).text, wg_buf_str(&words));
    wg_buf_clear(&words);
    return -1;
}

static void read_string(struct reading *r, const struct option *option, const struct node *node, void *base)
{
    char **field = option_field(option, base);
    const char *wrong;

    if (!is_scalar(r, option, node) || (option->words != NULL && find_word(r, option, node) < 0))
        return;
    if (!r->filling && option->check != NULL && (wrong = option->check(node_slice(node))) != NULL) {
        reading_fault(r, node, "%s %s", show(option, node).text, wrong);
        return;
    }
    clear_string(option, base);
    *field = wg_xstrdup(node->text);
}

/* Characters that YAML does not take as they are, or takes for a line end: their number, and their bytes in
 * UTF-8. */
static unsigned yaml_special(const char *text, size_t *ret_len)
{
    static const struct {
        const char *bytes;
        unsigned number;
    } specials[] = {
        {"\xe2\x80\xa8", 0x2028}, {"\xe2\x80\xa9", 0x2029}, {"\xef\xbb\xbf", 0xfeff},
        {"\xef\xbf\xbe", 0xfffe}, {"\xef\xbf\xbf", 0xffff},
    };
    const unsigned char *p = (const unsigned char *)text;

    if (p[0] == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f) {
        *ret_len = 2;
        return p[1];
    }
    for (size_t i = 0; i < WG_COUNT_OF(specials); i++)
        if (strncmp(text, specials[i].bytes, 3) == 0) {
            *ret_len = 3;
            return specials[i].number;
        }
    return 0;
}

static void print_escaped(struct wg_buf *out, const char *text, bool value)
{
    const char *plain = text; /* start of what goes out as JSON has it */

    while (*text != '\0') {
        size_t len = 1;
        unsigned special = yaml_special(text, &len);
        if (special != 0 || (value && *text == '$')) {
            wg_buf_add_json(out, wg_slice(plain, (size_t)(text - plain)));
            if (special != 0)
                wg_buf_addf(out, "\\u%04x", special);
            else
                wg_buf_add_str(out, "$$");
            plain = text + len;
        }
        text += len;
    }
    wg_buf_add_json(out, wg_slice(plain, (size_t)(text - plain)));
}

void print_quoted(struct wg_buf *out, const char *text)
{
    wg_buf_add_char(out, '"');
    print_escaped(out, text, true);
    wg_buf_add_char(out, '"');
}

static void print_string(struct wg_buf *out, const struct option *option, const void *base, bool reveal)
{
    char *const *field = option_field_const(option, base);

    print_quoted(out, (option->flags & OPTION_SECRET) != 0 && !reveal ? "<redacted>" : *field);
}

static void clear_strings(const struct option *option, void *base)
{
    struct wg_strings *field = option_field(option, base);

    for (size_t i = 0; i < field->n; i++) {
        if ((option->flags & OPTION_SECRET) != 0)
            explicit_bzero(field->items[i], strlen(field->items[i]));
        free(field->items[i]);
    }
    free(field->items);
    *field = (struct wg_strings){0};
}

static void read_strings(struct reading *r, const struct option *option, const struct node *node, void *base)
{
    struct wg_strings *field = option_field(option, base);
    const char *wrong;

    if (!is_list(r, option, node))
        return;
    clear_strings(option, base);
    field->items = wg_xcalloc(node->n, sizeof(*field->items));
    for (size_t i = 0; i < node->n; i++) {
        const struct node *item = node->items[i];
        if (option->check != NULL && (wrong = option->check(node_slice(item))) != NULL)
            reading_fault_item(r, node, i, "%s %s", show(option, item).text, wrong);
        field->items[field->n++] = wg_xstrdup(item->text);
    }
}

static void print_strings(struct wg_buf *out, const struct option *option, const void *base, bool reveal)
{
    const struct wg_strings *field = option_field_const(option, base);

    (void)reveal;
    wg_buf_add_char(out, '[');
    for (size_t i = 0; i < field->n; i++) {
        wg_buf_add_str(out, i > 0 ? ", " : "");
        print_quoted(out, field->items[i]);
    }
    wg_buf_add_char(out, ']');
}

static void read_env(struct reading *r, const struct option *option, const struct node *node, void *base)
{
    struct wg_strings *field = option_field(option, base);

    if (node->kind != NODE_MAPPING) {
        reading_fault(r, node, "must be a mapping of names to values");
        return;
    }
    clear_strings(option, base);
    field->items = wg_xcalloc(node->n, sizeof(*field->items));
    for (size_t i = 0; i < node->n; i++) {
        const char *name = node->keys[i];
        if (name[0] == '\0' || strchr(name, '=') != NULL || wg_slice_has_control(wg_slice_str(name)))
            reading_fault(r, node->items[i], "\"%.*s\" cannot be the name of a variable", SHOWN_MAX, name);
        else if (node->items[i]->kind != NODE_SCALAR)
            reading_fault(r, node->items[i], "the value of %.*s must be a string", SHOWN_MAX, name);
        else
            field->items[field->n++] = wg_xasprintf("%s=%s", name, node->items[i]->text);
    }
}

static void print_env(struct wg_buf *out, const struct option *option, const void *base, bool reveal)
{
    const struct wg_strings *field = option_field_const(option, base);

    wg_buf_add_char(out, '{');
    for (size_t i = 0; i < field->n; i++) {
        const char *equals = strchr(field->items[i], '=');
        char *name WG_AUTO_FREE = wg_xstrndup(field->items[i], (size_t)(equals - field->items[i]));
        wg_buf_add_str(out, i > 0 ? ", \"" : "\"");
        print_escaped(out, name, false);
        wg_buf_add_str(out, "\": ");
        print_quoted(out, reveal ? equals + 1 : "<redacted>");
    }
    wg_buf_add_char(out, '}');
}

/* ---- words ---- */

static void read_choice(struct reading *r, const struct option *option, const struct node *node, void *base)
{
    int word = is_scalar(r, option, node) ? find_word(r, option, node) : -1;

    if (word >= 0)
        *(int *)option_field(option, base) = word;
}

static void print_word(struct wg_buf *out, const struct option *option, size_t i)
{
    struct wg_slice word = {0};

    WG_ASSERT(option_word(option, i, &word));
    wg_buf_add_slice(out, word);
}

static void print_choice(struct wg_buf *out, const struct option *option, const void *base, bool reveal)
{
    (void)reveal;
    print_word(out, option, (size_t) * (const int *)option_field_const(option, base));
}

static void read_bool(struct reading *r, const struct option *option, const struct node *node, void *base)
{
    int word = is_scalar(r, option, node) ? find_word(r, option, node) : -1;

    if (word >= 0)
        *(bool *)option_field(option, base) = word == 1;
}

static void print_bool(struct wg_buf *out, const struct option *option, const void *base, bool reveal)
{
    (void)reveal;
    print_word(out, option, *(const bool *)option_field_const(option, base) ? 1 : 0);
}

/* ---- numbers ---- */

/* The shortest form of a number in the type's unit. */
static void format_number(const struct option *option, int64_t value, char out[static 32])
{
    if (option->type == OPT_DURATION)
        wg_duration_format(value, out);
    else if (option->type == OPT_SIZE)
        wg_size_format((uint64_t)value, out);
    else
        snprintf(out, 32, "%" PRId64, value);
}

static bool in_range(struct reading *r, const struct option *option, const struct node *node, int64_t value)
{
    char min[32], max[32];

    if (value >= option->min && value <= option->max)
        return true;
    format_number(option, option->min, min);
    format_number(option, option->max, max);
    reading_fault(r, node, "%s must be between %s and %s", show(option, node).text, min, max);
    return false;
}

/* A whole number within the option's range. */
static bool read_number(struct reading *r, const struct option *option, const struct node *node,
                        int64_t *ret_value)
{
    struct wg_slice digits;
    uint64_t value;

    if (!is_scalar(r, option, node))
        return false;
    digits = node_slice(node);
    bool negative = digits.len > 1 && digits.ptr[0] == '-';
    if (negative)
        digits = wg_slice(digits.ptr + 1, digits.len - 1);
    if (wg_slice_to_u64(digits, &value) < 0 || value > INT64_MAX || (node->quoted && !node->from_env)) {
        reading_fault(r, node, "%s must be a whole number%s%s", show(option, node).text,
                      option->words != NULL ? " or " : "", option->words != NULL ? option->words : "");
        return false;
    }
    int64_t number = negative ? -(int64_t)value : (int64_t)value;
    if (!in_range(r, option, node, number))
        return false;
    *ret_value = number;
    return true;
}

static void read_int(struct reading *r, const struct option *option, const struct node *node, void *base)
{
    int64_t value;

    if (read_number(r, option, node, &value))
        *(int *)option_field(option, base) = (int)value;
}

static void read_uint(struct reading *r, const struct option *option, const struct node *node, void *base)
{
    int64_t value = 0;

    if ((node->kind == NODE_SCALAR && is_word(option, node_slice(node))) ||
        read_number(r, option, node, &value))
        *(unsigned *)option_field(option, base) = (unsigned)value;
}

static void read_port(struct reading *r, const struct option *option, const struct node *node, void *base)
{
    int64_t value;

    if (read_number(r, option, node, &value))
        *(uint16_t *)option_field(option, base) = (uint16_t)value;
}

static void read_count(struct reading *r, const struct option *option, const struct node *node, void *base)
{
    int64_t value;

    if (read_number(r, option, node, &value))
        *(uint64_t *)option_field(option, base) = (uint64_t)value;
}

static void print_int(struct wg_buf *out, const struct option *option, const void *base, bool reveal)
{
    (void)reveal;
    wg_buf_addf(out, "%d", *(const int *)option_field_const(option, base));
}

static void print_uint(struct wg_buf *out, const struct option *option, const void *base, bool reveal)
{
    unsigned value = *(const unsigned *)option_field_const(option, base);

    (void)reveal;
    if (value == 0 && option->words != NULL)
        wg_buf_add_str(out, option->words);
    else
        wg_buf_add_u64(out, value);
}

static void print_port(struct wg_buf *out, const struct option *option, const void *base, bool reveal)
{
    (void)reveal;
    wg_buf_add_u64(out, *(const uint16_t *)option_field_const(option, base));
}

static void print_count(struct wg_buf *out, const struct option *option, const void *base, bool reveal)
{
    (void)reveal;
    wg_buf_add_u64(out, *(const uint64_t *)option_field_const(option, base));
}

static void read_size(struct reading *r, const struct option *option, const struct node *node, void *base)
{
    uint64_t value = 0;

    if (!is_scalar(r, option, node))
        return;
    int error = wg_size_parse(node_slice(node), &value);
    if (error == -EINVAL)
        reading_fault(r, node, "%s must be a size: bytes, or a number with Ki, Mi or Gi",
                      show(option, node).text);
    else if (in_range(r, option, node, error < 0 || value > INT64_MAX ? INT64_MAX : (int64_t)value))
        *(uint64_t *)option_field(option, base) = value;
}

static void print_size(struct wg_buf *out, const struct option *option, const void *base, bool reveal)
{
    char text[32];

    (void)reveal;
    wg_size_format(*(const uint64_t *)option_field_const(option, base), text);
    wg_buf_add_str(out, text);
}

static void read_duration(struct reading *r, const struct option *option, const struct node *node, void *base)
{
    wg_usec value = 0;

    if (!is_scalar(r, option, node))
        return;
    if (is_word(option, node_slice(node))) {
        *(wg_usec *)option_field(option, base) = WG_USEC_NEVER;
        return;
    }
    int error = wg_duration_parse(node_slice(node), &value);
    if (error == -EINVAL)
        reading_fault(r, node, "%s must be a duration: a whole number with ms, s, m, h or d%s%s",
                      show(option, node).text, option->words != NULL ? ", or " : "",
                      option->words != NULL ? option->words : "");
    else if (in_range(r, option, node, error < 0 ? INT64_MAX : value))
        *(wg_usec *)option_field(option, base) = value;
}

static void print_duration(struct wg_buf *out, const struct option *option, const void *base, bool reveal)
{
    char text[32];

    (void)reveal;
    wg_duration_format(*(const wg_usec *)option_field_const(option, base), text);
    wg_buf_add_str(out, text);
}

/* ---- addresses ---- */

static void clear_address(const struct option *option, void *base)
{
    wg_address_clear(option_field(option, base));
}

static void read_address(struct reading *r, const struct option *option, const struct node *node, void *base)
{
    struct wg_address address;

    if (!is_scalar(r, option, node))
        return;
    if (wg_address_parse(node_slice(node), &address) < 0) {
        reading_fault(r, node,
                      "%s must be a numeric address and a port, as in 127.0.0.1:8080, [::1]:8080 or :8080",
                      show(option, node).text);
        return;
    }
    clear_address(option, base);
    *(struct wg_address *)option_field(option, base) = address;
}

static void print_address(struct wg_buf *out, const struct option *option, const void *base, bool reveal)
{
    const struct wg_address *address = option_field_const(option, base);

    (void)reveal;
    print_quoted(out, address->text != NULL ? address->text : "");
}

static void clear_cidrs(const struct option *option, void *base)
{
    struct wg_cidr **field = option_field(option, base);

    free(*field);
    *field = NULL;
    *option_count(option, base) = 0;
}

static void read_cidrs(struct reading *r, const struct option *option, const struct node *node, void *base)
{
    struct wg_cidr **field = option_field(option, base);
    size_t *n = option_count(option, base);

    if (!is_list(r, option, node))
        return;
    clear_cidrs(option, base);
    *field = wg_xcalloc(node->n, sizeof(**field));
    for (size_t i = 0; i < node->n; i++) {
        if (value_cidr(node_slice(node->items[i]), &(*field)[*n]) == 0)
            ++*n;
        else
            reading_fault_item(r, node, i, "%s must be a network, as in 10.0.0.0/8 or fd00::/8",
                               show(option, node->items[i]).text);
    }
}

static void print_cidrs(struct wg_buf *out, const struct option *option, const void *base, bool reveal)
{
    struct wg_cidr *const *field = option_field_const(option, base);
    char text[64];

    (void)reveal;
    wg_buf_add_char(out, '[');
    for (size_t i = 0; i < option_count_const(option, base); i++) {
        value_cidr_format(&(*field)[i], text);
        wg_buf_addf(out, "%s\"%s\"", i > 0 ? ", " : "", text);
    }
    wg_buf_add_char(out, ']');
}

static void clear_endpoints(const struct option *option, void *base)
{
    struct wg_config_endpoint **field = option_field(option, base);
    size_t *n = option_count(option, base);

    for (size_t i = 0; i < *n; i++)
        free((*field)[i].host);
    free(*field);
    *field = NULL;
    *n = 0;
}

static void read_endpoints(struct reading *r, const struct option *option, const struct node *node,
                           void *base)
{
    struct wg_config_endpoint **field = option_field(option, base);
    size_t *n = option_count(option, base);

    if (!is_list(r, option, node))
        return;
    clear_endpoints(option, base);
    *field = wg_xcalloc(node->n, sizeof(**field));
    for (size_t i = 0; i < node->n; i++) {
        const struct node *item = node->items[i];
        const char *wrong = value_check_endpoint(node_slice(item));
        if (wrong != NULL)
            reading_fault_item(r, node, i, "%s %s", show(option, item).text, wrong);
        else if (value_endpoint(node_slice(item), &(*field)[*n]) == 0)
            ++*n;
    }
}

static void print_endpoints(struct wg_buf *out, const struct option *option, const void *base, bool reveal)
{
    struct wg_config_endpoint *const *field = option_field_const(option, base);

    (void)reveal;
    wg_buf_add_char(out, '[');
    for (size_t i = 0; i < option_count_const(option, base); i++) {
        const struct wg_config_endpoint *endpoint = &(*field)[i];
        bool v6 = strchr(endpoint->host, ':') != NULL;
        wg_buf_addf(out, "%s\"http://%s%s%s:%u\"", i > 0 ? ", " : "", v6 ? "[" : "", endpoint->host,
                    v6 ? "]" : "", endpoint->port);
    }
    wg_buf_add_char(out, ']');
}

/* ---- keys ---- */

static void clear_sha256(const struct option *option, void *base)
{
    explicit_bzero(option_field(option, base), 32);
}

static void read_sha256(struct reading *r, const struct option *option, const struct node *node, void *base)
{
    if (is_scalar(r, option, node) && value_sha256(node_slice(node), option_field(option, base)) < 0)
        reading_fault(r, node, "must be 64 hexadecimal digits, as `wakegate key` prints them");
}

static void print_sha256(struct wg_buf *out, const struct option *option, const void *base, bool reveal)
{
    const uint8_t *field = option_field_const(option, base);

    if (!reveal) {
        wg_buf_add_str(out, "\"<redacted>\"");
        return;
    }
    for (size_t i = 0; i < 32; i++)
        wg_buf_addf(out, "%02x", field[i]);
}

const struct option_type_ops option_types[OPT_TYPES] = {
    [OPT_SECTION] = {"a mapping", read_section, NULL, NULL},
    [OPT_LIST] = {"a list", read_list, NULL, clear_list},
    [OPT_STRING] = {"a string", read_string, print_string, clear_string},
    [OPT_STRINGS] = {"a string", read_strings, print_strings, clear_strings},
    [OPT_ENV] = {"a mapping", read_env, print_env, clear_strings},
    [OPT_BOOL] = {"one word", read_bool, print_bool, NULL},
    [OPT_CHOICE] = {"one word", read_choice, print_choice, NULL},
    [OPT_INT] = {"a number", read_int, print_int, NULL},
    [OPT_UINT] = {"a number", read_uint, print_uint, NULL},
    [OPT_PORT] = {"a number", read_port, print_port, NULL},
    [OPT_COUNT] = {"a number", read_count, print_count, NULL},
    [OPT_SIZE] = {"a size", read_size, print_size, NULL},
    [OPT_DURATION] = {"a duration", read_duration, print_duration, NULL},
    [OPT_ADDRESS] = {"an address", read_address, print_address, clear_address},
    [OPT_CIDRS] = {"a network", read_cidrs, print_cidrs, clear_cidrs},
    [OPT_ENDPOINTS] = {"a URL", read_endpoints, print_endpoints, clear_endpoints},
    [OPT_SHA256] = {"a string", read_sha256, print_sha256, clear_sha256},
    [OPT_LATER] = {"nothing yet", read_later, NULL, NULL},
};
