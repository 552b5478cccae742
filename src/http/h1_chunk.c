/* The strict incremental decoder of chunked bodies, and the trailer fields behind them. It hands out runs of
 * the input, copies only the trailer section, and gives the same result however the input is split. */
#include "h1.h"

enum chunk_state {
    CHUNK_SIZE,         /* in the hexadecimal digits of a chunk's size, or before them */
    CHUNK_EXTENSION,    /* behind the semicolon: skipped, but bounded */
    CHUNK_SIZE_LF,      /* the size line's CR is read */
    CHUNK_DATA,         /* `left` bytes of the chunk are still to come */
    CHUNK_DATA_CR,      /* behind a chunk's last byte */
    CHUNK_DATA_LF,      /* behind that CR */
    CHUNK_TRAILER,      /* at the start of a trailer line, or of the blank line */
    CHUNK_TRAILER_LINE, /* inside a trailer line */
    CHUNK_TRAILER_LF,   /* a trailer line's CR is read */
    CHUNK_END_LF,       /* the blank line's CR is read */
    CHUNK_DONE,         /* all read; final */
    CHUNK_FAILED,       /* `why` says what; final */
};

enum {
    DIGITS_MAX = 16,
    EXTENSION_MAX = 256,        /* of one chunk */
    EXTENSIONS_MAX = 16 * 1024, /* of all chunks together */
    TRAILER_MAX = 4 * 1024,
};

static void set_state(struct wg_h1_chunked *chunked, enum chunk_state state)
{
    WG_ASSERT(chunked->state != CHUNK_DONE && chunked->state != CHUNK_FAILED);
    if (state == CHUNK_SIZE) {
        chunked->left = 0;
        chunked->digits = 0;
        chunked->extension = 0;
    }
    chunked->state = (int)state;
}

static void fail(struct wg_h1_chunked *chunked, const char *why)
{
    chunked->why = why;
    set_state(chunked, CHUNK_FAILED);
}

void wg_h1_chunked_init(struct wg_h1_chunked *chunked)
{
    *chunked = (struct wg_h1_chunked){.state = CHUNK_SIZE};
    wg_buf_init(&chunked->trailer, TRAILER_MAX);
}

