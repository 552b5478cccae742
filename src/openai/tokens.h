/* Counts of tokens that cannot overflow: all of them stop at WG_TOKENS_MAX. */
#pragma once

#include <stdint.h>

/* The largest whole number that every JSON reader agrees on; sums of a thousand of them still fit in 63 bits.
 */
#define WG_TOKENS_MAX (UINT64_C(1) << 53)

static inline uint64_t wg_tokens_product(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) || product > WG_TOKENS_MAX ? WG_TOKENS_MAX : product;
}

static inline uint64_t wg_tokens_sum(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) || sum > WG_TOKENS_MAX ? WG_TOKENS_MAX : sum;
}
