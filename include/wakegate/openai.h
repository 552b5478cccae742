/* What Wakegate knows of the inference API: reading requests as they arrive, the shape of errors, the probe's
 * prompt and answer. Pure functions and small state machines: no sockets, no clocks, no threads. */
#pragma once

#include "wakegate/base/buf.h"
#include "wakegate/base/reason.h"

/* ---- reading a JSON request body as it arrives (skim) ----
 * Constant memory whatever the body: no tree. Strict RFC 8259 syntax (UTF-8 checked, no BOM, nothing behind
 * the value but white space), nesting at most WG_SKIM_DEPTH, at most WG_SKIM_KEYS members at the top level,
 * none of them twice (escapes decoded before comparing), none twice in `stream_options` either; such keys are
 * at most 256 bytes long. Lone surrogates are let through but in `model`. A member of ours with a value of
 * the wrong type is an error too; null is as absent. */
enum { WG_SKIM_DEPTH = 200, WG_SKIM_KEYS = 256, WG_MODEL_NAME_MAX = 256 };

struct wg_skim;

struct wg_skim_result {
    bool has_model;
    char model[WG_MODEL_NAME_MAX + 1]; /* decoded, NUL-terminated, no NUL inside */
    size_t model_len;
    uint64_t model_at, model_size; /* the place of the value in the body, quotes included */
    bool stream;                   /* "stream": true */
    bool has_stream_options; /* an object or null: who wants other options replaces it, a second key would be
                                a duplicate */
    bool include_usage;
    uint64_t stream_options_at, stream_options_size;
    uint64_t text_bytes; /* contract, section 5: strings under messages, input, prompt, system, instructions,
                            tools, documents, query, without media fields and data: URLs; as UTF-8 bytes after
                            unescaping */
    uint64_t number_tokens; /* numbers in a pre-tokenised prompt or input, one each */
    uint64_t media_parts;   /* image, audio or file parts */
    uint64_t answer_cap;    /* max(max_tokens, max_completion_tokens, max_output_tokens) x max(n, best_of), at
                               most 2^53; 0: none named */
    uint64_t object_end;    /* place of the closing brace of the whole body */
    bool object_empty;      /* no member at all */
};

struct wg_skim *wg_skim_new(void);
struct wg_skim *wg_skim_free(struct wg_skim *skim);
/* Forgets everything, for reuse. */
void wg_skim_reset(struct wg_skim *skim);
/* 0, or -EINVAL: then wg_skim_error says what is wrong, and all later calls fail too. */
WG_MUST_CHECK int wg_skim_feed(struct wg_skim *skim, const void *data, size_t len);
/* The body is over: 0 if it was one whole JSON object, else -EINVAL. */
WG_MUST_CHECK int wg_skim_finish(struct wg_skim *skim);
/* Valid at any time; fields are what has been seen so far (the model's name early lets its limits apply
 * early). */
const struct wg_skim_result *wg_skim_result(const struct wg_skim *skim);
/* For the client: "duplicate key \"model\" at byte 52". "" when nothing is wrong. */
const char *wg_skim_error(const struct wg_skim *skim);

/* ---- reading a multipart/form-data body as it arrives: only its `model` field (and `stream`) ---- */
struct wg_multipart;
/* NULL if content_type is not multipart/form-data with a boundary of RFC 2046 (1 to 70 characters). */
struct wg_multipart *wg_multipart_new(struct wg_slice content_type);
struct wg_multipart *wg_multipart_free(struct wg_multipart *multipart);
WG_MUST_CHECK int wg_multipart_feed(struct wg_multipart *multipart, const void *data, size_t len);
WG_MUST_CHECK int wg_multipart_finish(struct wg_multipart *multipart);
/* model, model_at and model_size (the value's bytes), stream, media_parts (1 per file part), text_bytes of
 * other fields' values. */
const struct wg_skim_result *wg_multipart_result(const struct wg_multipart *multipart);
const char *wg_multipart_error(const struct wg_multipart *multipart);

/* Tokens by the contract's formula, ceil(text / 4) + numbers + per_image x media + answer; at most 2^53. */
uint64_t wg_tokens_estimate(const struct wg_skim_result *result, unsigned default_max_tokens,
                            unsigned per_image, bool answers /* false: embeddings, rerankers */);

/* ---- errors in the shapes that clients understand ---- */
enum wg_api { WG_API_OPENAI, WG_API_ANTHROPIC, WG_API_RESPONSES };
/* By path: /v1/messages is Anthropic's, /v1/responses has its own stream events, all else OpenAI's. */
enum wg_api wg_api_of_path(struct wg_slice path);
/* True for paths whose requests reserve an answer. */
bool wg_path_answers(struct wg_slice path);

/* Appends the body of an error answer. message NULL: the reason's own. param NULL: null. */
int wg_error_body(struct wg_buf *out, enum wg_api api, enum wg_reason reason, const char *message,
                  const char *param, struct wg_slice request_id);
/* Appends the same as one SSE event of a stream that has begun, in the path's shape, ended by a blank line.
 */
int wg_error_event(struct wg_buf *out, enum wg_api api, enum wg_reason reason, const char *message,
                   struct wg_slice request_id);
/* What keeps a held stream alive: ": keepalive\n", or the native ping event. */
struct wg_slice wg_heartbeat(enum wg_api api);

/* One entry of GET /v1/models (a JSON object). eta_seconds < 0: unknown (null). */
int wg_model_entry(struct wg_buf *out, struct wg_slice name, const char *state, long eta_seconds);

/* The message text of a model server's own error body, whatever its shape (error an object, a string, HTML):
 * at most `max` bytes, cleaned for a log line or a client. */
void wg_error_text(struct wg_slice body, size_t max, struct wg_buf *out);

/* ---- the probe ---- */
enum wg_prompt_kind { WG_PROMPT_CHAT, WG_PROMPT_COMPLETIONS, WG_PROMPT_EMBEDDINGS };
/* The JSON body of a tiny request: model, the prompt, max_tokens (not for embeddings), stream off. */
int wg_prompt_body(struct wg_buf *out, enum wg_prompt_kind kind, struct wg_slice model,
                   struct wg_slice prompt, unsigned max_tokens);
enum wg_prompt_verdict {
    WG_PROMPT_OK,
    WG_PROMPT_NOT_JSON,
    WG_PROMPT_ERROR_INSIDE, /* an `error` member, or an SSE error event */
    WG_PROMPT_NO_CHOICES /* no choice or embedding in it; reasoning-only and empty text with a choice count as
                            choices */
};
/* Judges the body of a 2xx, JSON or SSE. ret_text (may be NULL) gets the text of the answer (reasoning,
 * content, text of choices), as much as fits, for `expect`; or the error's. */
enum wg_prompt_verdict wg_prompt_judge(enum wg_prompt_kind kind, struct wg_slice body,
                                       struct wg_buf *ret_text);
