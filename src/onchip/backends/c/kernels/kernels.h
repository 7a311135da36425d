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

/* normalisation.c: an array of outer x size x inner elements, normalised along the middle. */
struct slices {
    int32_t outer, size, inner;
};

/* Each of `outer` slices of size elements to mean 0 and variance 1; then scale and shift: element i of a slice has
   entry (i / every) % entries, of slice number s behind s % groups * entries of them. */
struct affine {
    int32_t entries, every, groups;
};

/* reduction.c: for each place of `kept` (of output, input) all places of `reduced` (of input alone, operand 1). */
enum reduction { REDUCE_L2, REDUCE_MAXIMUM, REDUCE_MEAN, REDUCE_MINIMUM, REDUCE_SUM };

/* product.c: for each place of the batch, rows times columns; the output's rows are dense. */
struct product {
    struct walk batch; /* of output, left, right */
    int32_t rows, inner, columns;
    int32_t left_row, left_inner, right_inner, right_column;
};

/* Each row and column of the output is a sum of two of the input: `second` with its share, the first with the rest. */
struct resampling {
    int32_t maps, input_rows, input_columns, output_rows, output_columns, channels;
    const int32_t *first_row, *second_row, *first_column, *second_column;
    const float *row_share, *column_share;
};

/* `every_channel` is 0 where all output channels have the first multiplier and shift. */
struct requantisation {
    int32_t input_zero, weight_zero, output_zero, lowest, highest, every_channel;
    const int32_t *multiplier, *shift;
};

struct rescaling {
    int32_t zero, multiplier, shift;
};

/* Both operands are brought to one scale, 2^left_shift finer, and then the sum, or the difference, to its own. */
struct sum_rescaling {
    struct rescaling left, right, output;
    int32_t left_shift, is_difference, lowest, highest;
};

struct product_rescaling {
    int32_t left_zero, right_zero;
    struct rescaling output;
    int32_t lowest, highest;
};

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

/* value * multiplier * 2^(shift - 31), rounded as TFLite does. */
int32_t rescale(int32_t value, int32_t multiplier, int32_t shift);
/* 2 * a * b / 2^32, and value / 2^exponent: rounded, ties away from zero. */
int32_t upper_half(int32_t a, int32_t b);
int32_t divide_by_power(int32_t value, int32_t exponent);
/* rescale of a sum of 64 bits, with 16 bits of the multiplier. */
int32_t rescale_s64(int64_t value, int32_t multiplier, int32_t shift);

#include "operands.h"
#include "prototypes.h"

#endif
