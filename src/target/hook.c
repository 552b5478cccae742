/* Calls a hook until it is answered. URLs may carry secrets, so none is logged. */
#include "hook.h"

#include <stdlib.h>
#include <string.h>

#include "wakegate/base/log.h"

#define HOOK_MAGIC 0x400c0001

enum {
    ANSWER_MAX = 64 * 1024,
    TEXT_MAX = 200, /* of an answer, in a message */
};

static const wg_usec connect_timeout = 10 * WG_USEC_PER_SEC, timeout = 60 * WG_USEC_PER_SEC,
                     pause = WG_USEC_PER_SEC;

struct hook {
    uint32_t magic;
    struct wg_fetch *fetch;
    struct hook_order order;
    struct wg_fetch_call *call; /* NULL between two tries */
    struct wg_timer next;
    struct wg_loop *loop;
    unsigned tries;
    wg_usec deadline;
    char *why; /* the last try did not help; NULL before it */
};

static void try_now(struct wg_timer *timer);

static void free_hook(struct hook *hook)
{
    hook->magic = 0;
    free(hook->why);
    free(hook);
}

static void finish(struct hook *hook, const char *why)
{
    hook->order.done(hook->order.arg, why);
    free_hook(hook);
}

/* "answered 404: no such model" */
static char *words_of(const struct wg_fetch_answer *answer)
{
    char text[TEXT_MAX + 1];
    if (answer->result != WG_FETCH_DONE)
        return wg_xasprintf("failed: %s", answer->error);
    size_t n = WG_MIN(answer->body.len, (size_t)TEXT_MAX);
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)answer->body.ptr[i];
        text[i] = (char)(c < ' ' || c == 0x7f ? ' ' : c);
    }
    while (n > 0 && text[n - 1] == ' ')
        n--;
    text[n] = '\0';
    return wg_xasprintf("answered %ld%s%s", answer->status, n > 0 ? ": " : "", text);
}

/* No connection, no answer, or one that says "later". */
static bool may_help_to_repeat(const struct wg_fetch_answer *answer)
{
    if (answer->result == WG_FETCH_TOO_LARGE)
        return false;
    return answer->result != WG_FETCH_DONE || answer->status >= 500 || answer->status == 408 ||
           answer->status == 429;
}

static void on_answer(void *arg, const struct wg_fetch_answer *answer)
{
    struct hook *hook = WG_CAST(hook, arg, HOOK_MAGIC);
    const struct hook_order *order = &hook->order;
    hook->call = NULL;
    if (answer->result == WG_FETCH_DONE && answer->status >= 200 && answer->status < 300) {
        finish(hook, NULL);
        return;
    }
    WG_AUTO_FREE char *how = words_of(answer);
    free(hook->why);
    hook->why = wg_xasprintf("the %s %s", order->name, how);
    hook->tries++;
    if (!may_help_to_repeat(answer) || hook->tries == order->tries) {
        finish(hook, hook->why);
        return;
    }
    if ((hook->tries & (hook->tries - 1)) == 0) /* the 1st, 2nd, 4th, 8th … time */
        wg_warn("static", order->model, "%s; trying again", hook->why);
    if (order->trouble)
        order->trouble(order->arg, hook->why);
    wg_timer_set_after(&hook->next, pause);
}

static void try_now(struct wg_timer *timer)
{
    struct hook *hook = WG_CONTAINER_OF(timer, struct hook, next);
    const wg_usec left = hook->deadline - wg_loop_now(hook->loop);
    if (hook->why && left <= 0) {
        finish(hook, hook->why);
        return;
    }
    const struct wg_fetch_request request = {
        .method = hook->order.hook->method,
        .url = hook->order.hook->url,
        .connect_timeout = connect_timeout,
        .timeout = WG_MIN(timeout, WG_MAX(left, 1)),
        .max_answer = ANSWER_MAX,
        .fresh = true,
        .done = on_answer,
        .arg = hook,
    };
    hook->call = wg_fetch_start(hook->fetch, &request);
    if (!hook->call) {
        WG_AUTO_FREE char *why = wg_xasprintf("the %s has a URL that cannot be called", hook->order.name);
        finish(hook, why);
    }
}

void hook_renew(struct hook *hook)
{
    WG_CHECK_OBJ(hook, HOOK_MAGIC);
    hook->deadline = wg_usec_add(wg_loop_now(hook->loop), hook->order.patience);
}

struct hook *hook_call(struct wg_loop *loop, struct wg_fetch *fetch, const struct hook_order *order)
{
    struct hook *hook = WG_NEW(struct hook);
    hook->magic = HOOK_MAGIC;
    hook->fetch = fetch;
    hook->order = *order;
    hook->loop = loop;
    hook_renew(hook);
    wg_timer_init(&hook->next, loop, try_now);
    wg_timer_set_after(&hook->next, 0);
    return hook;
}

struct hook *hook_cancel(struct hook *hook)
{
    if (!hook)
        return NULL;
    WG_CHECK_OBJ(hook, HOOK_MAGIC);
    wg_fetch_cancel(hook->call);
    wg_timer_cancel(&hook->next);
    free_hook(hook);
    return NULL;
}
