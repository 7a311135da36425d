/* Bytes that move and do not change: transposes, slices, concatenations, pads, and maps of another size. */
#include "kernels.h"

#include <string.h>

/* Moves bytes within one part of each tensor, or one by one. */
static void moved(IN(uint8_t) input, int32_t from, OUT(uint8_t) output, int32_t to, int32_t bytes)
{
    const uint8_t *source = RUN(uint8_t, input, from, bytes);
    uint8_t *target = RUN(uint8_t, output, to, bytes);
    if (source && target)
        memmove(target, source, (size_t)bytes);
    else
        for (int32_t k = 0; k < bytes; k++)
            AT(uint8_t, output, to + k) = AT(uint8_t, input, from + k);
}

void KERNEL(move)(const struct walk *walk, int32_t run_bytes, IN(void) input, OUT(void) output)
{
    int32_t place[WALK_RANK] = {0}, at[WALK_OPERANDS] = {0};
    do
        moved(input, at[1], output, at[0], run_bytes);
    while (walk_on(walk, place, at));
}

void KERNEL(fill)(int32_t count, int32_t element_bytes, const void *element, OUT(void) output)
{
    OUT(uint8_t) target = output;
    for (int32_t at = 0; at < count * element_bytes; at++)
        AT(uint8_t, target, at) = ((const uint8_t *)element)[at % element_bytes];
}

void KERNEL(gather_i64)(int32_t outer, int32_t size, int32_t row_bytes, int32_t count, const int64_t *indices,
                        IN(void) input, OUT(void) output)
{
    for (int32_t block = 0; block < outer; block++)
        for (int32_t k = 0; k < count; k++) {
            int32_t row = (int32_t)(indices[k] < 0 ? indices[k] + size : indices[k]);
            moved(input, (block * size + row) * row_bytes, output, (block * count + k) * row_bytes, row_bytes);
        }
}

void KERNEL(gather_i32)(int32_t outer, int32_t size, int32_t row_bytes, int32_t count, const int32_t *indices,
                        IN(void) input, OUT(void) output)
{
    for (int32_t block = 0; block < outer; block++)
        for (int32_t k = 0; k < count; k++) {
            int32_t row = indices[k] < 0 ? indices[k] + size : indices[k];
            moved(input, (block * size + row) * row_bytes, output, (block * count + k) * row_bytes, row_bytes);
        }
}

void KERNEL(resample_f32)(const struct resampling *r, IN(float) input, OUT(float) output)
{
    for (int32_t map = 0; map < r->maps; map++) {
        int32_t from = map * r->input_rows * r->input_columns * r->channels;
        int32_t to = map * r->output_rows * r->output_columns * r->channels;
        for (int32_t y = 0; y < r->output_rows; y++)
            for (int32_t x = 0; x < r->output_columns; x++)
                for (int32_t c = 0; c < r->channels; c++) {
                    int32_t above = from + r->first_row[y] * r->input_columns * r->channels + c;
                    int32_t below = from + r->second_row[y] * r->input_columns * r->channels + c;
                    int32_t left = r->first_column[x] * r->channels, right = r->second_column[x] * r->channels;
                    float share = r->column_share[x];
                    float upper = AT(float, input, above + left) * (1 - share);
                    float lower = AT(float, input, below + left) * (1 - share);
                    upper += AT(float, input, above + right) * share;
                    lower += AT(float, input, below + right) * share;
                    AT(float, output, to + (y * r->output_columns + x) * r->channels + c) =
                        upper * (1 - r->row_share[y]) + lower * r->row_share[y];
                }
    }
}
