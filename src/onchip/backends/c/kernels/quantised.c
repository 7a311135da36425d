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

void add_s8(const struct walk *walk, const struct sum_rescaling *by, const int8_t *left, const int8_t *right,
            int8_t *output)
{
    int32_t place[WALK_RANK] = {0}, at[WALK_OPERANDS] = {0}, unit = 1 << by->left_shift;
    do {
        int32_t first = rescaled(&by->left, (left[at[1]] - by->left.zero) * unit);
        int32_t second = rescaled(&by->right, (right[at[2]] - by->right.zero) * unit);
        int32_t sum = rescaled(&by->output, by->is_difference ? first - second : first + second);
        output[at[0]] = (int8_t)clamped(sum + by->output.zero, by->lowest, by->highest);
    } while (walk_on(walk, place, at));
}

void multiply_s8(const struct walk *walk, const struct product_rescaling *by, const int8_t *left, const int8_t *right,
                 int8_t *output)
{
    int32_t place[WALK_RANK] = {0}, at[WALK_OPERANDS] = {0};
    do {
        int32_t product = (left[at[1]] - by->left_zero) * (right[at[2]] - by->right_zero);
        int32_t value = rescaled(&by->output, product) + by->output.zero;
        output[at[0]] = (int8_t)clamped(value, by->lowest, by->highest);
    } while (walk_on(walk, place, at));
}

void extreme_s8(const struct walk *walk, int32_t is_maximum, const int8_t *left, const int8_t *right, int8_t *output)
{
    int32_t place[WALK_RANK] = {0}, at[WALK_OPERANDS] = {0};
    do {
        int8_t first = left[at[1]], second = right[at[2]];
        output[at[0]] = (first > second) == is_maximum ? first : second;
    } while (walk_on(walk, place, at));
}

void look_up_s8(int32_t count, const int8_t table[256], const int8_t *input, int8_t *output)
{
    for (int32_t k = 0; k < count; k++)
        output[k] = table[input[k] + 128];
}

void requantise_s8(int32_t count, int32_t input_zero, const struct rescaling *output_by, const int8_t *input,
                   int8_t *output)
{
    for (int32_t k = 0; k < count; k++) {
        int32_t value = rescaled(output_by, input[k] - input_zero) + output_by->zero;
        output[k] = (int8_t)clamped(value, INT8_MIN, INT8_MAX);
    }
}

void quantise_s8(int32_t count, float scale, int32_t zero, const float *input, int8_t *output)
{
    for (int32_t k = 0; k < count; k++) {
        float value = roundf(input[k] / scale) + (float)zero;
        output[k] = (int8_t)(value < INT8_MIN ? INT8_MIN : value > INT8_MAX ? INT8_MAX : value);
    }
}

void dequantise_s8(int32_t count, float scale, int32_t zero, const int8_t *input, float *output)
{
    for (int32_t k = 0; k < count; k++)
        output[k] = scale * (float)(input[k] - zero);
}

void mean_s8(const struct walk *kept, const struct walk *reduced, int32_t count, int32_t input_zero,
             const struct rescaling *output_by, const int8_t *input, int8_t *output)
{
    int32_t place[WALK_RANK] = {0}, at[WALK_OPERANDS] = {0};
    do {
        int32_t inner_place[WALK_RANK] = {0}, inner[WALK_OPERANDS] = {0}, sum = -input_zero * count;
        do
            sum += input[at[1] + inner[1]];
        while (walk_on(reduced, inner_place, inner));
        output[at[0]] = (int8_t)clamped(rescaled(output_by, sum) + output_by->zero, INT8_MIN, INT8_MAX);
    } while (walk_on(kept, place, at));
}
