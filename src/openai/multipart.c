/* Reads multipart/form-data (RFC 7578) as it arrives: the fields `model` and `stream`, and how much there is
 * of the rest. Stricter than the RFC wherever two readers could see different fields. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "form_header.h"
#include "utf8.h"
#include "wakegate/openai.h"

enum {
    PART_HEADERS_MAX = 8 * 1024,
    PARTS_MAX = 1000,
    DELIMITER_MAX = 4 + FORM_PARAM_MAX, /* CR LF - - boundary */
    LINE_START = 2                      /* of the delimiter: what is matched at the start of a line */
};

enum form_state {
    FORM_PREAMBLE,  /* before the first boundary: ignored */
    FORM_BOUNDARY,  /* right behind a boundary */
    FORM_DASH,      /* behind it and one dash: the second must come */
    FORM_PADDING,   /* in white space behind it */
    FORM_LINE_FEED, /* behind its line's CR */
    FORM_HEADERS,   /* in a part's headers */
    FORM_VALUE,     /* in a part's value */
    FORM_EPILOGUE,  /* behind the closing boundary: ignored */
    FORM_BROKEN     /* for good */
};

enum part {
    PART_UNKNOWN, /* no Content-Disposition yet */
    PART_TEXT,
    PART_FILE,
    PART_MODEL,
    PART_STREAM
};

struct wg_multipart {
    enum form_state state;
    char delimiter[DELIMITER_MAX];
    size_t delimiter_len;
    size_t match_from,
        matched; /* delimiter[match_from, matched) are the bytes seen last, not yet given to the value */
    uint64_t at; /* place of the next byte */

    unsigned parts;
    enum part part;
    bool has_stream;
    size_t headers_len, line_len; /* of this part's headers so far; of the current line in `line` */
    uint64_t value_at, value_len;
    char flag[8]; /* the start of `stream`'s value */

    struct wg_skim_result result;
    char error[160];
    char line[PART_HEADERS_MAX];
};

static void set_state(struct wg_multipart *form, enum form_state state)
{
    WG_ASSERT(form->state != FORM_BROKEN);
    form->state = state;
}

static int WG_PRINTF(3, 4) fail(struct wg_multipart *form, uint64_t at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(form->error, sizeof(form->error), format, args);
    va_end(args);
    if (len >= 0 && (size_t)len < sizeof(form->error))
        snprintf(form->error + len, sizeof(form->error) - (size_t)len, " at byte %" PRIu64, at);
    set_state(form, FORM_BROKEN);
    return -EINVAL;
}

static bool is_boundary(struct wg_slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool alnum = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
        if (!alnum && (c == '\0' || strchr("'()+_,-./:=? ", c) == NULL))
            return false;
    }
    return text.len > 0 && text.ptr[text.len - 1] != ' ';
}

/* False unless there is exactly one, well-formed boundary. */
static bool find_boundary(struct wg_slice content_type, struct form_param *ret_boundary)
{
    struct wg_slice rest = content_type;
    struct form_param param;
    bool found = false;
    int r;

    if (!wg_slice_eq_nocase(form_header_value(&rest), WG_SLICE("multipart/form-data")))
        return false;
    while ((r = form_header_param(&rest, &param)) > 0) {
        if (!wg_slice_eq_nocase(param.name, WG_SLICE("boundary")))
            continue;
        if (found || param.len > FORM_PARAM_MAX || !is_boundary(form_param_value(&param)))
            return false;
        *ret_boundary = param;
        found = true;
    }
    return found && r == 0;
}

struct wg_multipart *wg_multipart_new(struct wg_slice content_type)
{
    struct form_param boundary;
    if (!find_boundary(content_type, &boundary))
        return NULL;
    struct wg_multipart *form = WG_NEW(struct wg_multipart);
    memcpy(form->delimiter, "\r\n--", 4);
    memcpy(form->delimiter + 4, boundary.value, boundary.len);
    form->delimiter_len = 4 + boundary.len;
    form->match_from = form->matched = LINE_START;
    return form;
}

struct wg_multipart *wg_multipart_free(struct wg_multipart *multipart)
{
    free(multipart);
    return NULL;
}

/* ---- headers of a part ---- */

static int choose_part(struct wg_multipart *form, struct wg_slice name, bool file)
{
    bool model = wg_slice_eq(name, WG_SLICE("model")), stream = wg_slice_eq(name, WG_SLICE("stream"));
    if ((model || stream) && file)
        return fail(form, form->at, "the field \"%.*s\" must not be a file", WG_SLICE_ARG(name));
    if ((model && form->result.has_model) || (stream && form->has_stream))
        return fail(form, form->at, "duplicate field \"%.*s\"", WG_SLICE_ARG(name));
    form->part = model ? PART_MODEL : stream ? PART_STREAM : file ? PART_FILE : PART_TEXT;
    return 0;
}

