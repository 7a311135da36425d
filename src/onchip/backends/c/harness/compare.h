/* Outputs held against stored ones; each prints a line, and returns whether they differ. */
#ifndef COMPARE_H
#define COMPARE_H

#include <stddef.h>

/* Floats may differ by so much of the greatest of them, and by so much: kernels add up in another order. */
#ifndef TOLERANCE
#define TOLERANCE 1e-4
#endif
#define ROUNDING 1e-6

int compare_floats(const char *name, const void *found, const float *expected, size_t bytes);
int compare_bytes(const char *name, const void *found, const void *expected, size_t bytes);

#endif
