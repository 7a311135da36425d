/* The kernels of a network in plain C11. Sizes and steps are in elements unless a name says bytes.

   Operands never overlap, but for those that an element-wise kernel overwrites where it has read them. */
#ifndef ONCHIP_KERNELS_H
#define ONCHIP_KERNELS_H

#include <stdint.h>

enum { WALK_RANK = 8, WALK_OPERANDS = 3 };

/* A walk over an array of `sizes`: a step along an axis takes operand k `steps[k]` further, 0 where it is repeated.
   The operands are what is written, then what is read. */
struct walk {
    int32_t rank;
    int32_t sizes[WALK_RANK];
    int32_t steps[WALK_OPERANDS][WALK_RANK];
};

/* The next place of a walk; begins with all zeros, and returns 0 behind the last. */
int walk_on(const struct walk *walk, int32_t place[WALK_RANK], int32_t at[WALK_OPERANDS]);

/* A window along one axis: `kernel` elements `dilation` apart, moved by `stride`, the first `pad` before the edge. */
struct axis {
    int32_t input, output, kernel, stride, dilation, pad;
};

/* How far apart neighbours lie in a batch of maps. */
struct map_steps {
    int32_t batch, channel, row, column;
};

/* How far apart neighbours lie in a weight; `output` and `input` are channels of one group. */
struct weight_steps {
    int32_t group, output, input, row, column;
};

/* A window over a batch of maps of `groups * inputs` channels, which makes maps of `groups * outputs`. */
struct window {
    int32_t batch, groups, inputs, outputs;
    struct axis rows, columns;
    struct map_steps input, output;
    struct weight_steps weight;
};

/* The input that position k of the kernel meets at an output, or -1 beside the map. */
static inline int32_t met_by(const struct axis *axis, int32_t output, int32_t k)
{
    int32_t at = output * axis->stride - axis->pad + k * axis->dilation;
    return at < axis->input ? at : -1;
}

/* The input that position k of the kernel spreads onto an output, or -1. */
static inline int32_t spread_from(const struct axis *axis, int32_t output, int32_t k)
{
    int32_t at = output + axis->pad - k * axis->dilation;
    return at < 0 || at % axis->stride || at / axis->stride >= axis->input ? -1 : at / axis->stride;
}

/* Which input position k of the kernel has to do with at an output, or -1: one of the two above. */
typedef int32_t meeting(const struct axis *axis, int32_t output, int32_t k);

/* convolution.c: the bias may be null; outputs are clamped to [lowest, highest]. */
void convolution_f32(const struct window *window, const float *input, const float *weight, const float *bias,
                     float *output, float lowest, float highest);
void transposed_convolution_f32(const struct window *window, const float *input, const float *weight,
                                const float *bias, float *output, float lowest, float highest);

/* pooling.c */
void max_pool_f32(const struct window *window, const float *input, float *output, float lowest, float highest);
void max_pool_s8(const struct window *window, const int8_t *input, int8_t *output, int32_t lowest, int32_t highest);
/* Divides by the elements of the window on the map and in its margin: above, below, left, right. */
void average_pool_f32(const struct window *window, const int32_t margin[4], const float *input,
                      float *output, float lowest, float highest);
void average_pool_s8(const struct window *window, const int8_t *input, int8_t *output, int32_t lowest,
                     int32_t highest);

/* product.c: for each place of the batch, rows times columns; the output's rows are dense. */
struct product {
    struct walk batch; /* of output, left, right */
    int32_t rows, inner, columns;
    int32_t left_row, left_inner, right_inner, right_column;
};
void product_f32(const struct product *product, const float *left, const float *right, float *output);

