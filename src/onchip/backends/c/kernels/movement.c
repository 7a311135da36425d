/* Bytes that move and do not change: transposes, slices, concatenations, pads, and maps of another size. */
#include "kernels.h"

#include <string.h>

void move(const struct walk *walk, int32_t run_bytes, const void *input, void *output)
{
    int32_t place[WALK_RANK] = {0}, at[WALK_OPERANDS] = {0};
    do
        memmove((uint8_t *)output + at[0], (const uint8_t *)input + at[1], (size_t)run_bytes);
    while (walk_on(walk, place, at));
}

void fill(int32_t count, int32_t element_bytes, const void *element, void *output)
{
    for (int32_t at = 0; at < count; at++)
        memcpy((uint8_t *)output + at * element_bytes, element, (size_t)element_bytes);
}

void gather_i64(int32_t outer, int32_t size, int32_t row_bytes, int32_t count, const int64_t *indices,
                const void *input, void *output)
{
    for (int32_t block = 0; block < outer; block++)
        for (int32_t k = 0; k < count; k++) {
            int32_t row = (int32_t)(indices[k] < 0 ? indices[k] + size : indices[k]);
            memcpy((uint8_t *)output + (block * count + k) * row_bytes,
                   (const uint8_t *)input + (block * size + row) * row_bytes, (size_t)row_bytes);
        }
}

void gather_i32(int32_t outer, int32_t size, int32_t row_bytes, int32_t count, const int32_t *indices,
                const void *input, void *output)
{
    for (int32_t block = 0; block < outer; block++)
        for (int32_t k = 0; k < count; k++) {
            int32_t row = indices[k] < 0 ? indices[k] + size : indices[k];
            memcpy((uint8_t *)output + (block * count + k) * row_bytes,
                   (const uint8_t *)input + (block * size + row) * row_bytes, (size_t)row_bytes);
        }
}

void resample_f32(const struct resampling *r, const float *input, float *output)
{
    for (int32_t map = 0; map < r->maps; map++) {
        const float *from = input + map * r->input_rows * r->input_columns * r->channels;
        float *to = output + map * r->output_rows * r->output_columns * r->channels;
        for (int32_t y = 0; y < r->output_rows; y++)
            for (int32_t x = 0; x < r->output_columns; x++)
                for (int32_t c = 0; c < r->channels; c++) {
                    const float *above = from + r->first_row[y] * r->input_columns * r->channels + c;
                    const float *below = from + r->second_row[y] * r->input_columns * r->channels + c;
                    int32_t left = r->first_column[x] * r->channels, right = r->second_column[x] * r->channels;
                    float share = r->column_share[x];
                    float upper = above[left] * (1 - share) + above[right] * share;
                    float lower = below[left] * (1 - share) + below[right] * share;
                    to[(y * r->output_columns + x) * r->channels + c] =
                        upper * (1 - r->row_share[y]) + lower * r->row_share[y];
                }
    }
}
