/* What the cheap tricks of an HTTP/2 client cost it, and the bucket that pays for them: as deep as a clumsy
 * client may need, refilled slower than any flood. */
#include "glitch.h"

enum { UPDATES_START = 64, UPDATES_EARNED = 2, UPDATES_MAX = 64 * 1024 };
static const wg_usec usec_per_glitch = WG_USEC_PER_SEC / GLITCH_PER_SECOND;

static const uint8_t costs[GLITCH_KINDS] = {
    [GLITCH_RESET] = 1,       [GLITCH_PROVOKED_RESET] = 2,   [GLITCH_SETTINGS] = 2,
    [GLITCH_PING] = 1,        [GLITCH_WINDOW_UPDATE] = 1,    [GLITCH_EMPTY_FRAME] = 1,
    [GLITCH_OTHER_FRAME] = 1, [GLITCH_HEADER_OVERFLOW] = 20, [GLITCH_EXTRA_FIELDS] = 1,
};

void glitch_init(struct glitch *glitch, wg_usec now)
{
    *glitch = (struct glitch){.at = now, .left = GLITCH_BURST, .updates = UPDATES_START};
}

/* Whole ones only, and `at` moves by what they took: nothing is lost to rounding. */
static void refill(struct glitch *glitch, wg_usec now)
{
    const wg_usec due = (now - glitch->at) / usec_per_glitch;
    if (due >= GLITCH_BURST - (wg_usec)glitch->left) {
        glitch->left = GLITCH_BURST;
        glitch->at = now;
    } else if (due > 0) {
        glitch->left += (uint32_t)due;
        glitch->at += due * usec_per_glitch;
    }
}

bool glitch_take(struct glitch *glitch, wg_usec now, enum glitch_kind kind)
{
    WG_ASSERT(kind < GLITCH_KINDS);
    refill(glitch, now);
    const bool enough = glitch->left >= costs[kind];
    glitch->left = enough ? glitch->left - costs[kind] : 0;
    return enough;
}

void glitch_give(struct glitch *glitch)
{
    if (glitch->left < GLITCH_BURST)
        glitch->left++;
}

void glitch_allow_updates(struct glitch *glitch)
{
    glitch->updates = WG_MIN(glitch->updates + UPDATES_EARNED, (uint32_t)UPDATES_MAX);
}

bool glitch_use_update(struct glitch *glitch)
{
    if (glitch->updates == 0)
        return false;
    glitch->updates--;
    return true;
}
