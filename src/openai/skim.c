/* What Wakegate wants to know of a JSON request, gathered from the reader's events: the model, stream, caps,
 * sizes of text. Nothing but these numbers, names and the keys' hashes is kept. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "json_lex.h"
#include "tokens.h"
#include "wakegate/base/map.h"

enum { OPTION_KEYS = 32 };

/* What a member of the body's top level is to us. */
enum role {
    ROLE_OTHER,
    ROLE_MODEL,
    ROLE_STREAM,
    ROLE_STREAM_OPTIONS,
    ROLE_CAP,    /* tokens of one answer */
    ROLE_COPIES, /* answers wanted */
    ROLE_TEXT,   /* text, and media parts */
    ROLE_TOKENS, /* the same, or numbers: a pre-tokenised prompt */
    ROLE_TOOLS   /* text only: a schema may have properties called `url` or `image` */
};

/* What the last key was, for the value right behind it. */
enum member {
    MEMBER_OTHER,
    MEMBER_MEDIA,        /* holds an image, a sound or a file: no text */
    MEMBER_TYPE,         /* names the kind of a content part */
    MEMBER_INCLUDE_USAGE /* of stream_options */
};

#define NAME(text)                                                                                           \
    {                                                                                                        \
        "" text, sizeof(text) - 1                                                                            \
    }

struct name {
    struct wg_slice text;
    int meaning;
};

static const struct name top_names[] = {
    {NAME("model"), ROLE_MODEL},
    {NAME("stream"), ROLE_STREAM},
    {NAME("stream_options"), ROLE_STREAM_OPTIONS},
    {NAME("max_tokens"), ROLE_CAP},
    {NAME("max_completion_tokens"), ROLE_CAP},
    {NAME("max_output_tokens"), ROLE_CAP},
    {NAME("n"), ROLE_COPIES},
    {NAME("best_of"), ROLE_COPIES},
    {NAME("messages"), ROLE_TEXT},
    {NAME("system"), ROLE_TEXT},
    {NAME("instructions"), ROLE_TEXT},
    {NAME("documents"), ROLE_TEXT},
    {NAME("query"), ROLE_TEXT},
    {NAME("prompt"), ROLE_TOKENS},
    {NAME("input"), ROLE_TOKENS},
    {NAME("tools"), ROLE_TOOLS},
};

static const struct name part_names[] = {
    {NAME("type"), MEMBER_TYPE},        {NAME("url"), MEMBER_MEDIA},
    {NAME("data"), MEMBER_MEDIA},       {NAME("image"), MEMBER_MEDIA},
    {NAME("image_url"), MEMBER_MEDIA},  {NAME("image_data"), MEMBER_MEDIA},
    {NAME("audio"), MEMBER_MEDIA},      {NAME("audio_url"), MEMBER_MEDIA},
    {NAME("audio_data"), MEMBER_MEDIA}, {NAME("input_audio"), MEMBER_MEDIA},
    {NAME("video"), MEMBER_MEDIA},      {NAME("video_url"), MEMBER_MEDIA},
    {NAME("file_data"), MEMBER_MEDIA},  {NAME("file_url"), MEMBER_MEDIA},
    {NAME("file_id"), MEMBER_MEDIA},    {NAME("b64_json"), MEMBER_MEDIA},
};

/* Values of a content part's `type` that are counted as one media part. */
static const struct name media_types[] = {
    {NAME("image"), 1},       {NAME("image_url"), 1},   {NAME("input_image"), 1}, {NAME("audio"), 1},
    {NAME("audio_url"), 1},   {NAME("input_audio"), 1}, {NAME("video"), 1},       {NAME("video_url"), 1},
    {NAME("input_video"), 1}, {NAME("file"), 1},        {NAME("input_file"), 1},  {NAME("document"), 1},
};

struct key_set {
    unsigned count;
    uint64_t hashes[WG_SKIM_KEYS];
};

struct wg_skim {
    struct json_lex lex;
    struct wg_skim_result result;
    enum role role;
    enum member member;
    unsigned media_level; /* the open container that a media member holds; 0: none */
    uint64_t cap, copies;
    struct key_set keys, option_keys;
    char key[48]; /* the last key of the top level, for messages */
};

struct wg_skim *wg_skim_new(void)
{
    struct wg_skim *skim = WG_NEW(struct wg_skim);
    wg_skim_reset(skim);
    return skim;
}

struct wg_skim *wg_skim_free(struct wg_skim *skim)
{
    free(skim);
    return NULL;
}

void wg_skim_reset(struct wg_skim *skim)
{
    memset(&skim->lex, 0, sizeof(skim->lex));
    skim->result = (struct wg_skim_result){.object_empty = true};
    skim->role = ROLE_OTHER;
    skim->member = MEMBER_OTHER;
    skim->media_level = 0;
    skim->cap = 0;
    skim->copies = 1;
    skim->keys.count = skim->option_keys.count = 0;
}

