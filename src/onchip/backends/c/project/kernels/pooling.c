/* Pools: a window over each map alone, so that `inputs` and `outputs` are 1 and `groups` are the channels. */
#include "kernels.h"

#include <math.h>

static float clamped(float value, float lowest, float highest)
{
    return value < lowest ? lowest : value > highest ? highest : value;
}

static int32_t clamped_s32(int32_t value, int32_t lowest, int32_t highest)
{
    return value < lowest ? lowest : value > highest ? highest : value;
}

/* Where the map of a channel, and its output at a place, begin. */
static int32_t input_at(const struct window *w, int32_t n, int32_t c)
{
    return n * w->input.batch + c * w->input.channel;
}

static int32_t output_at(const struct window *w, int32_t n, int32_t c, int32_t y, int32_t x)
{
    return n * w->output.batch + c * w->output.channel + y * w->output.row + x * w->output.column;
}

/* How many positions of the kernel lie on the map, or up to so many elements beside its ends. */
static int32_t counted(const struct axis *axis, int32_t output, int32_t before, int32_t behind)
{
    int32_t count = 0;
    for (int32_t k = 0; k < axis->kernel; k++) {
        int32_t at = output * axis->stride - axis->pad + k * axis->dilation;
        count += at >= -before && at < axis->input + behind;
    }
    return count;
}

void max_pool_f32(const struct window *w, const float *input, float *output, float lowest, float highest)
{
    for (int32_t n = 0; n < w->batch; n++)
        for (int32_t c = 0; c < w->groups; c++)
            for (int32_t y = 0; y < w->rows.output; y++)
                for (int32_t x = 0; x < w->columns.output; x++) {
                    float most = -INFINITY;
                    for (int32_t i = 0; i < w->rows.kernel; i++)
                        for (int32_t j = 0; j < w->columns.kernel; j++) {
                            int32_t row = met_by(&w->rows, y, i), column = met_by(&w->columns, x, j);
                            if (row >= 0 && column >= 0)
                                most = fmaxf(most, input[input_at(w, n, c) + row * w->input.row +
                                                         column * w->input.column]);
                        }
                    output[output_at(w, n, c, y, x)] = clamped(most, lowest, highest);
                }
}

void average_pool_f32(const struct window *w, const int32_t counted_beside[4], const float *input, float *output,
                      float lowest, float highest)
{
    for (int32_t n = 0; n < w->batch; n++)
        for (int32_t c = 0; c < w->groups; c++)
            for (int32_t y = 0; y < w->rows.output; y++)
                for (int32_t x = 0; x < w->columns.output; x++) {
                    float sum = 0;
                    for (int32_t i = 0; i < w->rows.kernel; i++)
                        for (int32_t j = 0; j < w->columns.kernel; j++) {
                            int32_t row = met_by(&w->rows, y, i), column = met_by(&w->columns, x, j);
                            if (row >= 0 && column >= 0)
                                sum += input[input_at(w, n, c) + row * w->input.row + column * w->input.column];
                        }
                    int32_t count = counted(&w->rows, y, counted_beside[0], counted_beside[1]) *
                                    counted(&w->columns, x, counted_beside[2], counted_beside[3]);
                    output[output_at(w, n, c, y, x)] = clamped(sum / (float)count, lowest, highest);
                }
}

void max_pool_s8(const struct window *w, const int8_t *input, int8_t *output, int32_t lowest, int32_t highest)
{
    for (int32_t n = 0; n < w->batch; n++)
        for (int32_t c = 0; c < w->groups; c++)
            for (int32_t y = 0; y < w->rows.output; y++)
                for (int32_t x = 0; x < w->columns.output; x++) {
                    int32_t most = INT8_MIN;
                    for (int32_t i = 0; i < w->rows.kernel; i++)
                        for (int32_t j = 0; j < w->columns.kernel; j++) {
                            int32_t row = met_by(&w->rows, y, i), column = met_by(&w->columns, x, j);
                            if (row < 0 || column < 0)
                                continue;
                            int32_t value = input[input_at(w, n, c) + row * w->input.row + column * w->input.column];
                            most = value > most ? value : most;
                        }
                    output[output_at(w, n, c, y, x)] = (int8_t)clamped_s32(most, lowest, highest);
                }
}

void average_pool_s8(const struct window *w, const int8_t *input, int8_t *output, int32_t lowest, int32_t highest)
{
    for (int32_t n = 0; n < w->batch; n++)
        for (int32_t c = 0; c < w->groups; c++)
            for (int32_t y = 0; y < w->rows.output; y++)
                for (int32_t x = 0; x < w->columns.output; x++) {
                    int32_t sum = 0;
                    for (int32_t i = 0; i < w->rows.kernel; i++)
                        for (int32_t j = 0; j < w->columns.kernel; j++) {
                            int32_t row = met_by(&w->rows, y, i), column = met_by(&w->columns, x, j);
                            if (row >= 0 && column >= 0)
                                sum += input[input_at(w, n, c) + row * w->input.row + column * w->input.column];
                        }
                    int32_t count = counted(&w->rows, y, 0, 0) * counted(&w->columns, x, 0, 0);
                    int32_t mean = (sum > 0 ? sum + count / 2 : sum - count / 2) / count;
                    output[output_at(w, n, c, y, x)] = (int8_t)clamped_s32(mean, lowest, highest);
                }
}
