/* Products of matrices, one for each place of the batch. */
#include "kernels.h"

void KERNEL(product_f32)(const struct product *p, IN(float) left, IN(float) right, OUT(float) output)
{
    int32_t place[WALK_RANK] = {0}, at[WALK_OPERANDS] = {0};
    do
        for (int32_t row = 0; row < p->rows; row++) {
            int32_t sums = at[0] + row * p->columns;
            for (int32_t column = 0; column < p->columns; column++)
                AT(float, output, sums + column) = 0;
            for (int32_t k = 0; k < p->inner; k++) {
                float factor = AT(float, left, at[1] + row * p->left_row + k * p->left_inner);
                int32_t others = at[2] + k * p->right_inner;
                for (int32_t column = 0; column < p->columns; column++)
                    AT(float, output, sums + column) += factor * AT(float, right, others + column * p->right_column);
            }
        }
    while (walk_on(&p->batch, place, at));
}