static int meaning_of(const struct name *names, size_t count, const struct json_token *token)
{
    if (token->len > token->kept)
        return 0;
    struct wg_slice text = json_token_text(token);
    for (size_t i = 0; i < count; i++)
        if (wg_slice_eq(text, names[i].text))
            return names[i].meaning;
    return 0;
}

/* The start of a key as it may stand in a message: cut, without control characters. */
static void printable_key(const struct json_token *token, char out[static 48])
{
    struct wg_slice head = utf8_head(json_token_text(token), 47);
    memcpy(out, head.ptr, head.len);
    out[head.len] = '\0';
    for (char *c = out; c < out + head.len; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f || *c == '"')
            *c = '?';
}

/* Refuses a key that the same object has already: servers disagree about which of the two counts. */
static bool add_key(struct wg_skim *skim, struct key_set *set, unsigned max)
{
    const struct json_token *token = &skim->lex.token;
    if (token->len > token->kept) {
        json_lex_fail(&skim->lex, "the key at byte %" PRIu64 " is longer than %zu bytes", token->at,
                      token->kept);
        return false;
    }
    uint64_t hash = wg_hash(token->text, token->kept);
    for (unsigned i = 0; i < set->count; i++) {
        if (set->hashes[i] == hash) {
            char key[48];
            printable_key(token, key);
            json_lex_fail(&skim->lex, "duplicate key \"%s\" at byte %" PRIu64, key, token->at);
            return false;
        }
    }
    if (set->count == max) {
        json_lex_fail(&skim->lex, "more than %u keys in one object at byte %" PRIu64, max, token->at);
        return false;
    }
    set->hashes[set->count++] = hash;
    return true;
}

static bool holds_text(const struct wg_skim *skim)
{
    return skim->role >= ROLE_TEXT;
}

static void take_key(struct wg_skim *skim)
{
    const struct json_token *token = &skim->lex.token;
    skim->member = MEMBER_OTHER;
    if (skim->lex.depth == 1) {
        skim->result.object_empty = false;
        printable_key(token, skim->key);
        skim->role = (enum role)meaning_of(top_names, WG_COUNT_OF(top_names), token);
        (void)add_key(skim, &skim->keys, WG_SKIM_KEYS);
    } else if (skim->role == ROLE_STREAM_OPTIONS && skim->lex.depth == 2) {
        if (add_key(skim, &skim->option_keys, OPTION_KEYS) &&
            wg_slice_eq(json_token_text(token), WG_SLICE("include_usage")))
            skim->member = MEMBER_INCLUDE_USAGE;
    } else if (skim->role == ROLE_TEXT || skim->role == ROLE_TOKENS) {
        skim->member = (enum member)meaning_of(part_names, WG_COUNT_OF(part_names), token);
    }
}

static void wrong_value(struct wg_skim *skim, const char *must)
{
    json_lex_fail(&skim->lex, "\"%s\" must be %s; at byte %" PRIu64, skim->key, must, skim->lex.token.at);
}

static void take_model(struct wg_skim *skim, enum json_event event)
{
    const struct json_token *token = &skim->lex.token;
    struct wg_skim_result *result = &skim->result;
    if (event != JSON_STRING)
        wrong_value(skim, "a string");
    else if (token->len == 0 || token->len > WG_MODEL_NAME_MAX)
        wrong_value(skim, "a string of 1 to 256 bytes");
    else if (token->lone_surrogate || memchr(token->text, '\0', token->kept))
        wrong_value(skim, "a string without \\u0000 and lone surrogates");
    if (skim->lex.state == JSON_BROKEN)
        return;
    memcpy(result->model, token->text, token->kept);
    result->model[token->kept] = '\0';
    result->model_len = token->kept;
    result->model_at = token->at;
    result->model_size = json_lex_at(&skim->lex) - token->at;
    result->has_model = true;
}

/* Decimal digits, and perhaps a fraction of zeros (some languages write 16.0); not more than WG_TOKENS_MAX.
 */
static bool whole_number(const struct json_token *token, uint64_t *ret_value)
{
    struct wg_slice rest = json_token_text(token), whole = {0};
    (void)wg_slice_split(&rest, '.', &whole);
    for (size_t i = 0; i < rest.len; i++)
        if (rest.ptr[i] != '0')
            return false;
    uint64_t value = 0;
    if (token->len > token->kept || wg_slice_to_u64(whole, &value) < 0 || value > WG_TOKENS_MAX)
        return false;
    *ret_value = value;
    return true;
}

static void take_number(struct wg_skim *skim, enum json_event event)
{
    uint64_t value = 0;
    if (event == JSON_NULL)
        return;
    if (event != JSON_NUMBER || !whole_number(&skim->lex.token, &value)) {
        wrong_value(skim, "a whole number (0 to 9007199254740992)");
        return;
    }
    uint64_t *limit = skim->role == ROLE_CAP ? &skim->cap : &skim->copies;
    *limit = WG_MAX(*limit, value);
    skim->result.answer_cap = wg_tokens_product(skim->cap, skim->copies);
}

static void take_flag(struct wg_skim *skim, enum json_event event, const char *must, bool *ret_flag)
{
    if (event == JSON_TRUE || event == JSON_FALSE)
        *ret_flag = event == JSON_TRUE;
    else if (event != JSON_NULL)
        wrong_value(skim, must);
}

