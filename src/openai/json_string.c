/* Strings of JSON: the bulk of every request. Runs of plain text are skipped eight bytes at a time; escapes
 * and characters cut by the end of the input take the slow path. */
#include <endian.h>
#include <inttypes.h>

#include "json_lex.h"

#define EACH_BYTE(value) (UINT64_C(0x0101010101010101) * (value))

/* Nonzero if one of the eight bytes is a quote, a backslash, a control character or not ASCII; the lowest
 * high bit that is set then marks the first such byte. */
static inline uint64_t stops_in(uint64_t word)
{
    uint64_t control = word - EACH_BYTE(0x20);
    uint64_t quote = (word ^ EACH_BYTE('"')) - EACH_BYTE(1);
    uint64_t backslash = (word ^ EACH_BYTE('\\')) - EACH_BYTE(1);
    return (control | quote | backslash | word) & EACH_BYTE(0x80);
}

static inline bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

static inline const unsigned char *skip_ascii(const unsigned char *p, const unsigned char *end)
{
    while (end - p >= 8) {
        uint64_t word;
        memcpy(&word, p, sizeof(word));
        uint64_t stops = stops_in(le64toh(word));
        if (stops != 0)
            return p + __builtin_ctzll(stops) / 8;
        p += 8;
    }
    while (p < end && is_plain(*p))
        p++;
    return p;
}

/* The first byte that is not part of a whole, valid, unescaped character. */
static const unsigned char *skip_plain(const unsigned char *p, const unsigned char *end)
{
    while (p < end) {
        if (*p < 0x80) {
            p = skip_ascii(p, end);
            if (p == end || *p < 0x80)
                break;
        }
        size_t len = utf8_sequence(p, end);
        if (len == 0)
            break;
        p += len;
    }
    return p;
}

static void add_code(struct json_lex *lex, uint32_t code)
{
    char out[4];
    json_token_add(&lex->token, out, utf8_encode(code, out));
}

/* A high surrogate that was not followed by its low one is kept as it is. */
static void settle_surrogate(struct json_lex *lex)
{
    if (lex->high == 0)
        return;
    lex->token.lone_surrogate = true;
    add_code(lex, lex->high);
    lex->high = 0;
}

static void add_unit(struct json_lex *lex, uint32_t unit)
{
    bool high = unit >= 0xd800 && unit < 0xdc00, low = unit >= 0xdc00 && unit < 0xe000;
    if (low && lex->high != 0) {
        add_code(lex, 0x10000 + ((lex->high - 0xd800) << 10) + (unit - 0xdc00));
        lex->high = 0;
        return;
    }
    settle_surrogate(lex);
    if (high) {
        lex->high = unit;
        return;
    }
    lex->token.lone_surrogate |= low;
    add_code(lex, unit);
}

void json_string_begin(struct json_lex *lex, bool is_key)
{
    json_token_begin(lex);
    lex->next++;
    lex->in_key = is_key;
    json_lex_set_state(lex, JSON_IN_STRING);
}

static enum json_event end_string(struct json_lex *lex)
{
    lex->next++;
    json_lex_set_state(lex, lex->in_key ? JSON_COLON : JSON_BEHIND);
    return lex->in_key ? JSON_KEY : JSON_STRING;
}

static enum json_event bad_utf8(struct json_lex *lex)
{
    return json_lex_fail(lex, "invalid UTF-8 in a string at byte %" PRIu64, json_lex_at(lex));
}

/* The character at `next` is broken, or cut by the end of the input: takes what there is of it. */
static enum json_event read_cut_character(struct json_lex *lex)
{
    const unsigned char *start = lex->next;
    if (lex->utf8.need == 0) {
        if (!utf8_begin(&lex->utf8, *lex->next))
            return bad_utf8(lex);
        lex->next++;
    }
    for (; lex->utf8.need > 0 && lex->next < lex->end; lex->next++)
        if (!utf8_continue(&lex->utf8, *lex->next))
            return bad_utf8(lex);
    json_token_add(&lex->token, start, (size_t)(lex->next - start));
    return JSON_MORE;
}

static enum json_event read_text(struct json_lex *lex)
{
    if (lex->utf8.need > 0)
        return read_cut_character(lex);
    const unsigned char *start = lex->next;
    if (*start != '\\')
        settle_surrogate(lex);
    lex->next = skip_plain(start, lex->end);
    json_token_add(&lex->token, start, (size_t)(lex->next - start));
    if (lex->next == lex->end)
        return JSON_MORE;
    unsigned char c = *lex->next;
    if (c == '"')
        return end_string(lex);
    if (c >= 0x80)
        return read_cut_character(lex);
    if (c < 0x20)
        return json_lex_fail(lex, "control character 0x%02x in a string at byte %" PRIu64 ": escape it", c,
                             json_lex_at(lex));
    lex->next++;
    json_lex_set_state(lex, JSON_IN_ESCAPE);
    return JSON_MORE;
}

static enum json_event read_escape(struct json_lex *lex)
{
    static const char meaning[256] = {['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
                                      ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t'};
    unsigned char c = *lex->next;
    if (c == 'u') {
        lex->hex_left = 4;
        lex->hex = 0;
        json_lex_set_state(lex, JSON_IN_HEX);
    } else if (meaning[c] != 0) {
        settle_surrogate(lex);
        json_token_add(&lex->token, &meaning[c], 1);
        json_lex_set_state(lex, JSON_IN_STRING);
    } else {
        return json_lex_fail(lex, "unknown escape in a string at byte %" PRIu64, json_lex_at(lex));
    }
    lex->next++;
    return JSON_MORE;
}

static int hex_value(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static enum json_event read_hex(struct json_lex *lex)
{
    for (; lex->hex_left > 0 && lex->next < lex->end; lex->next++, lex->hex_left--) {
        int value = hex_value(*lex->next);
        if (value < 0)
            return json_lex_fail(lex, "\\u without four hexadecimal digits at byte %" PRIu64,
                                 json_lex_at(lex));
        lex->hex = lex->hex << 4 | (uint32_t)value;
    }
    if (lex->hex_left == 0) {
        add_unit(lex, lex->hex);
        json_lex_set_state(lex, JSON_IN_STRING);
    }
    return JSON_MORE;
}

enum json_event json_string_read(struct json_lex *lex)
{
    enum json_event event = JSON_MORE;
    while (event == JSON_MORE && lex->next < lex->end) {
        if (lex->state == JSON_IN_STRING)
            event = read_text(lex);
        else if (lex->state == JSON_IN_ESCAPE)
            event = read_escape(lex);
        else
            event = read_hex(lex);
    }
    return event;
}
