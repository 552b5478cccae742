/* From libyaml's events to a tree with positions. Bounded in text, depth and nodes; anchors, aliases and tags
 * are refused, duplicate keys too; ${NAME} in values becomes what the environment has. */
#include "node.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum {
    TEXT_MAX = 1024 * 1024,
    DEPTH_MAX = 32,
    NODES_MAX = 100 * 1000,
    KEYS_MAX = 1000, /* of one mapping */
    NAME_SHOWN = 60, /* bytes of a name that a fault shows */
};

/* A list or mapping that is not closed yet. */
struct frame {
    struct node *node;
    char *key; /* mapping: of the value that comes next; NULL: a key comes next */
};

struct builder {
    const char *file;
    struct wg_config_faults *faults;
    struct frame frames[DEPTH_MAX];
    int depth;
    size_t nodes;
    unsigned documents;
    struct node *root;
    bool stopped; /* what follows makes no sense or is too much */
};

struct node *node_free(struct node *node)
{
    if (node == NULL)
        return NULL;
    for (size_t i = 0; i < node->n; i++) {
        node_free(node->items[i]);
        if (node->keys != NULL)
            free(node->keys[i]);
    }
    free(node->items);
    free(node->keys);
    if (node->from_env && node->text != NULL)
        explicit_bzero(node->text, strlen(node->text));
    free(node->text);
    free(node);
    return NULL;
}

const struct node *node_get(const struct node *node, struct wg_slice key)
{
    if (node == NULL || node->kind != NODE_MAPPING)
        return NULL;
    for (size_t i = 0; i < node->n; i++)
        if (wg_slice_eq(wg_slice_str(node->keys[i]), key))
            return node->items[i];
    return NULL;
}

/* "models[0].hold": the place where the next node belongs. A frame below another one is at its last item. */
static void add_path(const struct builder *b, struct wg_buf *out)
{
    for (int i = 0; i < b->depth; i++) {
        const struct node *node = b->frames[i].node;
        bool open = i + 1 < b->depth;
        if (node->kind == NODE_LIST) {
            wg_buf_addf(out, "[%zu]", open ? node->n - 1 : node->n);
            continue;
        }
        const char *key = open ? node->keys[node->n - 1] : b->frames[i].key;
        if (key != NULL)
            wg_buf_addf(out, "%s%.*s", out->len > 0 ? "." : "", NAME_SHOWN, key);
    }
}

#define FAULT(b, line, ...)                                                                                  \
    do {                                                                                                     \
        struct wg_buf path_ = WG_BUF_INIT(8192);                                                             \
        add_path(b, &path_);                                                                                 \
        config_fault((b)->faults, (b)->file, (unsigned)(line), wg_buf_str(&path_), __VA_ARGS__);             \
        wg_buf_clear(&path_);                                                                                \
    } while (0)

static void attach(struct builder *b, struct node *node)
{
    if (b->depth == 0) {
        b->root = node;
        return;
    }
    struct frame *frame = &b->frames[b->depth - 1];
    struct node *parent = frame->node;
    WG_ASSERT(parent != NULL);
    if ((parent->n & (parent->n + 1)) == 0) { /* 0, 1, 3, 7 …: room for twice as many */
        /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
        parent->items = wg_xrealloc(parent->items, 2 * parent->n + 2, sizeof(*parent->items));
        if (parent->kind == NODE_MAPPING)
            parent->keys = wg_xrealloc(parent->keys, 2 * parent->n + 2, sizeof(*parent->keys));
    }
    parent->items[parent->n] = node;
    if (parent->kind == NODE_MAPPING) {
        parent->keys[parent->n] = frame->key;
        frame->key = NULL;
    }
    parent->n++;
}

static struct node *new_node(struct builder *b, enum node_kind kind, size_t line)
{
    struct node *node = WG_NEW(struct node);

    node->kind = kind;
    node->line = (unsigned)line;
    if (++b->nodes > NODES_MAX && !b->stopped) {
        FAULT(b, line, "more than %d values in one file", NODES_MAX);
        b->stopped = true;
    }
    return node;
}

static bool name_char(char c, bool first)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || (!first && c >= '0' && c <= '9');
}

/* Takes "NAME}" off the text behind "${" and appends its value. */
static const char *expand_name(struct builder *b, struct node *node, const char *at, struct wg_buf *out)
{
    size_t len = 0;

    while (name_char(at[len], len == 0))
        len++;
    if (len == 0 || at[len] != '}') {
        FAULT(b, node->line,
              "\"${\" begins the name of an environment variable, as in ${NAME}; a dollar is \"$$\"");
        return at;
    }
    char *name WG_AUTO_FREE = wg_xstrndup(at, len);
    const char *value = getenv(name);
    if (value == NULL)
        FAULT(b, node->line, "the environment variable %.*s is not set", NAME_SHOWN, name);
    else
        wg_buf_add_str(out, value);
    node->from_env = true;
    return at + len + 1;
}

/* Replaces ${NAME} and $$ in the node's text. A dollar before anything else is a dollar. */
static void expand(struct builder *b, struct node *node)
{
    struct wg_buf out = WG_BUF_INIT(TEXT_MAX);

    if (strchr(node->text, '$') == NULL)
        return;
    for (const char *at = node->text; *at != '\0';) {
        if (at[0] == '$' && at[1] == '{') {
            at = expand_name(b, node, at + 2, &out);
            continue;
        }
        at += at[0] == '$' && at[1] == '$';
        wg_buf_add_char(&out, *at++);
    }
    if (out.failed)
        FAULT(b, node->line, "the value is longer than %d bytes", TEXT_MAX);
    free(node->text);
    node->text = wg_xstrdup(wg_buf_str(&out));
    if (out.data != NULL)
        explicit_bzero(out.data, out.cap);
    wg_buf_clear(&out);
}

