/* Where the parts of a tensor lie. */
#include "bands.h"

#include <stddef.h>

/* Finds the part of byte `at`, and the bytes `left` in its run. */
static uint8_t *found(const struct bands *bands, int32_t at, int32_t *left)
{
    int32_t rest = at + bands->first, part = 0, index[BAND_AXES], end = INT32_MAX;
    for (int32_t axis = 0; axis < bands->rank; axis++) {
        const struct band_axis *along = &bands->axes[axis];
        int32_t number = 0;
        index[axis] = rest / along->step;
        rest -= index[axis] * along->step;
        while (index[axis] >= along->edges[number + 1])
            number++;
        part = part * along->count + number;
        end = (along->edges[number + 1] - index[axis]) * along->step;
    }
    const struct band *in = &bands->parts[part];
    int32_t offset = in->offset + rest;
    for (int32_t axis = 0; axis < bands->rank; axis++)
        offset += index[axis] * in->steps[axis];
    *left = end - rest;
    return in->base + offset;
}

uint8_t *byte_of(const struct bands *bands, int32_t at)
{
    int32_t left;
    return found(bands, at, &left);
}

uint8_t *run_of(const struct bands *bands, int32_t at, int32_t bytes)
{
    int32_t left;
    uint8_t *first = found(bands, at, &left);
    return left < bytes ? NULL : first;
}
