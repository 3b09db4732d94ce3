/* Half-precision floats as bits, for compilers without the type. */
#ifndef LWT_HALF_H
#define LWT_HALF_H

#include <stdint.h>

typedef uint16_t lwt_half;

/* Bits to bits: __builtin_memcpy, since a call of memcpy would cost more than the conversion. */
static inline float lwt_of_bits(uint32_t bits)
{
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t lwt_to_bits(float x)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

#if defined(__F16C__) || (defined(__ARM_FP) && (__ARM_FP & 2) && defined(__ARM_FP16_FORMAT_IEEE))

static inline float lwt_widen(lwt_half half)
{
    _Float16 x;
    __builtin_memcpy(&x, &half, sizeof x);
    return (float)x;
}

static inline lwt_half lwt_narrow(float x)
{
    _Float16 narrow = (_Float16)(x > 65504 ? 65504 : x < -65504 ? -65504 : x);
    lwt_half half;
    __builtin_memcpy(&half, &narrow, sizeof half);
    return half;
}

#else /* the same values, to the bit */

static inline float lwt_widen(lwt_half half)
{
    float magnitude = lwt_of_bits((uint32_t)(half & 0x7fff) << 13) * 0x1p112f; /* mends the exponent, subnormals too */
    return half & 0x8000 ? -magnitude : magnitude;
}

static inline lwt_half lwt_narrow(float x)
{
    uint32_t bits = lwt_to_bits(x), sign = bits >> 16 & 0x8000;
    float magnitude = lwt_of_bits(bits & 0x7fffffff);
    if (magnitude > 65504)
        magnitude = 65504;
    if (magnitude < 0x1p-14f) /* a float of this exponent has the last bit where a subnormal half has it */
        return (lwt_half)(sign | (lwt_to_bits(magnitude + 0.5f) - lwt_to_bits(0.5f)));
    bits = lwt_to_bits(magnitude);
    bits += 0xfff + (bits >> 13 & 1); /* to nearest, ties to even */
    return (lwt_half)(sign | ((bits >> 13) - (112 << 10)));
}

#endif
#endif
