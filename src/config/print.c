/* Prints the effective configuration along the table of options. */
#include "print.h"

#include <errno.h>
#include <string.h>

#include "types.h"

struct printing {
    struct wg_buf *out;
    bool reveal, lasting; /* secrets too; only what has OPTION_RESTART */
    bool member;          /* the next line begins a member of a list */
};

static void print_row(struct printing *p, const struct option *option, const void *base, int indent);

static void print_key(struct printing *p, const struct option *option, int indent)
{
    wg_buf_addf(p->out, "%*s%s%s:", p->member ? indent - 2 : indent, "", p->member ? "- " : "",
                option_key(option));
    p->member = false;
}

static void print_inside(struct printing *p, const struct option *option, const void *base, int indent)
{
    char inside[128];

    option_inside(option, inside);
    for (size_t i = 0; i < n_options; i++)
        if (option_is_child(&options[i], inside))
            print_row(p, &options[i], base, indent);
}

static void print_list(struct printing *p, const struct option *option, const void *base, int indent)
{
    const char *members;
    size_t n = option_count_const(option, base);

    memcpy(&members, option_field_const(option, base), sizeof(members));
    wg_buf_add_str(p->out, n == 0 ? " []\n" : "\n");
    for (size_t i = 0; i < n; i++) {
        p->member = true;
        print_inside(p, option, members + i * option->size, indent + 4);
    }
}

static void print_row(struct printing *p, const struct option *option, const void *base, int indent)
{
    if (p->lasting && !(option->flags & OPTION_RESTART))
        return;
    if (!option_available(option) || (option->shown != NULL && !option->shown(base)))
        return;
    print_key(p, option, indent);
    if (option->type == OPT_SECTION) {
        wg_buf_add_char(p->out, '\n');
        print_inside(p, option, base, indent + 2);
    } else if (option->type == OPT_LIST) {
        print_list(p, option, base, indent);
    } else {
        wg_buf_add_char(p->out, ' ');
        option_types[option->type].print(p->out, option, base, p->reveal);
        wg_buf_add_char(p->out, '\n');
    }
}

void print_option(struct wg_buf *out, const struct option *option, const void *base, bool reveal)
{
    struct printing p = {.out = out, .reveal = reveal};

    print_row(&p, option, base, 0);
}

void print_lasting(struct wg_buf *out, const struct option *option, const void *base)
{
    struct printing p = {.out = out, .reveal = true, .lasting = true};

    print_row(&p, option, base, 0);
}

void print_wipe(struct wg_buf *out)
{
    if (out->data != NULL)
        explicit_bzero(out->data, out->cap);
    wg_buf_clear(out);
}

int wg_config_print(const struct wg_config *config, struct wg_buf *out)
{
    for (size_t i = 0; i < n_options; i++)
        if (option_is_child(&options[i], ""))
            print_option(out, &options[i], config, false);
    return out->failed ? -ENOSPC : 0;
}
