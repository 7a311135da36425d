/* Pools: a window over each map, so that `inputs` and `outputs` are 1 and `groups` are the channels. */
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

/* Loops over all outputs, and over the positions of the kernel. */
#define OVER_OUTPUTS(w)                                                                                                \
    for (int32_t n = 0; n < (w)->batch; n++)                                                                           \
        for (int32_t c = 0; c < (w)->groups; c++)                                                                      \
            for (int32_t y = 0; y < (w)->rows.output; y++)                                                             \
                for (int32_t x = 0; x < (w)->columns.output; x++)
#define OVER_KERNEL(w)                                                                                                 \
    for (int32_t i = 0; i < (w)->rows.kernel; i++)                                                                     \
        for (int32_t j = 0; j < (w)->columns.kernel; j++)

/* The offset of channel c in the input. */
static int32_t map_at(const struct window *w, int32_t n, int32_t c)
{
    return n * w->input.batch + c * w->input.channel;
}

/* The offset within a map of the input that position (i, j) of the kernel meets, or -1 outside the map. */
static int32_t met_at(const struct window *w, int32_t y, int32_t x, int32_t i, int32_t j)
{
    int32_t row = met_by(&w->rows, y, i), column = met_by(&w->columns, x, j);
    return row < 0 || column < 0 ? -1 : row * w->input.row + column * w->input.column;
}

static int32_t output_at(const struct window *w, int32_t n, int32_t c, int32_t y, int32_t x)
{
    return n * w->output.batch + c * w->output.channel + y * w->output.row + x * w->output.column;
}

/* Number of positions of the kernel on the map, or up to `before` and `behind` elements outside its ends. */
static int32_t counted(const struct axis *axis, int32_t output, int32_t before, int32_t behind)
{
    int32_t count = 0;
    for (int32_t k = 0; k < axis->kernel; k++) {
        int32_t at = output * axis->stride - axis->pad + k * axis->dilation;
        count += at >= -before && at < axis->input + behind;
    }
    return count;
}

void KERNEL(max_pool_f32)(const struct window *w, IN(float) input, OUT(float) output, float lowest, float highest)
{
    OVER_OUTPUTS(w) {
        float most = -INFINITY;
        OVER_KERNEL(w) {
            int32_t at = met_at(w, y, x, i, j);
            if (at >= 0)
                most = fmaxf(most, AT(float, input, map_at(w, n, c) + at));
        }
        AT(float, output, output_at(w, n, c, y, x)) = clamped(most, lowest, highest);
    }
}

void KERNEL(average_pool_f32)(const struct window *w, const int32_t margin[4], IN(float) input, OUT(float) output,
                      float lowest, float highest)
{
    OVER_OUTPUTS(w) {
        float sum = 0;
        OVER_KERNEL(w) {
            int32_t at = met_at(w, y, x, i, j);
            sum += at < 0 ? 0 : AT(float, input, map_at(w, n, c) + at);
        }
        int32_t count = counted(&w->rows, y, margin[0], margin[1]) * counted(&w->columns, x, margin[2], margin[3]);
        AT(float, output, output_at(w, n, c, y, x)) = clamped(sum / (float)count, lowest, highest);
    }
}

void KERNEL(max_pool_s8)(const struct window *w, IN(int8_t) input, OUT(int8_t) output, int32_t lowest,
                             int32_t highest)
{
    OVER_OUTPUTS(w) {
        int32_t most = INT8_MIN;
        OVER_KERNEL(w) {
            int32_t at = met_at(w, y, x, i, j), value = at < 0 ? INT8_MIN : AT(int8_t, input, map_at(w, n, c) + at);
            most = value > most ? value : most;
        }
        AT(int8_t, output, output_at(w, n, c, y, x)) = (int8_t)clamped_s32(most, lowest, highest);
    }
}

void KERNEL(average_pool_s8)(const struct window *w, IN(int8_t) input, OUT(int8_t) output, int32_t lowest,
                             int32_t highest)
{
    OVER_OUTPUTS(w) {
        int32_t sum = 0;
        OVER_KERNEL(w) {
            int32_t at = met_at(w, y, x, i, j);
            sum += at < 0 ? 0 : AT(int8_t, input, map_at(w, n, c) + at);
        }
        int32_t count = counted(&w->rows, y, 0, 0) * counted(&w->columns, x, 0, 0);
        int32_t mean = (sum > 0 ? sum + count / 2 : sum - count / 2) / count;
        AT(int8_t, output, output_at(w, n, c, y, x)) = (int8_t)clamped_s32(mean, lowest, highest);
    }
}
