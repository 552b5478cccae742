/* Walks a tree of nodes along the table of options. Defaults are read by the same code as what was written,
 * so there is one way in which text becomes a value. */
#include "reader.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "types.h"

enum { NAME_SHOWN = 60, MEMBERS_MAX = 20000 };

struct mark {
    size_t shown, row;
};

static void cut(struct wg_buf *buf, size_t len)
{
    buf->len = len;
    if (buf->data != NULL)
        buf->data[len] = '\0';
}

static struct mark enter(struct reading *r, const char *key)
{
    struct mark mark = {r->shown.len, r->row.len};

    wg_buf_addf(&r->shown, "%s%.*s", r->shown.len > 0 ? "." : "", NAME_SHOWN, key);
    wg_buf_addf(&r->row, "%s%.*s", r->row.len > 0 ? "." : "", NAME_SHOWN + 1, key);
    return mark;
}

static struct mark enter_member(struct reading *r, size_t i)
{
    struct mark mark = {r->shown.len, r->row.len};

    wg_buf_addf(&r->shown, "[%zu]", i);
    wg_buf_add_str(&r->row, "[]");
    return mark;
}

static void leave(struct reading *r, struct mark mark)
{
    cut(&r->shown, mark.shown);
    cut(&r->row, mark.row);
}

WG_PRINTF(3, 0)
static void fault(struct reading *r, const struct node *node, const char *format, va_list args)
{
    char *what = NULL;

    if (vasprintf(&what, format, args) < 0)
        what = wg_xstrdup("is wrong");
    config_fault(r->faults, r->file, node->line, wg_buf_str(&r->shown), "%s", what);
    free(what);
}

void reading_fault(struct reading *r, const struct node *node, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fault(r, node, format, args);
    va_end(args);
}

void reading_fault_item(struct reading *r, const struct node *list, size_t i, const char *format, ...)
{
    struct mark mark = enter_member(r, i);
    va_list args;

    va_start(args, format);
    fault(r, list->items[i], format, args);
    va_end(args);
    leave(r, mark);
}

/* Changes that make one word of the other; anything over `limit` is limit + 1. */
static size_t distance(const char *a, const char *b, size_t limit)
{
    size_t row[64], a_len = strlen(a), b_len = strlen(b);

    if (a_len >= 64 || b_len >= 64)
        return limit + 1;
    for (size_t j = 0; j <= b_len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            bool same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);
            size_t best = WG_MIN(diagonal + !same, WG_MIN(row[j], row[j - 1]) + 1);
            diagonal = row[j];
            row[j] = best;
        }
    }
    return WG_MIN(row[b_len], limit + 1);
}

/* Snake case and other spellings of the same words are near too. */
static size_t spelling_distance(const char *written, const char *key)
{
    char plain[64];
    size_t n = 0;

    for (; *written != '\0' && n + 1 < sizeof(plain); written++)
        if (*written != '_' && *written != '-')
            plain[n++] = *written;
    plain[n] = '\0';
    return distance(plain, key, 2);
}

static void unknown_key(struct reading *r, const char *parent, const char *key, const struct node *node)
{
    const struct option *nearest = NULL;
    size_t best = 3;

    for (size_t i = 0; i < n_options; i++) {
        if (!option_is_child(&options[i], parent))
            continue;
        size_t d = spelling_distance(key, option_key(&options[i]));
        if (d < best && 2 * d <= strlen(option_key(&options[i]))) {
            best = d;
            nearest = &options[i];
        }
    }
    if (nearest != NULL)
        reading_fault(r, node, "unknown key; did you mean \"%s\"?", option_key(nearest));
    else
        reading_fault(r, node, "unknown key");
}

static void read_mapping(struct reading *r, const struct node *node, void *base)
{
    char *parent WG_AUTO_FREE = wg_xstrdup(wg_buf_str(&r->row));

    for (size_t i = 0; i < node->n; i++) {
        const char *key = node->keys[i];
        if (node_get(node, wg_slice_str(key)) != node->items[i])
            continue; /* a duplicate, which is a fault already */
        struct mark mark = enter(r, key);
        const struct option *option = strchr(key, '.') == NULL ? option_find(wg_buf_str(&r->row)) : NULL;
        if (option == NULL)
            unknown_key(r, parent, key, node->items[i]);
        else if (node->items[i]->kind != NODE_NULL)
            option_types[option->type].read(r, option, node->items[i], base);
        leave(r, mark);
    }
}

/* How many of the keys were given. */
static size_t given(const struct node *node)
{
    size_t n = 0;

    for (size_t i = 0; node->kind == NODE_MAPPING && i < node->n; i++)
        n += node->items[i]->kind != NODE_NULL;
    return n;
}

static void add_keys(struct wg_buf *out, const char *parent)
{
    for (size_t i = 0; i < n_options; i++)
        if (option_is_child(&options[i], parent) && option_available(&options[i]))
            wg_buf_addf(out, "%s%s", out->len > 0 ? ", " : "", option_key(&options[i]));
}