static int read_disposition(struct wg_multipart *form, struct wg_slice value)
{
    struct form_param param, name = {0};
    bool named = false, file = false;
    int r;

    if (form->part != PART_UNKNOWN)
        return fail(form, form->at, "two Content-Disposition headers in one part");
    if (!wg_slice_eq_nocase(form_header_value(&value), WG_SLICE("form-data")))
        return fail(form, form->at, "a part's Content-Disposition is not form-data");
    while ((r = form_header_param(&value, &param)) > 0) {
        if (wg_slice_eq_nocase(param.name, WG_SLICE("filename")) ||
            wg_slice_eq_nocase(param.name, WG_SLICE("filename*"))) {
            file = true;
        } else if (wg_slice_eq_nocase(param.name, WG_SLICE("name"))) {
            if (named)
                return fail(form, form->at, "two names in one Content-Disposition");
            name = param;
            named = true;
        } else if (wg_slice_eq_nocase(param.name, WG_SLICE("name*"))) {
            return fail(form, form->at, "name* in a Content-Disposition");
        }
    }
    if (r < 0 || !named)
        return fail(form, form->at, "a Content-Disposition that cannot be understood or has no name");
    return choose_part(form, name.len > FORM_PARAM_MAX ? WG_SLICE("") : form_param_value(&name), file);
}

static int read_encoding(struct wg_multipart *form, struct wg_slice value)
{
    static const char *const plain[] = {"7bit", "8bit", "binary"};
    for (size_t i = 0; i < WG_COUNT_OF(plain); i++)
        if (wg_slice_eq_nocase(wg_slice_trim(value), wg_slice_str(plain[i])))
            return 0;
    return fail(form, form->at, "a part with a Content-Transfer-Encoding");
}

static int read_header(struct wg_multipart *form, struct wg_slice line)
{
    struct wg_slice value = line, name;
    WG_ASSERT(line.len > 0);
    (void)wg_slice_split(&value, ':', &name);
    if (value.ptr == NULL || name.len == 0 || !wg_slice_eq(name, wg_slice_trim(name)) ||
        memchr(line.ptr, 0, line.len) || memchr(line.ptr, '\r', line.len))
        return fail(form, form->at, "a part's header that cannot be understood");
    if (wg_slice_eq_nocase(name, WG_SLICE("content-disposition")))
        return read_disposition(form, value);
    if (wg_slice_eq_nocase(name, WG_SLICE("content-transfer-encoding")))
        return read_encoding(form, value);
    return 0;
}

static int begin_headers(struct wg_multipart *form)
{
    if (++form->parts > PARTS_MAX)
        return fail(form, form->at, "more than %d parts", PARTS_MAX);
    form->part = PART_UNKNOWN;
    form->headers_len = form->line_len = 0;
    set_state(form, FORM_HEADERS);
    return 0;
}

static int begin_value(struct wg_multipart *form)
{
    if (form->part == PART_UNKNOWN)
        return fail(form, form->at, "a part without Content-Disposition");
    form->result.media_parts += form->part == PART_FILE;
    form->value_at = form->at;
    form->value_len = 0;
    form->match_from = form->matched = LINE_START;
    set_state(form, FORM_VALUE);
    return 0;
}

static int end_line(struct wg_multipart *form)
{
    if (form->line_len == 0 || form->line[form->line_len - 1] != '\r')
        return fail(form, form->at, "a line of a part's headers that does not end with CR LF");
    struct wg_slice line = wg_slice(form->line, form->line_len - 1);
    form->line_len = 0;
    return line.len == 0 ? begin_value(form) : read_header(form, line);
}

/* Takes one line, or what there is of it; returns the bytes taken, or -EINVAL. */
static ssize_t read_headers(struct wg_multipart *form, const char *data, size_t len)
{
    const char *feed = memchr(data, '\n', len);
    size_t take = feed ? (size_t)(feed - data) : len;
    if (take > PART_HEADERS_MAX - form->headers_len)
        return fail(form, form->at + PART_HEADERS_MAX - form->headers_len,
                    "headers of a part larger than %d bytes", PART_HEADERS_MAX);
    memcpy(form->line + form->line_len, data, take);
    form->line_len += take;
    form->headers_len += take;
    form->at += take;
    if (feed == NULL)
        return (ssize_t)take;
    form->at++;
    int r = end_line(form);
    return r < 0 ? r : (ssize_t)take + 1;
}

/* ---- values ---- */

static int add_value(struct wg_multipart *form, const char *data, size_t len)
{
    struct wg_skim_result *result = &form->result;
    uint64_t had = form->value_len;
    form->value_len += len;
    if (form->part == PART_MODEL) {
        if (form->value_len > WG_MODEL_NAME_MAX)
            return fail(form, form->value_at, "\"model\" must be 1 to %d bytes long, is longer,",
                        WG_MODEL_NAME_MAX);
        memcpy(result->model + had, data, len);
    } else if (form->part == PART_STREAM) {
        if (had < sizeof(form->flag))
            memcpy(form->flag + had, data, WG_MIN(len, sizeof(form->flag) - (size_t)had));
    } else if (form->part == PART_TEXT) {
        result->text_bytes += len;
    }
    return 0;
}

