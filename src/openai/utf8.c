/* UTF-8, checked byte by byte where text is split, in whole characters where it is not. */
#include "utf8.h"

bool utf8_begin(struct utf8_partial *partial, unsigned char lead)
{
    if (lead < 0xc2 || lead > 0xf4)
        return false;
    partial->need = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    partial->low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    partial->high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    return true;
}

bool utf8_continue(struct utf8_partial *partial, unsigned char byte)
{
    WG_ASSERT(partial->need > 0);
    if (byte < partial->low || byte > partial->high)
        return false;
    partial->need--;
    partial->low = 0x80;
    partial->high = 0xbf;
    return true;
}

size_t utf8_encode(uint32_t code, char out[static 4])
{
    WG_ASSERT(code <= 0x10ffff);
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

bool utf8_valid(struct wg_slice text)
{
    const unsigned char *p = (const unsigned char *)text.ptr, *end = p + text.len;
    while (p < end) {
        size_t len = *p < 0x80 ? 1 : utf8_sequence(p, end);
        if (len == 0)
            return false;
        p += len;
    }
    return true;
}

struct wg_slice utf8_head(struct wg_slice text, size_t max)
{
    if (text.len <= max)
        return text;
    size_t len = max;
    while (len > 0 && max - len < 3 && ((unsigned char)text.ptr[len] & 0xc0) == 0x80)
        len--;
    return wg_slice(text.ptr, len);
}