static void check_one_of(struct reading *r, const struct option *option, const struct node *node)
{
    struct wg_buf keys = WG_BUF_INIT(1024);
    char inside[128];

    if ((option->flags & OPTION_ONE_OF) == 0 || given(node) == 1)
        return;
    option_inside(option, inside);
    add_keys(&keys, inside);
    reading_fault(r, node, "must have exactly one of %s", wg_buf_str(&keys));
    wg_buf_clear(&keys);
}

static const struct node *fallback(struct reading *r, const struct option *option)
{
    size_t i = (size_t)(option - options);

    WG_ASSERT(n_options <= OPTIONS_MAX);
    if (r->fallbacks[i] == NULL) {
        const char *text = option->fallback[0] != '\0' ? option->fallback : "\"\"";
        r->fallbacks[i] = node_parse("default", wg_slice_str(text), r->faults);
    }
    return r->fallbacks[i];
}

static bool is_empty(const struct node *node)
{
    return node->kind == NODE_LIST ? node->n == 0 : node->kind == NODE_SCALAR && node->text[0] == '\0';
}

static void check_required(struct reading *r, const struct option *option, const struct node *node)
{
    char inside[128];

    option_inside(option, inside);
    for (size_t i = 0; i < n_options; i++) {
        if ((options[i].flags & OPTION_REQUIRED) == 0 || !option_is_child(&options[i], inside))
            continue;
        const struct node *value = node_get(node, wg_slice_str(option_key(&options[i])));
        struct mark mark = enter(r, option_key(&options[i]));
        if (value == NULL ? options[i].fallback == NULL || is_empty(fallback(r, &options[i]))
                          : value->kind == NODE_NULL)
            reading_fault(r, node, "is required");
        else if (value != NULL && is_empty(value))
            reading_fault(r, value, "must not be empty");
        leave(r, mark);
    }
}

void read_section(struct reading *r, const struct option *option, const struct node *node, void *base)
{
    if (node->kind != NODE_MAPPING) {
        reading_fault(r, node, "must be a mapping");
        return;
    }
    check_required(r, option, node);
    check_one_of(r, option, node);
    read_mapping(r, node, base);
}

/* The defaults of one struct: of the configuration, or of a member of a list. */
static void read_fallbacks(struct reading *r, const char *parent, void *base)
{
    unsigned errors = r->faults->errors;

    r->filling = true;
    for (size_t i = 0; i < n_options; i++) {
        const struct option *option = &options[i];
        if (option->type != OPT_LATER && option->fallback != NULL && option_is_member(option, parent))
            option_types[option->type].read(r, option, fallback(r, option), base);
    }
    r->filling = false;
    WG_ASSERT(r->faults->errors == errors);
}

void read_list(struct reading *r, const struct option *option, const struct node *node, void *base)
{
    if (node->kind != NODE_LIST) {
        reading_fault(r, node, "must be a list");
        return;
    }
    if (node->n > MEMBERS_MAX) {
        reading_fault(r, node, "must have at most %d members", MEMBERS_MAX);
        return;
    }
    char *members = node->n > 0 ? wg_xcalloc(node->n, option->size) : NULL;
    memcpy(option_field(option, base), &members, sizeof(members));
    *option_count(option, base) = node->n;
    for (size_t i = 0; i < node->n; i++) {
        struct mark mark = enter_member(r, i);
        char *member = members + i * option->size;
        read_fallbacks(r, wg_buf_str(&r->row), member);
        read_section(r, option, node->items[i], member);
        leave(r, mark);
    }
}

/* Known but without function: silent only where it changes nothing. */
void read_later(struct reading *r, const struct option *option, const struct node *node, void *base)
{
    (void)base;
    if (option->fallback != NULL) {
        if (node->kind == NODE_SCALAR && strcmp(node->text, option->fallback) == 0)
            return;
        if (node->kind == NODE_LIST && node->n == 0 && strcmp(option->fallback, "[]") == 0)
            return;
    }
    reading_fault(r, node, "is not available in this version");
}

void clear_list(const struct option *option, void *base)
{
    char inside[128], *members;

    memcpy(&members, option_field(option, base), sizeof(members));
    option_inside(option, inside);
    for (size_t m = 0; m < option_count_const(option, base); m++)
        for (size_t i = 0; i < n_options; i++)
            if (option_is_member(&options[i], inside) && option_types[options[i].type].clear != NULL)
                option_types[options[i].type].clear(&options[i], members + m * option->size);
    free(members);
    members = NULL;
    memcpy(option_field(option, base), &members, sizeof(members));
    *option_count(option, base) = 0;
}

void read_config(struct reading *r, struct wg_config *config, const struct node *root)
{
    static const struct option top = {.path = "", .type = OPT_SECTION};

    wg_buf_init(&r->shown, 8192);
    wg_buf_init(&r->row, 8192);
    read_fallbacks(r, "", config);
    if (root != NULL && root->kind != NODE_NULL)
        read_section(r, &top, root, config);
}

void reading_clear(struct reading *r)
{
    for (size_t i = 0; i < OPTIONS_MAX; i++)
        r->fallbacks[i] = node_free(r->fallbacks[i]);
    wg_buf_clear(&r->shown);
    wg_buf_clear(&r->row);
}
