/* TFLite's arithmetic of fixed-point numbers: a real factor is multiplier * 2^(shift - 31). */
#include "kernels.h"

/* The upper half of 2 * a * b, rounded, ties away from zero. */
int32_t upper_half(int32_t a, int32_t b)
{
    if (a == INT32_MIN && b == INT32_MIN)
        return INT32_MAX;
    int64_t product = (int64_t)a * b;
    int64_t half = product >= 0 ? 1 << 30 : 1 - (1 << 30);
    return (int32_t)((product + half) / ((int64_t)1 << 31));
}

/* value / 2^exponent, rounded, ties away from zero. */
int32_t divide_by_power(int32_t value, int32_t exponent)
{
    int64_t unit = (int64_t)1 << exponent;
    int64_t remainder = value & (unit - 1);
    int64_t half = (unit - 1) / 2 + (value < 0);
    return (int32_t)((value - remainder) / unit + (remainder > half));
}

int32_t rescale(int32_t value, int32_t multiplier, int32_t shift)
{
    int32_t raised = shift > 0 ? (int32_t)((int64_t)value * ((int64_t)1 << shift)) : value;
    return divide_by_power(upper_half(raised, multiplier), shift > 0 ? 0 : -shift);
}

int32_t rescale_s64(int64_t value, int32_t multiplier, int32_t shift)
{
    int64_t reduced = multiplier < 0x7FFF0000 ? (multiplier + (1 << 15)) >> 16 : 0x7FFF;
    int32_t total = 15 - shift;
    return (int32_t)((value * reduced + ((int64_t)1 << (total - 1))) >> total);
}