/* elementwise.c */
enum unary {
    UNARY_ABS, UNARY_ATAN, UNARY_CEIL, UNARY_CLAMP, UNARY_COS, UNARY_ELU, UNARY_ERF, UNARY_EXP, UNARY_FLOOR,
    UNARY_GELU, UNARY_GELU_TANH, UNARY_HARD_SIGMOID, UNARY_HARD_SWISH, UNARY_LEAKY_RELU, UNARY_LOG, UNARY_MISH,
    UNARY_NEGATE, UNARY_RECIPROCAL, UNARY_RELU, UNARY_ROUND, UNARY_RSQRT, UNARY_SELU, UNARY_SIGMOID, UNARY_SIGN,
    UNARY_SILU, UNARY_SIN, UNARY_SOFTPLUS, UNARY_SOFTSIGN, UNARY_SQRT, UNARY_SQUARE, UNARY_TANH
};
enum binary {
    BINARY_ADD, BINARY_DIVIDE, BINARY_MAXIMUM, BINARY_MINIMUM, BINARY_MULTIPLY, BINARY_POWER, BINARY_PRELU,
    BINARY_SQUARED_DIFFERENCE, BINARY_SUBTRACT
};
/* `a` and `b` are the operation's own: the ends of a clamp, a slope, alpha and beta. */
void unary_f32(enum unary operation, int32_t count, float a, float b, const float *input, float *output);
void binary_f32(enum binary operation, const struct walk *walk, const float *left, const float *right, float *output);

/* normalisation.c: an array of outer x size x inner elements, normalised along the middle. */
struct slices {
    int32_t outer, size, inner;
};
void softmax_f32(const struct slices *slices, float beta, const float *input, float *output);
void log_softmax_f32(const struct slices *slices, const float *input, float *output);
/* Scale and shift lie along the middle; null is 1 or 0. */
void batch_norm_f32(const struct slices *slices, float epsilon, const float *scale, const float *shift,
                    const float *mean, const float *variance, const float *input, float *output);
/* Each of `outer` slices of size elements to mean 0 and variance 1; then scale and shift: element i of a slice has
   entry (i / every) % entries, of slice number s behind s % groups * entries of them. */
struct affine {
    int32_t entries, every, groups;
};
void layer_norm_f32(int32_t outer, int32_t size, float epsilon, const struct affine *affine, const float *scale,
                    const float *shift, const float *input, float *output);
void local_response_f32(const struct slices *slices, int32_t window, float alpha, float beta, float bias,
                        const float *input, float *output);
void l2_norm_f32(const struct slices *slices, float epsilon, const float *input, float *output);

/* reduction.c: for each place of `kept` (of output, input) all places of `reduced` (of input alone, operand 1). */
enum reduction { REDUCE_L2, REDUCE_MAXIMUM, REDUCE_MEAN, REDUCE_MINIMUM, REDUCE_SUM };
void reduce_f32(enum reduction operation, const struct walk *kept, const struct walk *reduced, const float *input,
                float *output);

/* movement.c: bytes that move and do not change; a walk's steps are in bytes. */
void move(const struct walk *walk, int32_t run_bytes, const void *input, void *output);
void fill(int32_t count, int32_t element_bytes, const void *element, void *output);
/* For each of `outer` blocks of `size` rows, the rows of these indices, a negative one counted from the end. */
void gather_i64(int32_t outer, int32_t size, int32_t row_bytes, int32_t count, const int64_t *indices,
                const void *input, void *output);
void gather_i32(int32_t outer, int32_t size, int32_t row_bytes, int32_t count, const int32_t *indices,
                const void *input, void *output);
/* Each row and column of the output is a sum of two of the input: `second` with its share, the first with the rest. */
struct resampling {
    int32_t maps, input_rows, input_columns, output_rows, output_columns, channels;
    const int32_t *first_row, *second_row, *first_column, *second_column;
    const float *row_share, *column_share;
};
void resample_f32(const struct resampling *resampling, const float *input, float *output);

/* rescaling.c, convolution.c, quantised.c, softmax_s8.c: TFLite's arithmetic: real numbers are scale * (integer - zero). */

