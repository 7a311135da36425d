/* Convolutions of floats. The last loop runs over what lies closest together: columns of the kernel, or channels. */
#include "kernels.h"

static float clamped(float value, float lowest, float highest)
{
    return value < lowest ? lowest : value > highest ? highest : value;
}

/* The part of one output that one position of the kernel adds: all input channels of the group. */
static float products(const struct window *w, const float *input, const float *weight)
{
    float sum = 0;
    for (int32_t c = 0; c < w->inputs; c++)
        sum += input[c * w->input.channel] * weight[c * w->weight.input];
    return sum;
}

static void convolved_f32(const struct window *w, const float *input, const float *weight, const float *bias,
                          float *output, float lowest, float highest, meeting *meets)
{
    for (int32_t n = 0; n < w->batch; n++)
        for (int32_t o = 0; o < w->groups * w->outputs; o++) {
            int32_t group = o / w->outputs;
            const float *maps = input + n * w->input.batch + group * w->inputs * w->input.channel;
            const float *kernel = weight + group * w->weight.group + o % w->outputs * w->weight.output;
            float *map = output + n * w->output.batch + o * w->output.channel;
            for (int32_t y = 0; y < w->rows.output; y++)
                for (int32_t x = 0; x < w->columns.output; x++) {
                    float sum = 0;
                    for (int32_t i = 0; i < w->rows.kernel; i++)
                        for (int32_t j = 0; j < w->columns.kernel; j++) {
                            int32_t row = meets(&w->rows, y, i), column = meets(&w->columns, x, j);
                            if (row >= 0 && column >= 0)
                                sum += products(w, maps + row * w->input.row + column * w->input.column,
                                                kernel + i * w->weight.row + j * w->weight.column);
                        }
                    sum += bias ? bias[o] : 0;
                    map[y * w->output.row + x * w->output.column] = clamped(sum, lowest, highest);
                }
        }
}

void convolution_f32(const struct window *w, const float *input, const float *weight, const float *bias,
                     float *output, float lowest, float highest)
{
    convolved_f32(w, input, weight, bias, output, lowest, highest, met_by);
}

void transposed_convolution_f32(const struct window *w, const float *input, const float *weight,
                                const float *bias, float *output, float lowest, float highest)
{
    convolved_f32(w, input, weight, bias, output, lowest, highest, spread_from);
}
