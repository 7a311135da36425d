/* A tensor in parts. Offsets and steps are in bytes. */
#ifndef ONCHIP_BANDS_H
#define ONCHIP_BANDS_H

#include <stdint.h>

enum { BAND_AXES = 6 };

/* An axis of the whole tensor: neighbours are `step` apart, part k takes the indices from edge k to edge k + 1. */
struct band_axis {
    int32_t step, count;
    const int32_t *edges;
};

/* A part: the element of the whole tensor's index i lies at `base + offset + sum of i[axis] * steps[axis]`. */
struct band {
    uint8_t *base;
    int32_t offset, steps[BAND_AXES];
};

/* The parts of a grid, the last axis fastest. Elements are counted from byte `first` of the whole tensor on. */
struct bands {
    int32_t first, rank;
    struct band_axis axes[BAND_AXES];
    const struct band *parts;
};

/* The address of a byte, counted as if the tensor were whole. */
uint8_t *byte_of(const struct bands *bands, int32_t at);
/* The same, or null if fewer than `bytes` lie side by side. */
uint8_t *run_of(const struct bands *bands, int32_t at, int32_t bytes);

#endif