static int end_model(struct wg_multipart *form)
{
    struct wg_skim_result *result = &form->result;
    struct wg_slice model = wg_slice(result->model, (size_t)form->value_len);
    if (model.len == 0)
        return fail(form, form->value_at, "\"model\" must be 1 to %d bytes long, is empty,",
                    WG_MODEL_NAME_MAX);
    if (!utf8_valid(model) || memchr(model.ptr, '\0', model.len))
        return fail(form, form->value_at, "\"model\" must be UTF-8 without NUL");
    result->model[model.len] = '\0';
    result->model_len = model.len;
    result->model_at = form->value_at;
    result->model_size = form->value_len;
    result->has_model = true;
    return 0;
}

static int end_value(struct wg_multipart *form)
{
    if (form->match_from == LINE_START)
        return fail(form, form->at, "a boundary where a part's value should begin");
    if (form->part == PART_MODEL)
        return end_model(form);
    if (form->part == PART_STREAM) {
        struct wg_slice flag = wg_slice(form->flag, (size_t)WG_MIN(form->value_len, sizeof(form->flag)));
        form->result.stream = wg_slice_eq_nocase(flag, WG_SLICE("true")) || wg_slice_eq(flag, WG_SLICE("1"));
        form->has_stream = true;
    }
    return 0;
}

static int delimiter_seen(struct wg_multipart *form)
{
    int r = form->state == FORM_VALUE ? end_value(form) : 0;
    form->match_from = form->matched = 0;
    if (r == 0)
        set_state(form, FORM_BOUNDARY);
    return r;
}

/* What looked like the delimiter's start was the value's. A CR is only the delimiter's first byte, so no part
 * of what was matched can begin another match. */
static int give_back_match(struct wg_multipart *form)
{
    const char *start = form->delimiter + form->match_from;
    size_t len = form->matched - form->match_from;
    form->match_from = form->matched = 0;
    return form->state == FORM_VALUE ? add_value(form, start, len) : 0;
}

/* Preamble and values: up to and with the next delimiter. */
static ssize_t read_value(struct wg_multipart *form, const char *data, size_t len)
{
    if (form->matched == 0) {
        const char *cr = memchr(data, '\r', len);
        size_t take = cr ? (size_t)(cr - data) : len;
        int r = form->state == FORM_VALUE ? add_value(form, data, take) : 0;
        form->at += take + (cr != NULL);
        form->matched = cr != NULL;
        return r < 0 ? r : (ssize_t)take + (cr != NULL);
    }
    size_t i = 0;
    while (i < len && form->matched < form->delimiter_len && data[i] == form->delimiter[form->matched]) {
        form->matched++;
        i++;
    }
    form->at += i;
    int r = 0;
    if (form->matched == form->delimiter_len)
        r = delimiter_seen(form);
    else if (i < len)
        r = give_back_match(form);
    return r < 0 ? r : (ssize_t)i;
}

/* ---- the line of a boundary ---- */

static int read_boundary(struct wg_multipart *form, char c)
{
    if (form->state == FORM_BOUNDARY && c == '-')
        set_state(form, FORM_DASH);
    else if (form->state == FORM_DASH && c == '-')
        set_state(form, FORM_EPILOGUE);
    else if ((form->state == FORM_BOUNDARY || form->state == FORM_PADDING) && (c == ' ' || c == '\t'))
        set_state(form, FORM_PADDING);
    else if ((form->state == FORM_BOUNDARY || form->state == FORM_PADDING) && c == '\r')
        set_state(form, FORM_LINE_FEED);
    else if (form->state == FORM_LINE_FEED && c == '\n')
        return begin_headers(form);
    else
        return fail(form, form->at, "a boundary's line that goes on");
    return 0;
}

/* Takes some of the bytes; returns how many, or -EINVAL. */
static ssize_t read_some(struct wg_multipart *form, const char *data, size_t len)
{
    int r;
    switch (form->state) {
    case FORM_PREAMBLE:
    case FORM_VALUE:
        return read_value(form, data, len);
    case FORM_HEADERS:
        return read_headers(form, data, len);
    case FORM_EPILOGUE:
        form->at += len;
        return (ssize_t)len;
    case FORM_BROKEN:
        return -EINVAL;
    default:
        r = read_boundary(form, *data);
        form->at++;
        return r < 0 ? r : 1;
    }
}

int wg_multipart_feed(struct wg_multipart *multipart, const void *data, size_t len)
{
    const char *p = data;
    while (len > 0) {
        ssize_t taken = read_some(multipart, p, len);
        if (taken < 0)
            return -EINVAL;
        p += taken;
        len -= (size_t)taken;
    }
    return multipart->state == FORM_BROKEN ? -EINVAL : 0;
}

int wg_multipart_finish(struct wg_multipart *multipart)
{
    if (multipart->state == FORM_EPILOGUE)
        return 0;
    return multipart->state == FORM_BROKEN
               ? -EINVAL
               : fail(multipart, multipart->at, "the form ends without its closing boundary");
}

const struct wg_skim_result *wg_multipart_result(const struct wg_multipart *multipart)
{
    return &multipart->result;
}

const char *wg_multipart_error(const struct wg_multipart *multipart)
{
    return multipart->error;
}
