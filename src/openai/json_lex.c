/* The structure of JSON: containers, numbers and literals as one state machine. Strings are json_string.c's.
 */
#include "json_lex.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static const struct {
    const char *text;
    enum json_event event;
} literals[] = {{"true", JSON_TRUE}, {"false", JSON_FALSE}, {"null", JSON_NULL}};

enum json_event json_lex_fail(struct json_lex *lex, const char *format, ...)
{
    if (lex->state == JSON_BROKEN)
        return JSON_ERROR;
    va_list args;
    va_start(args, format);
    vsnprintf(lex->error, sizeof(lex->error), format, args);
    va_end(args);
    json_lex_set_state(lex, JSON_BROKEN);
    return JSON_ERROR;
}

/* The byte at `next` is not what the syntax wants. */
static enum json_event unexpected(struct json_lex *lex, const char *wanted)
{
    unsigned char c = *lex->next;
    if (c > 0x20 && c < 0x7f)
        return json_lex_fail(lex, "expected %s at byte %" PRIu64 ", found '%c'", wanted, json_lex_at(lex), c);
    return json_lex_fail(lex, "expected %s at byte %" PRIu64 ", found the byte 0x%02x", wanted,
                         json_lex_at(lex), c);
}

static enum json_event open_container(struct json_lex *lex, bool array)
{
    if (lex->depth == WG_SKIM_DEPTH)
        return json_lex_fail(lex, "nested deeper than %d levels at byte %" PRIu64, WG_SKIM_DEPTH,
                             json_lex_at(lex));
    json_token_begin(lex);
    uint64_t bit = UINT64_C(1) << lex->depth % 64;
    uint64_t *bits = &lex->arrays[lex->depth / 64];
    *bits = array ? *bits | bit : *bits & ~bit;
    lex->depth++;
    lex->next++;
    json_lex_set_state(lex, array ? JSON_FIRST_ITEM : JSON_FIRST_KEY);
    return array ? JSON_ARRAY_BEGIN : JSON_OBJECT_BEGIN;
}

/* The caller has checked that the bracket is of the innermost container's kind. */
static enum json_event close_container(struct json_lex *lex)
{
    WG_ASSERT(lex->depth > 0);
    bool array = json_lex_is_array(lex, lex->depth);
    json_token_begin(lex);
    lex->depth--;
    lex->next++;
    json_lex_set_state(lex, lex->depth > 0 ? JSON_BEHIND : JSON_DONE);
    return array ? JSON_ARRAY_END : JSON_OBJECT_END;
}

static void begin_number(struct json_lex *lex, unsigned char c)
{
    json_token_begin(lex);
    json_token_add(&lex->token, &c, 1);
    lex->number = c == '-' ? JSON_NUM_MINUS : c == '0' ? JSON_NUM_ZERO : JSON_NUM_WHOLE;
    lex->next++;
    json_lex_set_state(lex, JSON_IN_NUMBER);
}

static enum json_event begin_body(struct json_lex *lex, unsigned char c)
{
    if (c == '{')
        return open_container(lex, false);
    if (c == 0xef)
        return json_lex_fail(lex, "the body begins with a byte order mark: send JSON as UTF-8 without one");
    if (c == '[')
        return json_lex_fail(lex, "the body must be a JSON object, not an array");
    return unexpected(lex, "a JSON object");
}

static enum json_event begin_value(struct json_lex *lex, unsigned char c)
{
    if (lex->depth == 0)
        return begin_body(lex, c);
    if (c == '{' || c == '[')
        return open_container(lex, c == '[');
    if (c == '"') {
        json_string_begin(lex, false);
        return JSON_MORE;
    }
    if (c == '-' || (c >= '0' && c <= '9')) {
        begin_number(lex, c);
        return JSON_MORE;
    }
    for (unsigned i = 0; i < WG_COUNT_OF(literals); i++) {
        if (c == (unsigned char)literals[i].text[0]) {
            json_token_begin(lex);
            lex->literal = i;
            lex->literal_at = 0;
            json_lex_set_state(lex, JSON_IN_LITERAL);
            return JSON_MORE;
        }
    }
    return unexpected(lex, "a value");
}

static enum json_event begin_key(struct json_lex *lex, unsigned char c)
{
    if (c != '"')
        return unexpected(lex, "a key in double quotes");
    json_string_begin(lex, true);
    return JSON_MORE;
}

static enum json_event behind_value(struct json_lex *lex, unsigned char c)
{
    bool array = json_lex_is_array(lex, lex->depth);
    if (c == (array ? ']' : '}'))
        return close_container(lex);
    if (c != ',')
        return unexpected(lex, array ? "a comma or ']'" : "a comma or '}'");
    lex->next++;
    json_lex_set_state(lex, array ? JSON_VALUE : JSON_NEXT_KEY);
    return JSON_MORE;
}