void wg_h1_chunked_clear(struct wg_h1_chunked *chunked)
{
    wg_buf_clear(&chunked->trailer);
    wg_h1_chunked_init(chunked);
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void size_byte(struct wg_h1_chunked *chunked, char c)
{
    int value = hex_value(c);
    if (value >= 0) {
        if (++chunked->digits > DIGITS_MAX || chunked->left > INT64_MAX >> 4)
            fail(chunked, "chunk size is too large");
        else
            chunked->left = chunked->left << 4 | (unsigned)value;
    } else if (chunked->digits == 0) {
        fail(chunked, "chunk size does not start with a hexadecimal digit");
    } else if (c == '\r') {
        set_state(chunked, CHUNK_SIZE_LF);
    } else if (c == ';') {
        set_state(chunked, CHUNK_EXTENSION);
    } else {
        fail(chunked, c == '\n' ? "bare LF behind a chunk size" : "byte that is not allowed in a chunk size");
    }
}

static void extension_byte(struct wg_h1_chunked *chunked, char c)
{
    if (c == '\r')
        set_state(chunked, CHUNK_SIZE_LF);
    else if (!wg_h1_is(c, WG_H1_VCHAR) || (c & 0x80))
        fail(chunked, c == '\n' ? "bare LF behind a chunk extension"
                                : "byte that is not allowed in a chunk extension");
    else if (++chunked->extension > EXTENSION_MAX)
        fail(chunked, "chunk extension is too long");
    else if (++chunked->extensions > EXTENSIONS_MAX)
        fail(chunked, "too many chunk extensions");
}

/* The blank line is read: the trailer section must be one that parses. */
static void finish(struct wg_h1_chunked *chunked)
{
    struct wg_fields fields;
    const char *data = chunked->trailer.data;
    if (chunked->trailer.len > 0 &&
        wg_h1_parse_fields(data, data + chunked->trailer.len, &fields, &chunked->why) != WG_H1_OK)
        set_state(chunked, CHUNK_FAILED);
    else
        set_state(chunked, CHUNK_DONE);
}

/* Moves on if c is the one byte that may come here. */
static void expect_byte(struct wg_h1_chunked *chunked, char c, char expected, enum chunk_state next,
                        const char *why)
{
    if (c == expected)
        set_state(chunked, next);
    else
        fail(chunked, why);
}

static void trailer_byte(struct wg_h1_chunked *chunked, char c)
{
    if (chunked->state == CHUNK_TRAILER && c == '\r') {
        set_state(chunked, CHUNK_END_LF);
        return;
    }
    if (c == '\n' && chunked->state != CHUNK_TRAILER_LF)
        fail(chunked, "bare LF in the trailer section");
    else if (c != '\n' && chunked->state == CHUNK_TRAILER_LF)
        fail(chunked, "bare CR in the trailer section");
    else if (wg_buf_add_char(&chunked->trailer, c) < 0)
        fail(chunked, "trailer section is larger than 4 KiB");
    else
        set_state(chunked, c == '\n' ? CHUNK_TRAILER : c == '\r' ? CHUNK_TRAILER_LF : CHUNK_TRAILER_LINE);
}

static void step(struct wg_h1_chunked *chunked, char c)
{
    switch ((enum chunk_state)chunked->state) {
    case CHUNK_SIZE:
        size_byte(chunked, c);
        break;
    case CHUNK_EXTENSION:
        extension_byte(chunked, c);
        break;
    case CHUNK_SIZE_LF:
        expect_byte(chunked, c, '\n', chunked->left > 0 ? CHUNK_DATA : CHUNK_TRAILER,
                    "bare CR behind a chunk size");
        break;
    case CHUNK_DATA_CR:
        expect_byte(chunked, c, '\r', CHUNK_DATA_LF, "chunk data is not followed by CRLF");
        break;
    case CHUNK_DATA_LF:
        expect_byte(chunked, c, '\n', CHUNK_SIZE, "chunk data is not followed by CRLF");
        break;
    case CHUNK_TRAILER:
    case CHUNK_TRAILER_LINE:
    case CHUNK_TRAILER_LF:
        trailer_byte(chunked, c);
        break;
    case CHUNK_END_LF:
        if (c == '\n')
            finish(chunked);
        else
            fail(chunked, "bare CR in the trailer section");
        break;
    case CHUNK_DATA:
    case CHUNK_DONE:
    case CHUNK_FAILED:
        WG_ASSERT(false); /* no single bytes are read in these */
    }
}

enum wg_h1_result wg_h1_chunked_feed(struct wg_h1_chunked *chunked, const char *data, size_t len,
                                     size_t *ret_used, struct wg_slice *ret_data)
{
    size_t used = 0;
    struct wg_slice run = wg_slice(data, 0);
    while (used < len && run.len == 0 && chunked->state != CHUNK_DONE && chunked->state != CHUNK_FAILED) {
        if (chunked->state != CHUNK_DATA) {
            step(chunked, data[used++]);
            continue;
        }
        run = wg_slice(data + used, (size_t)WG_MIN(chunked->left, len - used));
        used += run.len;
        chunked->left -= run.len;
        if (chunked->left == 0)
            set_state(chunked, CHUNK_DATA_CR);
    }
    if (chunked->state == CHUNK_FAILED)
        return WG_H1_BAD;
    *ret_used = used;
    *ret_data = run;
    return chunked->state == CHUNK_DONE ? WG_H1_OK : WG_H1_PARTIAL;
}

/* ---- trailers ---- */

/* RFC 9110 6.5.1: framing, routing, credentials, control data and the form of the content cannot come behind
 * it. */
bool wg_h1_may_be_trailer(const struct wg_field *field)
{
    static const struct wg_slice never[] = {
        {"age", 3},      {"cache-control", 13},    {"expires", 7},
        {"location", 8}, {"max-forwards", 12},     {"pragma", 6},
        {"range", 5},    {"set-cookie", 10},       {"vary", 4},
        {"warning", 7},  {"www-authenticate", 16},
    };
    static const struct wg_slice prefixes[] = {
        {"content-", 8}, {"x-forwarded-", 12}, {"if-", 3}, {"accept", 6}};
    if (field->token != WG_TOKEN_OTHER)
        return false;
    for (size_t i = 0; i < WG_COUNT_OF(never); i++) {
        if (wg_slice_eq_nocase(field->name, never[i]))
            return false;
    }
    for (size_t i = 0; i < WG_COUNT_OF(prefixes); i++) {
        size_t len = prefixes[i].len;
        if (field->name.len >= len && wg_slice_eq_nocase(wg_slice(field->name.ptr, len), prefixes[i]))
            return false;
    }
    return true;
}

enum wg_h1_result wg_h1_parse_trailers(const struct wg_h1_chunked *chunked, struct wg_fields *ret_fields)
{
    const char *why, *data = chunked->trailer.data;
    struct wg_fields fields;
    if (chunked->state != CHUNK_DONE)
        return WG_H1_PARTIAL;
    ret_fields->n = 0;
    if (chunked->trailer.len == 0)
        return WG_H1_OK;
    /* It parsed when the body ended, so it does now. */
    enum wg_h1_result result = wg_h1_parse_fields(data, data + chunked->trailer.len, &fields, &why);
    WG_ASSERT(result == WG_H1_OK);
    for (unsigned i = 0; i < fields.n; i++) {
        if (wg_h1_may_be_trailer(&fields.items[i]))
            ret_fields->items[ret_fields->n++] = fields.items[i];
    }
    return WG_H1_OK;
}
