/* Element-wise kernels, means and softmax of TFLite's integers. */
#include "kernels.h"

#include <math.h>

static int32_t clamped(int32_t value, int32_t lowest, int32_t highest)
{
    return value < lowest ? lowest : value > highest ? highest : value;
}

static int32_t rescaled(const struct rescaling *by, int32_t value)
{
    return rescale(value, by->multiplier, by->shift);
}

void KERNEL(add_s8)(const struct walk *walk, const struct sum_rescaling *by, IN(int8_t) left, IN(int8_t) right,
            OUT(int8_t) output)
{
    int32_t place[WALK_RANK] = {0}, at[WALK_OPERANDS] = {0}, unit = 1 << by->left_shift;
    do {
        int32_t first = rescaled(&by->left, (AT(int8_t, left, at[1]) - by->left.zero) * unit);
        int32_t second = rescaled(&by->right, (AT(int8_t, right, at[2]) - by->right.zero) * unit);
        int32_t sum = rescaled(&by->output, by->is_difference ? first - second : first + second);
        AT(int8_t, output, at[0]) = (int8_t)clamped(sum + by->output.zero, by->lowest, by->highest);
    } while (walk_on(walk, place, at));
}

void KERNEL(multiply_s8)(const struct walk *walk, const struct product_rescaling *by, IN(int8_t) left, IN(int8_t) right,
                 OUT(int8_t) output)
{
    int32_t place[WALK_RANK] = {0}, at[WALK_OPERANDS] = {0};
    do {
        int32_t product = (AT(int8_t, left, at[1]) - by->left_zero) * (AT(int8_t, right, at[2]) - by->right_zero);
        int32_t value = rescaled(&by->output, product) + by->output.zero;
        AT(int8_t, output, at[0]) = (int8_t)clamped(value, by->lowest, by->highest);
    } while (walk_on(walk, place, at));
}

void KERNEL(extreme_s8)(const struct walk *walk, int32_t is_maximum, IN(int8_t) left, IN(int8_t) right,
                        OUT(int8_t) output)
{
    int32_t place[WALK_RANK] = {0}, at[WALK_OPERANDS] = {0};
    do {
        int8_t first = AT(int8_t, left, at[1]), second = AT(int8_t, right, at[2]);
        AT(int8_t, output, at[0]) = (first > second) == is_maximum ? first : second;
    } while (walk_on(walk, place, at));
}

void KERNEL(look_up_s8)(int32_t count, const int8_t table[256], IN(int8_t) input, OUT(int8_t) output)
{
    for (int32_t k = 0; k < count; k++)
        AT(int8_t, output, k) = table[AT(int8_t, input, k) + 128];
}

void KERNEL(requantise_s8)(int32_t count, int32_t input_zero, const struct rescaling *output_by, IN(int8_t) input,
                   OUT(int8_t) output)
{
    for (int32_t k = 0; k < count; k++) {
        int32_t value = rescaled(output_by, AT(int8_t, input, k) - input_zero) + output_by->zero;
        AT(int8_t, output, k) = (int8_t)clamped(value, INT8_MIN, INT8_MAX);
    }
}

void KERNEL(quantise_s8)(int32_t count, float scale, int32_t zero, IN(float) input, OUT(int8_t) output)
{
    for (int32_t k = 0; k < count; k++) {
        float value = roundf(AT(float, input, k) / scale) + (float)zero;
        AT(int8_t, output, k) = (int8_t)(value < INT8_MIN ? INT8_MIN : value > INT8_MAX ? INT8_MAX : value);
    }
}

void KERNEL(dequantise_s8)(int32_t count, float scale, int32_t zero, IN(int8_t) input, OUT(float) output)
{
    for (int32_t k = 0; k < count; k++)
        AT(float, output, k) = scale * (float)(AT(int8_t, input, k) - zero);
}

void KERNEL(mean_s8)(const struct walk *kept, const struct walk *reduced, int32_t count, int32_t input_zero,
             const struct rescaling *output_by, IN(int8_t) input, OUT(int8_t) output)
{
    int32_t place[WALK_RANK] = {0}, at[WALK_OPERANDS] = {0};
    do {
        int32_t inner_place[WALK_RANK] = {0}, inner[WALK_OPERANDS] = {0}, sum = -input_zero * count;
        do
            sum += AT(int8_t, input, at[1] + inner[1]);
        while (walk_on(reduced, inner_place, inner));
        AT(int8_t, output, at[0]) = (int8_t)clamped(rescaled(output_by, sum) + output_by->zero, INT8_MIN, INT8_MAX);
    } while (walk_on(kept, place, at));
}