static bool is_space(unsigned char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Between tokens. */
static enum json_event read_structure(struct json_lex *lex)
{
    while (lex->next < lex->end && is_space(*lex->next))
        lex->next++;
    if (lex->next == lex->end)
        return JSON_MORE;
    unsigned char c = *lex->next;
    switch (lex->state) {
    case JSON_FIRST_ITEM:
        return c == ']' ? close_container(lex) : begin_value(lex, c);
    case JSON_VALUE:
        return begin_value(lex, c);
    case JSON_FIRST_KEY:
        return c == '}' ? close_container(lex) : begin_key(lex, c);
    case JSON_NEXT_KEY:
        return begin_key(lex, c);
    case JSON_BEHIND:
        return behind_value(lex, c);
    case JSON_COLON:
        if (c != ':')
            return unexpected(lex, "a colon behind the key");
        lex->next++;
        json_lex_set_state(lex, JSON_VALUE);
        return JSON_MORE;
    default:
        WG_ASSERT(lex->state == JSON_DONE);
        return unexpected(lex, "nothing more behind the JSON object");
    }
}

static enum json_number number_after(enum json_number number, unsigned char c)
{
    bool digit = c >= '0' && c <= '9';
    switch (number) {
    case JSON_NUM_MINUS:
        return c == '0' ? JSON_NUM_ZERO : digit ? JSON_NUM_WHOLE : JSON_NUM_BAD;
    case JSON_NUM_ZERO:
    case JSON_NUM_WHOLE:
        if (digit)
            return number == JSON_NUM_ZERO ? JSON_NUM_BAD : JSON_NUM_WHOLE;
        return c == '.' ? JSON_NUM_POINT : (c | 0x20) == 'e' ? JSON_NUM_E : JSON_NUM_END;
    case JSON_NUM_POINT:
        return digit ? JSON_NUM_FRACTION : JSON_NUM_BAD;
    case JSON_NUM_FRACTION:
        return digit ? JSON_NUM_FRACTION : (c | 0x20) == 'e' ? JSON_NUM_E : JSON_NUM_END;
    case JSON_NUM_E:
        if (c == '+' || c == '-')
            return JSON_NUM_E_SIGN;
        return digit ? JSON_NUM_EXPONENT : JSON_NUM_BAD;
    case JSON_NUM_E_SIGN:
        return digit ? JSON_NUM_EXPONENT : JSON_NUM_BAD;
    default:
        WG_ASSERT(number == JSON_NUM_EXPONENT);
        return digit ? JSON_NUM_EXPONENT : JSON_NUM_END;
    }
}

/* A number ends with the first byte that is none of it; there always is one, since the body is an object. */
static enum json_event read_number(struct json_lex *lex)
{
    const unsigned char *start = lex->next;
    enum json_number number = lex->number;
    for (; lex->next < lex->end; lex->next++) {
        if (number == JSON_NUM_WHOLE && *lex->next >= '0' && *lex->next <= '9')
            continue;
        enum json_number after = number_after(number, *lex->next);
        if (after == JSON_NUM_BAD)
            return json_lex_fail(lex, "malformed number at byte %" PRIu64, lex->token.at);
        if (after == JSON_NUM_END)
            break;
        number = after;
    }
    lex->number = number;
    json_token_add(&lex->token, start, (size_t)(lex->next - start));
    if (lex->next == lex->end)
        return JSON_MORE;
    json_lex_set_state(lex, JSON_BEHIND);
    return JSON_NUMBER;
}

static enum json_event read_literal(struct json_lex *lex)
{
    const char *text = literals[lex->literal].text;
    for (; text[lex->literal_at] != '\0' && lex->next < lex->end; lex->next++, lex->literal_at++)
        if (*lex->next != (unsigned char)text[lex->literal_at])
            return unexpected(lex, text);
    if (text[lex->literal_at] != '\0')
        return JSON_MORE;
    json_lex_set_state(lex, JSON_BEHIND);
    return literals[lex->literal].event;
}

void json_lex_input(struct json_lex *lex, const void *data, size_t len)
{
    WG_ASSERT(lex->next == lex->end || lex->state == JSON_BROKEN);
    lex->fed += (uint64_t)(lex->end - lex->data);
    lex->data = lex->next = data;
    lex->end = lex->data + len;
}

enum json_event json_lex_next(struct json_lex *lex)
{
    enum json_event event = JSON_MORE;
    while (event == JSON_MORE && lex->next < lex->end) {
        switch (lex->state) {
        case JSON_IN_STRING:
        case JSON_IN_ESCAPE:
        case JSON_IN_HEX:
            event = json_string_read(lex);
            break;
        case JSON_IN_NUMBER:
            event = read_number(lex);
            break;
        case JSON_IN_LITERAL:
            event = read_literal(lex);
            break;
        case JSON_BROKEN:
            return JSON_ERROR;
        default:
            event = read_structure(lex);
        }
    }
    return event;
}

bool json_lex_finish(struct json_lex *lex)
{
    if (lex->state == JSON_DONE)
        return true;
    uint64_t at = json_lex_at(lex);
    if (at == 0)
        json_lex_fail(lex, "the body is empty: send a JSON object");
    else if (lex->state == JSON_IN_STRING || lex->state == JSON_IN_ESCAPE || lex->state == JSON_IN_HEX)
        json_lex_fail(lex, "the body ends at byte %" PRIu64 ", in the string that begins at byte %" PRIu64,
                      at, lex->token.at);
    else
        json_lex_fail(lex, "the body ends at byte %" PRIu64 " before the JSON object does", at);
    return false;
}
