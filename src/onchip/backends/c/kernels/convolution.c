/* Convolutions of floats, int8 and int16. Sums of integers are exact, and then rescaled by one factor for each channel. */
#include "kernels.h"

struct range {
    float lowest, highest;
};

static float in_range(const struct range *by, int32_t o, float sum)
{
    (void)o;
    return sum < by->lowest ? by->lowest : sum > by->highest ? by->highest : sum;
}

static int32_t clamped(const struct requantisation *by, int32_t value)
{
    return value < by->lowest ? by->lowest : value > by->highest ? by->highest : value;
}

static int32_t requantised_s32(const struct requantisation *by, int32_t o, int32_t sum)
{
    int32_t k = by->every_channel ? o : 0;
    return clamped(by, rescale(sum, by->multiplier[k], by->shift[k]) + by->output_zero);
}

static int32_t requantised_s64(const struct requantisation *by, int32_t o, int64_t sum)
{
    int32_t k = by->every_channel ? o : 0;
    return clamped(by, rescale_s64(sum, by->multiplier[k], by->shift[k]) + by->output_zero);
}

#define SUFFIX f32
#define SETTINGS struct range
#define ELEMENT float
#define WEIGHT float
#define SUM float
#define PRODUCT(a, b) ((a) * (b))
#define FINISHED in_range
#include "convolution.h"

#undef SETTINGS
#undef WEIGHT
#undef PRODUCT
#define SETTINGS struct requantisation
#define WEIGHT int8_t
#define PRODUCT(a, b) (((a)-by->input_zero) * ((b)-by->weight_zero))

#define SUFFIX s8
#define ELEMENT int8_t
#define SUM int32_t
#define FINISHED requantised_s32
#include "convolution.h"

#define SUFFIX s16
#define ELEMENT int16_t
#define SUM int64_t
#define FINISHED requantised_s64
#include "convolution.h"

void KERNEL(convolution_f32)(const struct window *w, IN(float) input, const float *weight, const float *bias,
                     OUT(float) output, float lowest, float highest)
{
    convolved_f32(w, &(struct range){lowest, highest}, input, weight, bias, output, met_by);
}

void KERNEL(transposed_convolution_f32)(const struct window *w, IN(float) input, const float *weight,
                                const float *bias, OUT(float) output, float lowest, float highest)
{
    convolved_f32(w, &(struct range){lowest, highest}, input, weight, bias, output, spread_from);
}

void KERNEL(convolution_s8)(const struct window *w, const struct requantisation *by, IN(int8_t) input,
                    const int8_t *weight, const int32_t *bias, OUT(int8_t) output)
{
    convolved_s8(w, by, input, weight, bias, output, met_by);
}

void KERNEL(transposed_convolution_s8)(const struct window *w, const struct requantisation *by, IN(int8_t) input,
                               const int8_t *weight, const int32_t *bias, OUT(int8_t) output)
{
    convolved_s8(w, by, input, weight, bias, output, spread_from);
}

void KERNEL(convolution_s16)(const struct window *w, const struct requantisation *by, IN(int16_t) input,
                     const int8_t *weight, const int64_t *bias, OUT(int16_t) output)
{
    convolved_s16(w, by, input, weight, bias, output, met_by);
}

void KERNEL(transposed_convolution_s16)(const struct window *w, const struct requantisation *by, IN(int16_t) input,
                                const int8_t *weight, const int64_t *bias, OUT(int16_t) output)
{
    convolved_s16(w, by, input, weight, bias, output, spread_from);
}
