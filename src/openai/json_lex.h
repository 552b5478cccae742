/* An incremental JSON reader (RFC 8259) in constant memory: it turns bytes, however split, into events.
 * It knows syntax, nesting and UTF-8; what members mean is skim.c's. */
#pragma once

#include "utf8.h"
#include "wakegate/openai.h"

enum json_event {
    JSON_MORE,  /* all bytes given are used up */
    JSON_ERROR, /* `error` says why; every later call says so too */
    JSON_OBJECT_BEGIN,
    JSON_OBJECT_END,
    JSON_ARRAY_BEGIN,
    JSON_ARRAY_END,
    JSON_KEY,
    JSON_STRING,
    JSON_NUMBER,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL
};

enum json_state {
    JSON_VALUE,      /* a value must come */
    JSON_FIRST_ITEM, /* behind '[': a value or ']' */
    JSON_FIRST_KEY,  /* behind '{': a key or '}' */
    JSON_NEXT_KEY,   /* behind a comma in an object: a key */
    JSON_COLON,      /* behind a key */
    JSON_BEHIND,     /* behind a value: a comma, or the end of what holds it */
    JSON_IN_STRING,  /* in a string's or key's text */
    JSON_IN_ESCAPE,  /* behind a backslash */
    JSON_IN_HEX,     /* among the four digits of \u */
    JSON_IN_NUMBER,
    JSON_IN_LITERAL, /* in true, false or null */
    JSON_DONE,       /* behind the whole value: only white space may come */
    JSON_BROKEN      /* for good */
};

/* Where in a number the last byte was. */
enum json_number {
    JSON_NUM_MINUS,
    JSON_NUM_ZERO, /* a leading zero: no digit may follow */
    JSON_NUM_WHOLE,
    JSON_NUM_POINT,
    JSON_NUM_FRACTION,
    JSON_NUM_E,
    JSON_NUM_E_SIGN,
    JSON_NUM_EXPONENT,
    JSON_NUM_END, /* this byte is no longer part of it */
    JSON_NUM_BAD
};

/* Of strings and keys: the text after unescaping, its first WG_MODEL_NAME_MAX bytes kept. Numbers: as they
 * are written. A lone surrogate (\ud800 without its other half) stands in the text as three bytes that are no
 * UTF-8. */
struct json_token {
    uint64_t at;  /* place of the first byte in the input, of containers too */
    uint64_t len; /* of the whole text */
    size_t kept;  /* of it in `text` */
    bool lone_surrogate;
    char text[WG_MODEL_NAME_MAX];
};

/* Zeroed: ready for a new body. */
struct json_lex {
    enum json_state state;
    unsigned depth;                             /* open containers, after the event */
    uint64_t arrays[(WG_SKIM_DEPTH + 63) / 64]; /* one bit a level: set for arrays */
    struct json_token token;

    const unsigned char *data, *next, *end; /* the input given last */
    uint64_t fed;                           /* bytes given before it */

    bool in_key;              /* the string is a key */
    struct utf8_partial utf8; /* a character cut by the end of the input */
    unsigned hex_left;        /* digits of \u still to come */
    uint32_t hex, high;       /* their value so far; a high surrogate waiting for its low one */
    enum json_number number;
    unsigned literal, literal_at; /* which, and how many of its letters have come */
    char error[192];
};

/* Gives the next piece of input; it must stay until json_lex_next has said JSON_MORE. */
void json_lex_input(struct json_lex *lex, const void *data, size_t len);
enum json_event json_lex_next(struct json_lex *lex);
/* The input is over: false, with an error, if the value was not whole. */
bool json_lex_finish(struct json_lex *lex);

/* Breaks the reader with an error of the caller's; returns JSON_ERROR. The first error stays. */
enum json_event json_lex_fail(struct json_lex *lex, const char *format, ...) WG_PRINTF(2, 3);

/* Place of the next byte: right behind the token when an event has just come. */
static inline uint64_t json_lex_at(const struct json_lex *lex)
{
    return lex->fed + (uint64_t)(lex->next - lex->data);
}

/* True if the container of that level is an array; levels count from 1, the whole body. */
static inline bool json_lex_is_array(const struct json_lex *lex, unsigned level)
{
    return level > 0 && (lex->arrays[(level - 1) / 64] >> (level - 1) % 64 & 1);
}

static inline struct wg_slice json_token_text(const struct json_token *token)
{
    return wg_slice(token->text, token->kept);
}

static inline void json_lex_set_state(struct json_lex *lex, enum json_state state)
{
    WG_ASSERT(lex->state != JSON_BROKEN);
    lex->state = state;
}

static inline void json_token_begin(struct json_lex *lex)
{
    lex->token.at = json_lex_at(lex);
    lex->token.len = 0;
    lex->token.kept = 0;
    lex->token.lone_surrogate = false;
}

static inline void json_token_add(struct json_token *token, const void *text, size_t len)
{
    size_t room = sizeof(token->text) - token->kept;
    token->len += len;
    if (room == 0 || len == 0)
        return;
    size_t keep = WG_MIN(len, room);
    memcpy(token->text + token->kept, text, keep);
    token->kept += keep;
}

/* json_string.c: reads on in the states IN_STRING, IN_ESCAPE and IN_HEX. JSON_MORE: go on by the state. */
void json_string_begin(struct json_lex *lex, bool is_key);
enum json_event json_string_read(struct json_lex *lex);
