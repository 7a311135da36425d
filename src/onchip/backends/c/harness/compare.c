#include "compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int compare_floats(const char *name, const void *found, const float *expected, size_t bytes)
{
    double greatest = 0, apart = 0;
    for (size_t k = 0; k < bytes / sizeof(float); k++) {
        float value;
        memcpy(&value, (const char *)found + k * sizeof(float), sizeof value);
        if (isnan(value) != isnan(expected[k]))
            apart = INFINITY;
        if (isnan(value) || value == expected[k])
            continue;
        greatest = fmax(greatest, fabs((double)expected[k]));
        apart = fmax(apart, fabs((double)value - (double)expected[k]));
    }
    for (size_t k = 0; k < bytes / sizeof(float); k++)
        if (isfinite(expected[k]))
            greatest = fmax(greatest, fabs((double)expected[k]));
    printf("%s: %zu floats, greatest %.6g, at most %.3g apart\n", name, bytes / sizeof(float), greatest, apart);
    return apart > TOLERANCE * greatest + ROUNDING;
}

int compare_bytes(const char *name, const void *found, const void *expected, size_t bytes)
{
    size_t differing = 0;
    for (size_t k = 0; k < bytes; k++)
        differing += ((const unsigned char *)found)[k] != ((const unsigned char *)expected)[k];
    printf("%s: %zu bytes, %zu differ\n", name, bytes, differing);
    return differing > 0;
}
