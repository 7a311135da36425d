/* Sums, means and extremes along some axes. Sums are of doubles: what is reduced may be long. */
#include "kernels.h"

#include <math.h>

static double joined(enum reduction operation, double before, double value)
{
    switch (operation) {
    case REDUCE_L2: return before + value * value;
    case REDUCE_MAXIMUM: return fmax(before, value);
    case REDUCE_MINIMUM: return fmin(before, value);
    default: return before + value;
    }
}

void KERNEL(reduce_f32)(enum reduction operation, const struct walk *kept, const struct walk *reduced, IN(float) input,
                OUT(float) output)
{
    int32_t place[WALK_RANK] = {0}, at[WALK_OPERANDS] = {0};
    do {
        int32_t inner_place[WALK_RANK] = {0}, inner[WALK_OPERANDS] = {0}, count = 0;
        double found = operation == REDUCE_MAXIMUM ? -INFINITY : operation == REDUCE_MINIMUM ? INFINITY : 0;
        do {
            found = joined(operation, found, (double)AT(float, input, at[1] + inner[1]));
            count++;
        } while (walk_on(reduced, inner_place, inner));
        if (operation == REDUCE_MEAN)
            found /= count;
        AT(float, output, at[0]) = (float)(operation == REDUCE_L2 ? sqrt(found) : found);
    } while (walk_on(kept, place, at));
}