static bool is_null(const yaml_event_t *event)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};

    if (event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    for (size_t i = 0; i < WG_COUNT_OF(nulls); i++)
        if (strcmp((const char *)event->data.scalar.value, nulls[i]) == 0)
            return true;
    return false;
}

static void on_key(struct builder *b, const yaml_event_t *event, size_t line)
{
    struct frame *frame = &b->frames[b->depth - 1];
    const char *text = (const char *)event->data.scalar.value;

    if (frame->node->n >= KEYS_MAX) {
        FAULT(b, line, "more than %d keys in one mapping", KEYS_MAX);
        b->stopped = true;
        return;
    }
    frame->key = wg_xstrdup(text);
    const struct node *other = node_get(frame->node, wg_slice_str(text));
    if (other != NULL)
        FAULT(b, line, "is given twice, first in line %u", other->line);
}

static void on_scalar(struct builder *b, const yaml_event_t *event)
{
    size_t line = event->start_mark.line + 1;
    const char *text = (const char *)event->data.scalar.value;

    if (event->data.scalar.anchor != NULL || event->data.scalar.tag != NULL)
        FAULT(b, line, "anchors, aliases and tags of YAML are not supported");
    if (strlen(text) != event->data.scalar.length)
        FAULT(b, line, "has a NUL character inside");
    if (b->depth > 0 && b->frames[b->depth - 1].node->kind == NODE_MAPPING &&
        b->frames[b->depth - 1].key == NULL) {
        on_key(b, event, line);
        return;
    }
    struct node *node = new_node(b, is_null(event) ? NODE_NULL : NODE_SCALAR, line);
    node->text = wg_xstrdup(text);
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    expand(b, node);
    attach(b, node);
}

static void on_start(struct builder *b, enum node_kind kind, const yaml_event_t *event, bool marked)
{
    size_t line = event->start_mark.line + 1;

    if (marked)
        FAULT(b, line, "anchors, aliases and tags of YAML are not supported");
    if (b->depth > 0 && b->frames[b->depth - 1].node->kind == NODE_MAPPING &&
        b->frames[b->depth - 1].key == NULL) {
        FAULT(b, line, "a key must be text, not a list or a mapping");
        b->stopped = true;
        return;
    }
    if (b->depth == DEPTH_MAX) {
        FAULT(b, line, "nested more than %d deep", DEPTH_MAX);
        b->stopped = true;
        return;
    }
    struct node *node = new_node(b, kind, line);
    attach(b, node);
    b->frames[b->depth++] = (struct frame){.node = node};
}

static void on_alias(struct builder *b, const yaml_event_t *event)
{
    FAULT(b, event->start_mark.line + 1, "anchors, aliases and tags of YAML are not supported");
    b->stopped = true;
}

static void on_event(struct builder *b, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (++b->documents > 1) {
            FAULT(b, event->start_mark.line + 1, "a second document begins here; one is all there can be");
            b->stopped = true;
        }
        break;
    case YAML_ALIAS_EVENT:
        on_alias(b, event);
        break;
    case YAML_SCALAR_EVENT:
        on_scalar(b, event);
        break;
    case YAML_SEQUENCE_START_EVENT:
        on_start(b, NODE_LIST, event, event->data.sequence_start.anchor || event->data.sequence_start.tag);
        break;
    case YAML_MAPPING_START_EVENT:
        on_start(b, NODE_MAPPING, event, event->data.mapping_start.anchor || event->data.mapping_start.tag);
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        b->depth--;
        break;
    default:
        break;
    }
}

/* Errors of the encoding come with an offset alone. */
static size_t error_line(const yaml_parser_t *parser, struct wg_slice text)
{
    size_t line = parser->problem_mark.line;

    if (parser->error == YAML_READER_ERROR) {
        line = 0;
        for (size_t i = 0; i < parser->problem_offset && i < text.len; i++)
            line += text.ptr[i] == '\n';
    }
    return line + 1;
}

static void build(struct builder *b, yaml_parser_t *parser, struct wg_slice text)
{
    yaml_event_t event;
    bool end = false;

    while (!end && !b->stopped) {
        if (yaml_parser_parse(parser, &event) == 0) {
            config_fault(b->faults, b->file, (unsigned)error_line(parser, text), "", "is not YAML: %s",
                         parser->problem != NULL ? parser->problem : "cannot be read");
            b->stopped = true;
            return;
        }
        on_event(b, &event);
        end = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
}

struct node *node_parse(const char *file, struct wg_slice text, struct wg_config_faults *faults)
{
    struct builder b = {.file = file, .faults = faults};
    yaml_parser_t parser;

    if (text.len > TEXT_MAX) {
        config_fault(faults, file, 0, "", "is larger than %d bytes", TEXT_MAX);
        return NULL;
    }
    if (yaml_parser_initialize(&parser) == 0) {
        config_fault(faults, file, 0, "", "no memory to read it");
        return NULL;
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)(text.len > 0 ? text.ptr : ""), text.len);
    build(&b, &parser, text);
    yaml_parser_delete(&parser);
    for (int i = 0; i < b.depth; i++)
        free(b.frames[i].key);
    if (b.stopped)
        return node_free(b.root);
    return b.root != NULL ? b.root : new_node(&b, NODE_NULL, 1);
}