/* value * multiplier * 2^(shift - 31), rounded as TFLite does. */
int32_t rescale(int32_t value, int32_t multiplier, int32_t shift);
/* 2 * a * b / 2^32, and value / 2^exponent: rounded, ties away from zero. */
int32_t upper_half(int32_t a, int32_t b);
int32_t divide_by_power(int32_t value, int32_t exponent);
/* rescale of a sum of 64 bits, with 16 bits of the multiplier. */
int32_t rescale_s64(int64_t value, int32_t multiplier, int32_t shift);

/* `every_channel` is 0 where all output channels have the first multiplier and shift. */
struct requantisation {
    int32_t input_zero, weight_zero, output_zero, lowest, highest, every_channel;
    const int32_t *multiplier, *shift;
};
void convolution_s8(const struct window *window, const struct requantisation *by, const int8_t *input,
                    const int8_t *weight, const int32_t *bias, int8_t *output);
void convolution_s16(const struct window *window, const struct requantisation *by, const int16_t *input,
                     const int8_t *weight, const int64_t *bias, int16_t *output);
void transposed_convolution_s8(const struct window *window, const struct requantisation *by, const int8_t *input,
                               const int8_t *weight, const int32_t *bias, int8_t *output);
void transposed_convolution_s16(const struct window *window, const struct requantisation *by, const int16_t *input,
                                const int8_t *weight, const int64_t *bias, int16_t *output);

struct rescaling {
    int32_t zero, multiplier, shift;
};
/* Both operands are brought to one scale, 2^left_shift finer, and then the sum, or the difference, to its own. */
struct sum_rescaling {
    struct rescaling left, right, output;
    int32_t left_shift, is_difference, lowest, highest;
};
void add_s8(const struct walk *walk, const struct sum_rescaling *by, const int8_t *left, const int8_t *right,
            int8_t *output);
struct product_rescaling {
    int32_t left_zero, right_zero;
    struct rescaling output;
    int32_t lowest, highest;
};
void multiply_s8(const struct walk *walk, const struct product_rescaling *by, const int8_t *left, const int8_t *right,
                 int8_t *output);
void extreme_s8(const struct walk *walk, int32_t is_maximum, const int8_t *left, const int8_t *right, int8_t *output);
/* Entry v + 128 of the table is what becomes of v. */
void look_up_s8(int32_t count, const int8_t table[256], const int8_t *input, int8_t *output);
void requantise_s8(int32_t count, int32_t input_zero, const struct rescaling *output_by, const int8_t *input,
                   int8_t *output);
void quantise_s8(int32_t count, float scale, int32_t zero, const float *input, int8_t *output);
void dequantise_s8(int32_t count, float scale, int32_t zero, const int8_t *input, float *output);
/* The mean of `count` elements for each output: walks are as of reduce_f32. */
void mean_s8(const struct walk *kept, const struct walk *reduced, int32_t count, int32_t input_zero,
             const struct rescaling *output_by, const int8_t *input, int8_t *output);
/* Rows of `size`; entry d of the table is what e^(-d * beta * scale) is in units of 2^-31, 0 where it is left out. */
void softmax_s8(int32_t rows, int32_t size, const int32_t exponentials[256], const int8_t *input, int8_t *output);

/* lstm_s8.c: four gates of every unit, in the order input, forget, cell, output; row gate * units + unit of a weight
   is a unit's. The hidden state and the cell are read and brought on. */
struct lstm {
    int32_t batch, steps, inputs, units, input_batch, input_step, output_batch, output_step;
    int32_t input_zero, hidden_zero, cell_clip, cell_shift;
    struct rescaling of_input[4], of_units[4], kept, added, said;
    const uint16_t *sigmoid; /* 256 entries of sigmoid(i / 24) in units of 2^-16 */
    const int8_t *input_weights, *unit_weights;
    const int32_t *biases;
};
void lstm_s8(const struct lstm *lstm, const int8_t *input, int8_t *hidden, int16_t *cell, int8_t *output);

#endif
