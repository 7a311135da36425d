/* Places in arrays of several axes, one after the other. */
#include "kernels.h"

int walk_on(const struct walk *walk, int32_t place[WALK_RANK], int32_t at[WALK_OPERANDS])
{
    for (int32_t axis = walk->rank - 1; axis >= 0; axis--) {
        place[axis]++;
        for (int k = 0; k < WALK_OPERANDS; k++)
            at[k] += walk->steps[k][axis];
        if (place[axis] < walk->sizes[axis])
            return 1;
        for (int k = 0; k < WALK_OPERANDS; k++)
            at[k] -= walk->steps[k][axis] * walk->sizes[axis];
        place[axis] = 0;
    }
    return 0;
}
