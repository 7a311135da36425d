/* What becomes of each element alone, or of two that meet. */
#include "kernels.h"

#include <math.h>

static float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}

static float softplus(float x)
{
    return fmaxf(x, 0) + log1pf(expf(-fabsf(x)));
}

static float clamped(float x, float lowest, float highest)
{
    return x < lowest ? lowest : x > highest ? highest : x;
}

static float of_one(enum unary operation, float a, float b, float x)
{
    switch (operation) {
    case UNARY_ABS: return fabsf(x);
    case UNARY_ATAN: return atanf(x);
    case UNARY_CEIL: return ceilf(x);
    case UNARY_CLAMP: return clamped(x, a, b);
    case UNARY_COS: return cosf(x);
    case UNARY_ELU: return x < 0 ? a * expm1f(x) : x;
    case UNARY_ERF: return erff(x);
    case UNARY_EXP: return expf(x);
    case UNARY_FLOOR: return floorf(x);
    case UNARY_GELU: return 0.5f * x * (1 + erff(x * 0.70710678f));
    case UNARY_GELU_TANH: return 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    case UNARY_HARD_SIGMOID: return clamped(a * x + b, 0, 1);
    case UNARY_HARD_SWISH: return x * clamped(x / 6 + 0.5f, 0, 1);
    case UNARY_LEAKY_RELU: return x < 0 ? a * x : x;
    case UNARY_LOG: return logf(x);
    case UNARY_MISH: return x * tanhf(softplus(x));
    case UNARY_NEGATE: return -x;
    case UNARY_RECIPROCAL: return 1 / x;
    case UNARY_RELU: return x < 0 ? 0 : x;
    case UNARY_ROUND: return nearbyintf(x);
    case UNARY_RSQRT: return 1 / sqrtf(x);
    case UNARY_SELU: return b * (x < 0 ? a * expm1f(x) : x);
    case UNARY_SIGMOID: return sigmoid(x);
    case UNARY_SIGN: return (float)((x > 0) - (x < 0));
    case UNARY_SILU: return x * sigmoid(x);
    case UNARY_SIN: return sinf(x);
    case UNARY_SOFTPLUS: return softplus(x);
    case UNARY_SOFTSIGN: return x / (1 + fabsf(x));
    case UNARY_SQRT: return sqrtf(x);
    case UNARY_SQUARE: return x * x;
    case UNARY_TANH: return tanhf(x);
    }
    return x;
}

static float of_two(enum binary operation, float x, float y)
{
    switch (operation) {
    case BINARY_ADD: return x + y;
    case BINARY_DIVIDE: return x / y;
    case BINARY_MAXIMUM: return fmaxf(x, y);
    case BINARY_MINIMUM: return fminf(x, y);
    case BINARY_MULTIPLY: return x * y;
    case BINARY_POWER: return powf(x, y);
    case BINARY_PRELU: return x < 0 ? x * y : x;
    case BINARY_SQUARED_DIFFERENCE: return (x - y) * (x - y);
    case BINARY_SUBTRACT: return x - y;
    }
    return x;
}

void KERNEL(unary_f32)(enum unary operation, int32_t count, float a, float b, IN(float) input, OUT(float) output)
{
    for (int32_t at = 0; at < count; at++)
        AT(float, output, at) = of_one(operation, a, b, AT(float, input, at));
}

void KERNEL(binary_f32)(enum binary operation, const struct walk *walk, IN(float) left, IN(float) right,
                        OUT(float) output)
{
    int32_t place[WALK_RANK] = {0}, at[WALK_OPERANDS] = {0};
    do
        AT(float, output, at[0]) = of_two(operation, AT(float, left, at[1]), AT(float, right, at[2]));
    while (walk_on(walk, place, at));
}
