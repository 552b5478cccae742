/* The table of options: each key of the configuration is one row, from which reading, --print, the reference,
 * the schema, the comparison at a reload and freeing are done. */
#pragma once

#include "wakegate/config.h"

enum option_type {
    OPT_SECTION,   /* a mapping; its keys have rows of their own */
    OPT_LIST,      /* a list of such mappings; the keys' paths go on with "[]" */
    OPT_STRING,    /* char * */
    OPT_STRINGS,   /* struct wg_strings */
    OPT_ENV,       /* struct wg_strings of NAME=value, written as a mapping */
    OPT_BOOL,      /* bool; `words` are its two values */
    OPT_CHOICE,    /* an enum; `words` are its values in order */
    OPT_INT,       /* int */
    OPT_UINT,      /* unsigned; `words` is how 0 is written, if it has a name */
    OPT_PORT,      /* uint16_t */
    OPT_COUNT,     /* uint64_t */
    OPT_SIZE,      /* uint64_t, bytes */
    OPT_DURATION,  /* wg_usec; `words` is how WG_USEC_NEVER is written, if it is allowed */
    OPT_ADDRESS,   /* struct wg_address */
    OPT_CIDRS,     /* struct wg_cidr *, n at `count` */
    OPT_ENDPOINTS, /* struct wg_config_endpoint *, n at `count` */
    OPT_SHA256,    /* uint8_t[32] */
    OPT_LATER,     /* known, but nothing stands behind it: an error unless it is set to its default */
    OPT_TYPES
};

enum option_flags {
    OPTION_RESTART = 1, /* a reload does not change it */
    OPTION_SECRET = 2,  /* printed as <redacted>, wiped when freed */
    OPTION_REQUIRED = 4,
    OPTION_ONE_OF = 8, /* section, list: exactly one of the keys is given (in each member) */
};

struct option {
    const char *path; /* "models[].hold.timeout" */
    enum option_type type;
    unsigned flags;
    const char *fallback; /* the default, as it would be written; NULL: none */
    int64_t min, max;     /* of numbers, in the type's unit */
    const char *words;    /* separated by '|' */
    size_t offset;        /* in the struct of the innermost list, or in wg_config */
    size_t count, size;   /* types with n members: offset of their number; OPT_LIST: size of one */
    const char *(*check)(struct wg_slice text); /* NULL, or what is wrong */
    bool (*shown)(const void *base);            /* --print leaves it out if this says so */
    const char *prose;
};

extern const struct option options[];
extern const size_t n_options;

const struct option *option_find(const char *path);
/* The last key of the path. */
const char *option_key(const struct option *option);
/* True if the option is a key directly under the section or list member ("", "models[]", "models[].hold"). */
bool option_is_child(const struct option *option, const char *parent);
/* True for options under it that belong to the same struct: not behind another "[]". */
bool option_is_member(const struct option *option, const char *parent);
/* What is directly under a section or a list: its path, with "[]" for a list; out holds 128 bytes. */
void option_inside(const struct option *option, char out[static 128]);
/* True if something of the section works in this version. */
bool option_available(const struct option *option);
/* Splits the i-th of the words off; false if there are fewer. */
bool option_word(const struct option *option, size_t i, struct wg_slice *ret_word);

static inline void *option_field(const struct option *option, void *base)
{
    return (char *)base + option->offset;
}
static inline const void *option_field_const(const struct option *option, const void *base)
{
    return (const char *)base + option->offset;
}
static inline size_t *option_count(const struct option *option, void *base)
{
    return (size_t *)(void *)((char *)base + option->count);
}
static inline size_t option_count_const(const struct option *option, const void *base)
{
    return *(const size_t *)(const void *)((const char *)base + option->count);
}
