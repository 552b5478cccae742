/* The one table of reasons: why a request was not answered by its model. HTTP status, error code and type,
 * metric label and default message stand here and nowhere else. */
#pragma once

#include "wakegate/base/obj.h"

/* name, status, code and metric label, OpenAI's type, Anthropic's type, message */
#define WG_REASONS(X)                                                                                        \
    X(INVALID_API_KEY, 401, "invalid_api_key", "invalid_request_error", "authentication_error",              \
      "Incorrect or missing API key. Send it as `Authorization: Bearer KEY`, `x-api-key` or `api-key`.")     \
    X(MODEL_NOT_ALLOWED, 403, "model_not_allowed", "permission_error", "permission_error",                   \
      "This key may not use the model.")                                                                     \
    X(MODEL_NOT_FOUND, 404, "model_not_found", "invalid_request_error", "not_found_error",                   \
      "The model does not exist here. GET /v1/models lists those that do.")                                  \
    X(NOT_FOUND, 404, "not_found", "invalid_request_error", "not_found_error",                               \
      "Nothing is served on this path.")                                                                     \
    X(METHOD_NOT_ALLOWED, 405, "method_not_allowed", "invalid_request_error", "invalid_request_error",       \
      "This path does not take that method.")                                                                \
    X(INVALID_REQUEST, 400, "invalid_request", "invalid_request_error", "invalid_request_error",             \
      "The request could not be understood.")                                                                \
    X(HEADERS_TOO_LARGE, 431, "headers_too_large", "invalid_request_error", "invalid_request_error",         \
      "The request's headers are too large.")                                                                \
    X(BODY_TOO_LARGE, 413, "body_too_large", "invalid_request_error", "request_too_large",                   \
      "The request body is larger than the model allows.")                                                   \
    X(REQUEST_TIMEOUT, 408, "request_timeout", "invalid_request_error", "invalid_request_error",             \
      "The request arrived too slowly.")                                                                     \
    X(UNSUPPORTED_ENCODING, 415, "unsupported_encoding", "invalid_request_error", "invalid_request_error",   \
      "Send the body without Content-Encoding.")                                                             \
    X(RATE_LIMIT_REQUESTS, 429, "rate_limit_exceeded", "requests", "rate_limit_error",                       \
      "Too many requests per minute.")                                                                       \
    X(RATE_LIMIT_TOKENS, 429, "rate_limit_exceeded", "tokens", "rate_limit_error",                           \
      "Too many tokens per minute.")                                                                         \
    X(INSUFFICIENT_QUOTA, 429, "insufficient_quota", "insufficient_quota", "rate_limit_error",               \
      "The token budget is used up.")                                                                        \
    X(REQUEST_OVER_LIMIT, 429, "request_too_large_for_limit", "tokens", "rate_limit_error",                  \
      "This one request is larger than the whole limit.")                                                    \
    X(CONCURRENCY_LIMIT, 429, "concurrency_limit_exceeded", "requests", "rate_limit_error",                  \
      "Too many requests at the same time.")                                                                 \
    X(HELD_LIMIT, 429, "held_limit_exceeded", "requests", "rate_limit_error",                                \
      "Too many requests are waiting already.")                                                              \
    X(WAKE_LIMIT, 429, "wake_limit_exceeded", "requests", "rate_limit_error", "Too many cold starts.")       \
    X(MODEL_BUSY, 429, "model_busy", "requests", "rate_limit_error",                                         \
      "The model had no free slot in time. Try again shortly.")                                              \
    X(HOLD_FULL, 503, "hold_full", "server_error", "overloaded_error",                                       \
      "Too many requests are waiting for this model already. Try again shortly.")                            \
    X(MODEL_WAKE_TIMEOUT, 503, "model_wake_timeout", "server_error", "overloaded_error",                     \
      "The model did not start in time.")                                                                    \
    X(MODEL_WAKE_FAILED, 503, "model_wake_failed", "server_error", "api_error",                              \
      "The model could not be started.")                                                                     \
    X(MODEL_COLD, 503, "model_cold", "server_error", "overloaded_error",                                     \
      "The model is cold and starts later than the client is ready to wait.")                                \
    X(SHUTTING_DOWN, 503, "shutting_down", "server_error", "overloaded_error",                               \
      "The server is shutting down. Try again.")                                                             \
    X(UPSTREAM_ERROR, 502, "upstream_error", "server_error", "api_error",                                    \
      "The model server broke off or answered nonsense.")                                                    \
    X(UPSTREAM_TIMEOUT, 504, "upstream_timeout", "server_error", "timeout_error",                            \
      "The model server did not answer in time.")

enum wg_reason {
#define WG_REASON_ENUM(name, status, code, type, anthropic, message) WG_REASON_##name,
    WG_REASONS(WG_REASON_ENUM)
#undef WG_REASON_ENUM
        WG_REASON_COUNT
};

struct wg_reason_info {
    int status;            /* HTTP */
    const char *code;      /* `error.code`, and the outcome label of the metrics */
    const char *type;      /* `error.type` in OpenAI's shape */
    const char *anthropic; /* `error.type` in Anthropic's shape */
    const char *message;   /* what the client is told when nothing better is known */
};

const struct wg_reason_info *wg_reason_info(enum wg_reason reason);

/* How a request ended, for metrics and the access log: a reason, or one of these two. */
enum { WG_OUTCOME_OK = WG_REASON_COUNT, WG_OUTCOME_CLIENT_CLOSED, WG_OUTCOME_COUNT };
const char *wg_outcome_label(int outcome);
