/* How fast a request is skimmed: megabytes a second over bodies of one MiB, by the kind of text in them.
 * Fed in pieces of 16 KiB, as they come from a connection. */
#include <stdio.h>
#include <stdlib.h>

#include "wakegate/base/clock.h"
#include "wakegate/openai.h"

enum { BODY = 1024 * 1024, PIECE = 16 * 1024 };

static const struct {
    const char *name, *head, *filler, *tail;
} kinds[] = {
    {"ascii text", "{\"model\":\"m\",\"prompt\":\"", "The quick brown fox jumps over the lazy dog. ", "\"}"},
    {"text with escapes", "{\"model\":\"m\",\"prompt\":\"",
     "static int main(void)\\n{\\n\\tputs(\\\"hello, world\\\");\\n}\\n", "\"}"},
    {"chinese text", "{\"model\":\"m\",\"prompt\":\"", "\xe4\xbd\xa0\xe5\xa5\xbd\xe4\xb8\x96\xe7\x95\x8c",
     "\"}"},
    {"escaped unicode", "{\"model\":\"m\",\"prompt\":\"", "\\u4f60\\u597d", "\"}"},
    {"token numbers", "{\"model\":\"m\",\"prompt\":[1", ",12345", "]}"},
    {"short messages", "{\"model\":\"m\",\"messages\":[{}",
     ",{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Hello there.\"}]}", "]}"},
};

static void bench(size_t kind)
{
    struct wg_buf body = WG_BUF_INIT(2 * (size_t)BODY);
    (void)wg_buf_add_str(&body, kinds[kind].head);
    while (body.len < BODY)
        (void)wg_buf_add_str(&body, kinds[kind].filler);
    (void)wg_buf_add_str(&body, kinds[kind].tail);

    struct wg_skim *skim = wg_skim_new();
    wg_usec start = wg_clock_monotonic(), spent = 0;
    unsigned rounds = 0;
    int r = 0;
    for (; spent < WG_USEC_PER_SEC / 2 && r == 0; rounds++, spent = wg_clock_monotonic() - start) {
        wg_skim_reset(skim);
        for (size_t at = 0; at < body.len && r == 0; at += PIECE)
            r = wg_skim_feed(skim, body.data + at, WG_MIN((size_t)PIECE, body.len - at));
        if (r == 0)
            r = wg_skim_finish(skim);
    }
    if (r < 0)
        printf("%-18s %s\n", kinds[kind].name, wg_skim_error(skim));
    else
        printf("%-18s %6.0f MB/s\n", kinds[kind].name, (double)body.len * rounds / (double)spent);
    wg_skim_free(skim);
    wg_buf_clear(&body);
}

int main(void)
{
    for (size_t kind = 0; kind < WG_COUNT_OF(kinds); kind++)
        bench(kind);
    return EXIT_SUCCESS;
}
