/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#pragma once

#include "wakegate/base/slice.h"

/* Where a sequence of several bytes stands, for text that comes in pieces. Zeroed: between two characters. */
struct utf8_partial {
    unsigned char need;      /* continuation bytes still to come */
    unsigned char low, high; /* what the next one may be */
};

/* False if `lead` (0x80 or above) begins no character. */
bool utf8_begin(struct utf8_partial *partial, unsigned char lead);
/* The next byte of a begun character (need > 0); false if it does not belong there. */
bool utf8_continue(struct utf8_partial *partial, unsigned char byte);

/* Length of the whole character of several bytes at p < end; 0 if it is ASCII, broken or not all there. */
static inline size_t utf8_sequence(const unsigned char *p, const unsigned char *end)
{
    size_t left = (size_t)(end - p);
    if (p[0] < 0xc2 || p[0] > 0xf4 || left < 2 || (p[1] & 0xc0) != 0x80)
        return 0;
    if (p[0] < 0xe0)
        return 2;
    if (left < 3 || (p[2] & 0xc0) != 0x80)
        return 0;
    if (p[0] < 0xf0) {
        bool overlong = p[0] == 0xe0 && p[1] < 0xa0;
        bool surrogate = p[0] == 0xed && p[1] >= 0xa0;
        return overlong || surrogate ? 0 : 3;
    }
    if (left < 4 || (p[3] & 0xc0) != 0x80)
        return 0;
    bool overlong = p[0] == 0xf0 && p[1] < 0x90;
    bool too_high = p[0] == 0xf4 && p[1] >= 0x90;
    return overlong || too_high ? 0 : 4;
}

/* Writes the character, surrogates too (as three bytes that no valid text has); returns its length. */
size_t utf8_encode(uint32_t code, char out[static 4]);

bool utf8_valid(struct wg_slice text);
/* The longest head of the text of at most `max` bytes that ends with a whole character. */
struct wg_slice utf8_head(struct wg_slice text, size_t max);
