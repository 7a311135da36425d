/* TFLite's softmax of integers. Fixed-point numbers are named by the bits before their point: q0 has 31 behind it. */
#include "kernels.h"

enum { SUM_INTEGER_BITS = 12, ITERATIONS = 3 };

/* value * 2^bits, or the nearest number there is. */
static int32_t raised(int32_t value, int32_t bits)
{
    int64_t product = (int64_t)value * ((int64_t)1 << bits);
    return (int32_t)(product > INT32_MAX ? INT32_MAX : product < INT32_MIN ? INT32_MIN : product);
}

/* 1 / (1 + value) for a q0 in [0, 1), by Newton's method from 48/17 - 32/17 d, where d is half of 1 + value. */
static int32_t reciprocal_of_one_and(int32_t value)
{
    int32_t half = (int32_t)(((int64_t)value + INT32_MAX + 1) / 2);
    int32_t estimate = 1515870810 + upper_half(half, -1010580540); /* q2 */
    for (int k = 0; k < ITERATIONS; k++) {
        int32_t error = (1 << 29) - upper_half(half, estimate); /* q2 */
        estimate += raised(upper_half(estimate, error), 2);
    }
    return raised(estimate, 1);
}

void KERNEL(softmax_s8)(int32_t rows, int32_t size, const int32_t exponentials[256], IN(int8_t) input,
                        OUT(int8_t) output)
{
    for (int32_t first = 0; first < rows * size; first += size) {
        int32_t most = INT8_MIN, sum = 0, leading = 0;
        for (int32_t k = 0; k < size; k++)
            most = AT(int8_t, input, first + k) > most ? AT(int8_t, input, first + k) : most;
        for (int32_t k = 0; k < size; k++)
            sum += divide_by_power(exponentials[most - AT(int8_t, input, first + k)], SUM_INTEGER_BITS); /* q12 */
        while (leading < 31 && !((uint32_t)sum << leading & UINT32_C(0x80000000)))
            leading++;
        int32_t scale = reciprocal_of_one_and((int32_t)(((uint32_t)sum << leading) - UINT32_C(0x80000000)));
        int32_t exponent = SUM_INTEGER_BITS - leading + 31 - 8;
        for (int32_t k = 0; k < size; k++) {
            int32_t share = upper_half(scale, exponentials[most - AT(int8_t, input, first + k)]);
            share = divide_by_power(share, exponent) + INT8_MIN;
            AT(int8_t, output, first + k) = (int8_t)(share > INT8_MAX ? INT8_MAX : share);
        }
    }
}
