/* Products of matrices, one for each place of the batch. */
#include "kernels.h"

void product_f32(const struct product *p, const float *left, const float *right, float *output)
{
    int32_t place[WALK_RANK] = {0}, at[WALK_OPERANDS] = {0};
    do
        for (int32_t row = 0; row < p->rows; row++) {
            float *sums = output + at[0] + row * p->columns;
            for (int32_t column = 0; column < p->columns; column++)
                sums[column] = 0;
            for (int32_t k = 0; k < p->inner; k++) {
                float factor = left[at[1] + row * p->left_row + k * p->left_inner];
                const float *others = right + at[2] + k * p->right_inner;
                for (int32_t column = 0; column < p->columns; column++)
                    sums[column] += factor * others[column * p->right_column];
            }
        }
    while (walk_on(&p->batch, place, at));
}
