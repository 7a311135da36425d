/* Softmax and norms. Sums are of doubles: a slice may be long. */
#include "kernels.h"

#include <math.h>

/* The first element of a slice, whose next ones lie `inner` apart. */
static int32_t slice_at(const struct slices *s, int32_t outer, int32_t inner)
{
    return outer * s->size * s->inner + inner;
}

static float greatest(const struct slices *s, const float *input)
{
    float most = -INFINITY;
    for (int32_t k = 0; k < s->size; k++)
        most = fmaxf(most, input[k * s->inner]);
    return most;
}

void softmax_f32(const struct slices *s, float beta, const float *input, float *output)
{
    for (int32_t outer = 0; outer < s->outer; outer++)
        for (int32_t inner = 0; inner < s->inner; inner++) {
            const float *from = input + slice_at(s, outer, inner);
            float *to = output + slice_at(s, outer, inner);
            float most = greatest(s, from);
            double sum = 0;
            for (int32_t k = 0; k < s->size; k++)
                sum += (double)(to[k * s->inner] = expf((from[k * s->inner] - most) * beta));
            for (int32_t k = 0; k < s->size; k++)
                to[k * s->inner] = (float)(to[k * s->inner] / sum);
        }
}

void log_softmax_f32(const struct slices *s, const float *input, float *output)
{
    for (int32_t outer = 0; outer < s->outer; outer++)
        for (int32_t inner = 0; inner < s->inner; inner++) {
            const float *from = input + slice_at(s, outer, inner);
            float *to = output + slice_at(s, outer, inner);
            float most = greatest(s, from);
            double sum = 0;
            for (int32_t k = 0; k < s->size; k++)
                sum += exp((double)(from[k * s->inner] - most));
            for (int32_t k = 0; k < s->size; k++)
                to[k * s->inner] = from[k * s->inner] - most - (float)log(sum);
        }
}

void batch_norm_f32(const struct slices *s, float epsilon, const float *scale, const float *shift, const float *mean,
                    const float *variance, const float *input, float *output)
{
    for (int32_t outer = 0; outer < s->outer; outer++)
        for (int32_t k = 0; k < s->size; k++) {
            float factor = (scale ? scale[k] : 1) / sqrtf(variance[k] + epsilon);
            int32_t first = (outer * s->size + k) * s->inner;
            for (int32_t at = first; at < first + s->inner; at++)
                output[at] = (input[at] - mean[k]) * factor + (shift ? shift[k] : 0);
        }
}

void layer_norm_f32(int32_t outer, int32_t size, float epsilon, const struct affine *affine, const float *scale,
                    const float *shift, const float *input, float *output)
{
    for (int32_t slice = 0; slice < outer; slice++) {
        const float *from = input + slice * size;
        float *to = output + slice * size;
        double sum = 0, squares = 0;
        for (int32_t k = 0; k < size; k++)
            sum += (double)from[k];
        double mean = sum / size;
        for (int32_t k = 0; k < size; k++)
            squares += (from[k] - mean) * (from[k] - mean);
        double factor = 1 / sqrt(squares / size + (double)epsilon);
        for (int32_t k = 0; k < size; k++) {
            int32_t entry = slice % affine->groups * affine->entries + k / affine->every % affine->entries;
            to[k] = (float)((from[k] - mean) * factor) * (scale ? scale[entry] : 1) + (shift ? shift[entry] : 0);
        }
    }
}

void local_response_f32(const struct slices *s, int32_t window, float alpha, float beta, float bias,
                        const float *input, float *output)
{
    for (int32_t outer = 0; outer < s->outer; outer++)
        for (int32_t inner = 0; inner < s->inner; inner++) {
            const float *from = input + slice_at(s, outer, inner);
            float *to = output + slice_at(s, outer, inner);
            for (int32_t k = 0; k < s->size; k++) {
                float squares = 0;
                for (int32_t near = k - (window - 1) / 2; near <= k + window / 2; near++)
                    if (near >= 0 && near < s->size)
                        squares += from[near * s->inner] * from[near * s->inner];
                to[k * s->inner] = from[k * s->inner] / powf(bias + alpha * squares / (float)window, beta);
            }
        }
}

void l2_norm_f32(const struct slices *s, float epsilon, const float *input, float *output)
{
    for (int32_t outer = 0; outer < s->outer; outer++)
        for (int32_t inner = 0; inner < s->inner; inner++) {
            const float *from = input + slice_at(s, outer, inner);
            float *to = output + slice_at(s, outer, inner);
            double squares = 0;
            for (int32_t k = 0; k < s->size; k++)
                squares += (double)from[k * s->inner] * (double)from[k * s->inner];
            float length = fmaxf((float)sqrt(squares), epsilon);
            for (int32_t k = 0; k < s->size; k++)
                to[k * s->inner] = from[k * s->inner] / length;
        }
}
