/* Softmax and norms. Sums are of doubles: a slice may be long. */
#include "kernels.h"

#include <math.h>

/* The first element of a slice, whose next ones lie `inner` apart. */
static int32_t slice_at(const struct slices *s, int32_t outer, int32_t inner)
{
    return outer * s->size * s->inner + inner;
}

static float greatest(const struct slices *s, IN(float) input, int32_t first)
{
    float most = -INFINITY;
    for (int32_t k = 0; k < s->size; k++)
        most = fmaxf(most, AT(float, input, first + k * s->inner));
    return most;
}

void KERNEL(softmax_f32)(const struct slices *s, float beta, IN(float) input, OUT(float) output)
{
    for (int32_t outer = 0; outer < s->outer; outer++)
        for (int32_t inner = 0; inner < s->inner; inner++) {
            int32_t first = slice_at(s, outer, inner);
            float most = greatest(s, input, first);
            double sum = 0;
            for (int32_t k = 0, at = first; k < s->size; k++, at += s->inner)
                sum += (double)(AT(float, output, at) = expf((AT(float, input, at) - most) * beta));
            for (int32_t k = 0, at = first; k < s->size; k++, at += s->inner)
                AT(float, output, at) = (float)(AT(float, output, at) / sum);
        }
}

void KERNEL(log_softmax_f32)(const struct slices *s, IN(float) input, OUT(float) output)
{
    for (int32_t outer = 0; outer < s->outer; outer++)
        for (int32_t inner = 0; inner < s->inner; inner++) {
            int32_t first = slice_at(s, outer, inner);
            float most = greatest(s, input, first);
            double sum = 0;
            for (int32_t k = 0; k < s->size; k++)
                sum += exp((double)(AT(float, input, first + k * s->inner) - most));
            for (int32_t k = 0, at = first; k < s->size; k++, at += s->inner)
                AT(float, output, at) = AT(float, input, at) - most - (float)log(sum);
        }
}

void KERNEL(batch_norm_f32)(const struct slices *s, float epsilon, const float *scale, const float *shift,
                            const float *mean, const float *variance, IN(float) input, OUT(float) output)
{
    for (int32_t outer = 0; outer < s->outer; outer++)
        for (int32_t k = 0; k < s->size; k++) {
            float factor = (scale ? scale[k] : 1) / sqrtf(variance[k] + epsilon);
            int32_t first = (outer * s->size + k) * s->inner;
            for (int32_t at = first; at < first + s->inner; at++)
                AT(float, output, at) = (AT(float, input, at) - mean[k]) * factor + (shift ? shift[k] : 0);
        }
}

void KERNEL(layer_norm_f32)(int32_t outer, int32_t size, float epsilon, const struct affine *affine, const float *scale,
                    const float *shift, IN(float) input, OUT(float) output)
{
    for (int32_t slice = 0; slice < outer; slice++) {
        int32_t first = slice * size;
        double sum = 0, squares = 0;
        for (int32_t k = 0; k < size; k++)
            sum += (double)AT(float, input, first + k);
        double mean = sum / size;
        for (int32_t k = 0; k < size; k++)
            squares += (AT(float, input, first + k) - mean) * (AT(float, input, first + k) - mean);
        double factor = 1 / sqrt(squares / size + (double)epsilon);
        for (int32_t k = 0; k < size; k++) {
            int32_t entry = slice % affine->groups * affine->entries + k / affine->every % affine->entries;
            float value = (float)((AT(float, input, first + k) - mean) * factor);
            AT(float, output, first + k) = value * (scale ? scale[entry] : 1) + (shift ? shift[entry] : 0);
        }
    }
}

void KERNEL(local_response_f32)(const struct slices *s, int32_t window, float alpha, float beta, float bias,
                        IN(float) input, OUT(float) output)
{
    for (int32_t outer = 0; outer < s->outer; outer++)
        for (int32_t inner = 0; inner < s->inner; inner++) {
            int32_t first = slice_at(s, outer, inner);
            for (int32_t k = 0; k < s->size; k++) {
                float squares = 0;
                for (int32_t near = k - (window - 1) / 2; near <= k + window / 2; near++)
                    if (near >= 0 && near < s->size) {
                        float value = AT(float, input, first + near * s->inner);
                        squares += value * value;
                    }
                float norm = powf(bias + alpha * squares / (float)window, beta);
                AT(float, output, first + k * s->inner) = AT(float, input, first + k * s->inner) / norm;
            }
        }
}

void KERNEL(l2_norm_f32)(const struct slices *s, float epsilon, IN(float) input, OUT(float) output)
{
    for (int32_t outer = 0; outer < s->outer; outer++)
        for (int32_t inner = 0; inner < s->inner; inner++) {
            int32_t first = slice_at(s, outer, inner);
            double squares = 0;
            for (int32_t k = 0; k < s->size; k++) {
                double value = (double)AT(float, input, first + k * s->inner);
                squares += value * value;
            }
            float length = fmaxf((float)sqrt(squares), epsilon);
            for (int32_t k = 0; k < s->size; k++)
                AT(float, output, first + k * s->inner) = AT(float, input, first + k * s->inner) / length;
        }
}