/* A null counts as there: whoever edits the options must replace it, a second key would be a duplicate. */
static void take_stream_options(struct wg_skim *skim, enum json_event event)
{
    struct wg_skim_result *result = &skim->result;
    if (event != JSON_OBJECT_BEGIN && event != JSON_NULL) {
        wrong_value(skim, "an object");
        return;
    }
    result->has_stream_options = true;
    result->stream_options_at = skim->lex.token.at;
    result->stream_options_size = event == JSON_NULL ? strlen("null") : 0;
}

static void take_top_value(struct wg_skim *skim, enum json_event event)
{
    switch (skim->role) {
    case ROLE_MODEL:
        take_model(skim, event);
        break;
    case ROLE_STREAM:
        take_flag(skim, event, "true or false", &skim->result.stream);
        break;
    case ROLE_STREAM_OPTIONS:
        take_stream_options(skim, event);
        break;
    case ROLE_CAP:
    case ROLE_COPIES:
        take_number(skim, event);
        break;
    default:
        break;
    }
}

/* "data:image/png;base64,…", but not prose that begins with "data:": no white space before the comma. */
static bool is_data_url(const struct json_token *token)
{
    struct wg_slice head = json_token_text(token);
    if (head.len < 5 || !wg_slice_eq_nocase(wg_slice(head.ptr, 5), WG_SLICE("data:")))
        return false;
    for (size_t i = 5; i < head.len; i++) {
        if (head.ptr[i] == ',')
            return true;
        if ((unsigned char)head.ptr[i] <= 0x20 || (unsigned char)head.ptr[i] >= 0x7f)
            return false;
    }
    return token->len > token->kept;
}

static void take_text(struct wg_skim *skim)
{
    const struct json_token *token = &skim->lex.token;
    if (skim->media_level > 0 || skim->member == MEMBER_MEDIA || is_data_url(token))
        return;
    skim->result.text_bytes += token->len;
    if (skim->member == MEMBER_TYPE && json_lex_is_array(&skim->lex, skim->lex.depth - 1) &&
        meaning_of(media_types, WG_COUNT_OF(media_types), token))
        skim->result.media_parts++;
}

/* In `[1, 2]` and `[[1, 2], [3]]`. */
static bool in_token_list(const struct wg_skim *skim)
{
    unsigned level = skim->lex.depth;
    return skim->role == ROLE_TOKENS && (level == 2 || level == 3) && json_lex_is_array(&skim->lex, 2) &&
           json_lex_is_array(&skim->lex, level);
}

/* A value begins (containers) or is complete (all else). */
static void take_value(struct wg_skim *skim, enum json_event event)
{
    bool container = event == JSON_OBJECT_BEGIN || event == JSON_ARRAY_BEGIN;
    unsigned level = skim->lex.depth - (container ? 1 : 0); /* of what holds the value; 0: it is the body */
    if (level == 1)
        take_top_value(skim, event);
    if (skim->member == MEMBER_INCLUDE_USAGE)
        take_flag(skim, event, "an object with include_usage true or false", &skim->result.include_usage);
    if (event == JSON_STRING && holds_text(skim))
        take_text(skim);
    if (event == JSON_NUMBER && in_token_list(skim))
        skim->result.number_tokens++;
    if (container && skim->member == MEMBER_MEDIA && skim->media_level == 0)
        skim->media_level = skim->lex.depth;
    skim->member = MEMBER_OTHER;
}

static void take_end(struct wg_skim *skim)
{
    struct wg_skim_result *result = &skim->result;
    if (skim->lex.depth < skim->media_level)
        skim->media_level = 0;
    if (skim->lex.depth == 1 && skim->role == ROLE_STREAM_OPTIONS)
        result->stream_options_size = json_lex_at(&skim->lex) - result->stream_options_at;
    if (skim->lex.depth == 0)
        result->object_end = skim->lex.token.at;
}

int wg_skim_feed(struct wg_skim *skim, const void *data, size_t len)
{
    if (skim->lex.state == JSON_BROKEN)
        return -EINVAL;
    if (len == 0)
        return 0;
    json_lex_input(&skim->lex, data, len);
    for (;;) {
        enum json_event event = json_lex_next(&skim->lex);
        if (event == JSON_MORE)
            return 0;
        if (event == JSON_KEY)
            take_key(skim);
        else if (event == JSON_OBJECT_END || event == JSON_ARRAY_END)
            take_end(skim);
        else if (event != JSON_ERROR)
            take_value(skim, event);
        if (skim->lex.state == JSON_BROKEN)
            return -EINVAL;
    }
}

int wg_skim_finish(struct wg_skim *skim)
{
    return json_lex_finish(&skim->lex) ? 0 : -EINVAL;
}

const struct wg_skim_result *wg_skim_result(const struct wg_skim *skim)
{
    return &skim->result;
}

const char *wg_skim_error(const struct wg_skim *skim)
{
    return skim->lex.error;
}
