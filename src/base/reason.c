/* The table of reasons, laid out for look-up. */
#include "wakegate/base/reason.h"

static const struct wg_reason_info reasons[WG_REASON_COUNT] = {
#define REASON_ROW(name_, status_, code_, type_, anthropic_, message_)                                       \
    [WG_REASON_##name_] = {.status = (status_),                                                              \
                           .code = (code_),                                                                  \
                           .type = (type_),                                                                  \
                           .anthropic = (anthropic_),                                                        \
                           .message = (message_)},
    WG_REASONS(REASON_ROW)
#undef REASON_ROW
};

const struct wg_reason_info *wg_reason_info(enum wg_reason reason)
{
    WG_ASSERT((unsigned)reason < WG_REASON_COUNT);
    return &reasons[reason];
}

const char *wg_outcome_label(int outcome)
{
    if (outcome == WG_OUTCOME_OK)
        return "ok";
    if (outcome == WG_OUTCOME_CLIENT_CLOSED)
        return "client_closed";
    WG_ASSERT(outcome >= 0 && outcome < WG_REASON_COUNT);
    return reasons[outcome].code;
}
