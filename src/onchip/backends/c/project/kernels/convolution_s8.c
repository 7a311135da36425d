/* Convolutions of integers: sums are exact, and then rescaled to the output's integers, one factor a channel. */
#include "kernels.h"

static int32_t clamped(int32_t value, int32_t lowest, int32_t highest)
{
    return value < lowest ? lowest : value > highest ? highest : value;
}

/* The output of channel `o` for a sum. */
static int32_t requantised_s32(const struct requantisation *by, int32_t o, int32_t sum)
{
    int32_t k = by->every_channel ? o : 0;
    return clamped(rescale(sum, by->multiplier[k], by->shift[k]) + by->output_zero, by->lowest, by->highest);
}

static int32_t requantised_s64(const struct requantisation *by, int32_t o, int64_t sum)
{
    int32_t k = by->every_channel ? o : 0;
    return clamped(rescale_s64(sum, by->multiplier[k], by->shift[k]) + by->output_zero, by->lowest, by->highest);
}

static void convolved_s8(const struct window *w, const struct requantisation *by, const int8_t *input,
                         const int8_t *weight, const int32_t *bias, int8_t *output, meeting *meets)
{
    for (int32_t n = 0; n < w->batch; n++)
        for (int32_t o = 0; o < w->groups * w->outputs; o++) {
            int32_t group = o / w->outputs;
            const int8_t *maps = input + n * w->input.batch + group * w->inputs * w->input.channel;
            const int8_t *kernel = weight + group * w->weight.group + o % w->outputs * w->weight.output;
            int8_t *map = output + n * w->output.batch + o * w->output.channel;
            for (int32_t y = 0; y < w->rows.output; y++)
                for (int32_t x = 0; x < w->columns.output; x++) {
                    int32_t sum = bias ? bias[o] : 0;
                    for (int32_t i = 0; i < w->rows.kernel; i++)
                        for (int32_t j = 0; j < w->columns.kernel; j++) {
                            int32_t row = meets(&w->rows, y, i), column = meets(&w->columns, x, j);
                            if (row < 0 || column < 0)
                                continue;
                            const int8_t *met = maps + row * w->input.row + column * w->input.column;
                            const int8_t *factor = kernel + i * w->weight.row + j * w->weight.column;
                            for (int32_t c = 0; c < w->inputs; c++)
                                sum += (met[c * w->input.channel] - by->input_zero) *
                                       (factor[c * w->weight.input] - by->weight_zero);
                        }
                    map[y * w->output.row + x * w->output.column] = (int8_t)requantised_s32(by, o, sum);
                }
        }
}

void convolution_s8(const struct window *w, const struct requantisation *by, const int8_t *input,
                    const int8_t *weight, const int32_t *bias, int8_t *output)
{
    convolved_s8(w, by, input, weight, bias, output, met_by);
}

void transposed_convolution_s8(const struct window *w, const struct requantisation *by, const int8_t *input,
                               const int8_t *weight, const int32_t *bias, int8_t *output)
{
    convolved_s8(w, by, input, weight, bias, output, spread_from);
}

static void convolved_s16(const struct window *w, const struct requantisation *by, const int16_t *input,
                          const int8_t *weight, const int64_t *bias, int16_t *output, meeting *meets)
{
    for (int32_t n = 0; n < w->batch; n++)
        for (int32_t o = 0; o < w->groups * w->outputs; o++) {
            int32_t group = o / w->outputs;
            const int16_t *maps = input + n * w->input.batch + group * w->inputs * w->input.channel;
            const int8_t *kernel = weight + group * w->weight.group + o % w->outputs * w->weight.output;
            int16_t *map = output + n * w->output.batch + o * w->output.channel;
            for (int32_t y = 0; y < w->rows.output; y++)
                for (int32_t x = 0; x < w->columns.output; x++) {
                    int64_t sum = bias ? bias[o] : 0;
                    for (int32_t i = 0; i < w->rows.kernel; i++)
                        for (int32_t j = 0; j < w->columns.kernel; j++) {
                            int32_t row = meets(&w->rows, y, i), column = meets(&w->columns, x, j);
                            if (row < 0 || column < 0)
                                continue;
                            const int16_t *met = maps + row * w->input.row + column * w->input.column;
                            const int8_t *factor = kernel + i * w->weight.row + j * w->weight.column;
                            for (int32_t c = 0; c < w->inputs; c++)
                                sum += (met[c * w->input.channel] - by->input_zero) *
                                       (factor[c * w->weight.input] - by->weight_zero);
                        }
                    map[y * w->output.row + x * w->output.column] = (int16_t)requantised_s64(by, o, sum);
                }
        }
}

void convolution_s16(const struct window *w, const struct requantisation *by, const int16_t *input,
                     const int8_t *weight, const int64_t *bias, int16_t *output)
{
    convolved_s16(w, by, input, weight, bias, output, met_by);
}

void transposed_convolution_s16(const struct window *w, const struct requantisation *by, const int16_t *input,
                                const int8_t *weight, const int64_t *bias, int16_t *output)
{
    convolved_s16(w, by, input, weight, bias, output, spread_from);
}
