/* What kernels do; kernels.h includes this. */
/* convolution.c: the bias may be null; outputs are clamped to [lowest, highest]. */
void KERNEL(convolution_f32)(const struct window *window, IN(float) input, const float *weight, const float *bias,
                     OUT(float) output, float lowest, float highest);
void KERNEL(transposed_convolution_f32)(const struct window *window, IN(float) input, const float *weight,
                                const float *bias, OUT(float) output, float lowest, float highest);

/* pooling.c */
void KERNEL(max_pool_f32)(const struct window *window, IN(float) input, OUT(float) output, float lowest, float highest);
void KERNEL(max_pool_s8)(const struct window *window, IN(int8_t) input, OUT(int8_t) output, int32_t lowest,
                         int32_t highest);
/* Divides by the elements of the window on the map and in its margin: above, below, left, right. */
void KERNEL(average_pool_f32)(const struct window *window, const int32_t margin[4], IN(float) input,
                      OUT(float) output, float lowest, float highest);
void KERNEL(average_pool_s8)(const struct window *window, IN(int8_t) input, OUT(int8_t) output, int32_t lowest,
                     int32_t highest);

void KERNEL(product_f32)(const struct product *product, IN(float) left, IN(float) right, OUT(float) output);

/* elementwise_f32.c: `a` and `b` are the operation's own: the ends of a clamp, a slope, alpha and beta. */
void KERNEL(unary_f32)(enum unary operation, int32_t count, float a, float b, IN(float) input, OUT(float) output);
void KERNEL(binary_f32)(enum binary operation, const struct walk *walk, IN(float) left, IN(float) right,
                        OUT(float) output);

void KERNEL(softmax_f32)(const struct slices *slices, float beta, IN(float) input, OUT(float) output);
void KERNEL(log_softmax_f32)(const struct slices *slices, IN(float) input, OUT(float) output);
/* Scale and shift lie along the middle; null is 1 or 0. */
void KERNEL(batch_norm_f32)(const struct slices *slices, float epsilon, const float *scale, const float *shift,
                    const float *mean, const float *variance, IN(float) input, OUT(float) output);
void KERNEL(layer_norm_f32)(int32_t outer, int32_t size, float epsilon, const struct affine *affine, const float *scale,
                    const float *shift, IN(float) input, OUT(float) output);
void KERNEL(local_response_f32)(const struct slices *slices, int32_t window, float alpha, float beta, float bias,
                        IN(float) input, OUT(float) output);
void KERNEL(l2_norm_f32)(const struct slices *slices, float epsilon, IN(float) input, OUT(float) output);

void KERNEL(reduce_f32)(enum reduction operation, const struct walk *kept, const struct walk *reduced, IN(float) input,
                OUT(float) output);

/* movement.c: bytes that move and do not change; a walk's steps are in bytes. */
void KERNEL(move)(const struct walk *walk, int32_t run_bytes, IN(void) input, OUT(void) output);
void KERNEL(fill)(int32_t count, int32_t element_bytes, const void *element, OUT(void) output);
/* For each of `outer` blocks of `size` rows, the rows of these indices, a negative one counted from the end. */
void KERNEL(gather_i64)(int32_t outer, int32_t size, int32_t row_bytes, int32_t count, const int64_t *indices,
                IN(void) input, OUT(void) output);
void KERNEL(gather_i32)(int32_t outer, int32_t size, int32_t row_bytes, int32_t count, const int32_t *indices,
                IN(void) input, OUT(void) output);
void KERNEL(resample_f32)(const struct resampling *resampling, IN(float) input, OUT(float) output);

/* convolution.c, quantised.c, softmax_s8.c: TFLite's arithmetic: real numbers are scale * (integer - zero). */

void KERNEL(convolution_s8)(const struct window *window, const struct requantisation *by, IN(int8_t) input,
                    const int8_t *weight, const int32_t *bias, OUT(int8_t) output);
void KERNEL(convolution_s16)(const struct window *window, const struct requantisation *by, IN(int16_t) input,
                     const int8_t *weight, const int64_t *bias, OUT(int16_t) output);
void KERNEL(transposed_convolution_s8)(const struct window *window, const struct requantisation *by, IN(int8_t) input,
                               const int8_t *weight, const int32_t *bias, OUT(int8_t) output);
void KERNEL(transposed_convolution_s16)(const struct window *window, const struct requantisation *by, IN(int16_t) input,
                                const int8_t *weight, const int64_t *bias, OUT(int16_t) output);

void KERNEL(add_s8)(const struct walk *walk, const struct sum_rescaling *by, IN(int8_t) left, IN(int8_t) right,
            OUT(int8_t) output);
void KERNEL(multiply_s8)(const struct walk *walk, const struct product_rescaling *by, IN(int8_t) left, IN(int8_t) right,
                 OUT(int8_t) output);
void KERNEL(extreme_s8)(const struct walk *walk, int32_t is_maximum, IN(int8_t) left, IN(int8_t) right,
                        OUT(int8_t) output);
/* Entry v + 128 of the table is what becomes of v. */
void KERNEL(look_up_s8)(int32_t count, const int8_t table[256], IN(int8_t) input, OUT(int8_t) output);
void KERNEL(requantise_s8)(int32_t count, int32_t input_zero, const struct rescaling *output_by, IN(int8_t) input,
                   OUT(int8_t) output);
void KERNEL(quantise_s8)(int32_t count, float scale, int32_t zero, IN(float) input, OUT(int8_t) output);
void KERNEL(dequantise_s8)(int32_t count, float scale, int32_t zero, IN(int8_t) input, OUT(float) output);
/* The mean of `count` elements for each output: walks are as of reduce_f32. */
void KERNEL(mean_s8)(const struct walk *kept, const struct walk *reduced, int32_t count, int32_t input_zero,
             const struct rescaling *output_by, IN(int8_t) input, OUT(int8_t) output);
/* Rows of `size`; entry d of the table is what e^(-d * beta * scale) is in units of 2^-31, 0 where it is left out. */
void KERNEL(softmax_s8)(int32_t rows, int32_t size, const int32_t exponentials[256], IN(int8_t) input,
                        OUT(int8_t) output);

#ifndef BANDED
void lstm_s8(const struct lstm *lstm, const int8_t *input, int8_t *hidden, int16_t *cell, int8_t *output);
#endif
