/* Prints the JSON of GET /status as aligned tables: models, what went wrong with them, tenants.
 * It reads from another process, maybe of another version: what is missing or strange shows as "-". */
#include "status_table.h"

#include <jansson.h>
#include <stdlib.h>

#include "wakegate/base/quantity.h"

enum { COLUMNS_MAX = 8 };

/* Rows of cells, each row `columns` wide; the first is the head. */
struct table {
    size_t columns, n_cells, cap;
    char **cells;
};

static void table_add(struct table *table, char *cell)
{
    if (table->n_cells == table->cap) {
        table->cap = table->cap > 0 ? table->cap * 2 : 64;
        table->cells = wg_xrealloc(table->cells, table->cap, sizeof(*table->cells));
    }
    table->cells[table->n_cells++] = cell;
}

static void table_head(struct table *table, const char *const *names, size_t n)
{
    table->columns = n;
    for (size_t i = 0; i < n; i++)
        table_add(table, wg_xstrdup(names[i]));
}

static void table_clear(struct table *table)
{
    for (size_t i = 0; i < table->n_cells; i++)
        free(table->cells[i]);
    free(table->cells);
}

/* Columns on a terminal, near enough: one for each code point. */
static size_t text_width(const char *text)
{
    size_t width = 0;

    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static void table_print(const struct table *table, struct wg_buf *out)
{
    size_t width[COLUMNS_MAX] = {0};

    WG_ASSERT(table->columns <= COLUMNS_MAX);
    for (size_t i = 0; i < table->n_cells; i++) {
        size_t column = i % table->columns;
        width[column] = WG_MAX(width[column], text_width(table->cells[i]));
    }
    for (size_t i = 0; i < table->n_cells; i++) {
        bool last = i % table->columns == table->columns - 1;
        int pad = last ? 0 : (int)(width[i % table->columns] - text_width(table->cells[i]) + 2);
        wg_buf_addf(out, "%s%*s%s", table->cells[i], pad, "", last ? "\n" : "");
    }
}

/* The text without what would move the cursor of a terminal: C0, DEL, and C1 in UTF-8. "-" for nothing. */
static char *plain(const char *text)
{
    if (!text || !*text)
        return wg_xstrdup("-");
    char *copy = wg_xstrdup(text);
    for (char *p = copy; *p; p++) {
        unsigned char c = (unsigned char)p[0], next = (unsigned char)p[1];
        if (c < 0x20 || c == 0x7f)
            *p = ' ';
        else if (c == 0xc2 && next >= 0x80 && next < 0xa0)
            p[0] = p[1] = ' ';
    }
    return copy;
}

static char *count(const json_t *value)
{
    return json_is_integer(value) ? wg_xasprintf("%" JSON_INTEGER_FORMAT, json_integer_value(value))
                                  : wg_xstrdup("-");
}

static char *seconds(const json_t *value)
{
    char text[32];

    if (!json_is_number(value) || !(json_number_value(value) >= 0 && json_number_value(value) < 1e9))
        return wg_xstrdup("-");
    wg_duration_human((wg_usec)(json_number_value(value) * 1e6), text);
    return wg_xstrdup(text);
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* "2 serving, 3/32 slots", with the rest named: "1 serving, 1 proving, 3/16 slots". */
static char *endpoints(const json_t *list)
{
    static const char *const states[] = {"serving", "proving", "suspect", "leaving"};
    struct wg_buf text = WG_BUF_INIT(256);
    json_int_t in_use = 0, limit = 0;
    size_t i;
    const json_t *endpoint;

    for (size_t state = 0; state < WG_COUNT_OF(states); state++) {
        unsigned n = 0;
        json_array_foreach(list, i, endpoint)
        {
            const char *is = text_of(endpoint, "state");
            n += is && strcmp(is, states[state]) == 0;
        }
        if (n > 0)
            wg_buf_addf(&text, "%s%u %s", text.len > 0 ? ", " : "", n, states[state]);
    }
    json_array_foreach(list, i, endpoint)
    {
        in_use += json_integer_value(json_object_get(endpoint, "in_use"));
        limit += json_integer_value(json_object_get(endpoint, "limit"));
    }
    if (text.len > 0 && limit > 0)
        wg_buf_addf(&text, ", %" JSON_INTEGER_FORMAT "/%" JSON_INTEGER_FORMAT " slots", in_use, limit);
    char *cell = plain(wg_buf_str(&text));
    wg_buf_clear(&text);
    return cell;
}

static void print_models(const json_t *models, struct wg_buf *out)
{
    static const char *const head[] = {"MODEL", "STATE", "HELD", "IN-FLIGHT", "ETA", "PHASE", "ENDPOINTS"};
    struct table table = {0};
    size_t i;
    const json_t *model;

    table_head(&table, head, WG_COUNT_OF(head));
    json_array_foreach(models, i, model)
    {
        table_add(&table, plain(text_of(model, "name")));
        table_add(&table, plain(text_of(model, "state")));
        table_add(&table, count(json_object_get(model, "held")));
        table_add(&table, count(json_object_get(model, "inflight")));
        table_add(&table, seconds(json_object_get(model, "eta_seconds")));
        table_add(&table, plain(text_of(model, "phase")));
        table_add(&table, endpoints(json_object_get(model, "endpoints")));
    }
    table_print(&table, out);
    table_clear(&table);
}

/* Reasons are sentences: under the table, not in it. */
static void print_reasons(const json_t *models, struct wg_buf *out)
{
    size_t i;
    const json_t *model;

    json_array_foreach(models, i, model)
    {
        const char *why = text_of(model, "reason"), *state = text_of(model, "state");
        if (!why || !*why || !state || strcmp(state, "warm") == 0)
            continue;
        char *name = plain(text_of(model, "name")), *reason = plain(why);
        char *wait = seconds(json_object_get(model, "back_off_seconds"));
        wg_buf_addf(out, "  %s: %s", name, reason);
        if (strcmp(state, "failed") == 0)
            wg_buf_addf(out, " (tried again on a request after %s)", wait);
        wg_buf_add_char(out, '\n');
        free(name);
        free(reason);
        free(wait);
    }
}

static void print_tenants(const json_t *tenants, struct wg_buf *out)
{
    static const char *const head[] = {"TENANT", "REQUESTS", "OK", "NOT OK"};
    struct table table = {0};
    size_t i;
    const json_t *tenant;

    table_head(&table, head, WG_COUNT_OF(head));
    json_array_foreach(tenants, i, tenant)
    {
        json_int_t all = 0, ok = 0;
        struct wg_buf rest = WG_BUF_INIT(4096);
        const char *outcome;
        json_t *value;
        json_object_foreach(json_object_get(tenant, "requests"), outcome, value)
        {
            all += json_integer_value(value);
            if (strcmp(outcome, "ok") == 0)
                ok = json_integer_value(value);
            else
                wg_buf_addf(&rest, "%s%s %" JSON_INTEGER_FORMAT, rest.len > 0 ? ", " : "", outcome,
                            json_integer_value(value));
        }
        table_add(&table, plain(text_of(tenant, "name")));
        table_add(&table, wg_xasprintf("%" JSON_INTEGER_FORMAT, all));
        table_add(&table, wg_xasprintf("%" JSON_INTEGER_FORMAT, ok));
        table_add(&table, plain(wg_buf_str(&rest)));
        wg_buf_clear(&rest);
    }
    table_print(&table, out);
    table_clear(&table);
}

bool admin_status_table(struct wg_slice text, struct wg_buf *out)
{
    json_t *root = json_loadb(text.ptr, text.len, 0, NULL);
    const json_t *models = json_object_get(root, "models"), *tenants = json_object_get(root, "tenants");
    bool known = json_is_array(models) && json_is_array(tenants);

    if (known) {
        print_models(models, out);
        print_reasons(models, out);
        wg_buf_add_char(out, '\n');
        print_tenants(tenants, out);
    }
    json_decref(root);
    return known;
}
