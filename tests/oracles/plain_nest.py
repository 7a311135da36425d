"""A loop nest by its definition: one multiply-accumulate after the other, over all indices, and counted."""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt

from onchip.ir.layer import Layer

Values = npt.NDArray[np.float64]


class PlainNest:
    """An interpreter of layers; `multiplied` counts all multiply-accumulates, including those with padded zeros."""

    def __init__(self) -> None:
        self.multiplied = 0

    def run(self, layer: Layer, source: Values, weight: Values | None = None, *, largest: bool = False) -> Values:
        """Return the output [n, g, k, p, q] for an input [n, g, c, height, width] and a weight [g, k, c, r, s].

        Without a weight, elements are summed, or the `largest` is taken.
        """
        height, width = layer.input_pixels
        assert source.shape == (layer.n, layer.g, layer.c, height, width)
        assert (weight is not None) == layer.has_weight
        assert weight is None or weight.shape == (layer.g, layer.k, layer.c, layer.r, layer.s)
        output = np.full((layer.n, layer.g, layer.k, layer.p, layer.q), -np.inf if largest else 0.0)
        for n, k, c, p, q, r, s, g in product(*map(range, layer.bounds.values())):
            self.multiplied += 1
            y = p * layer.stride[0] + r * layer.dilation[0] - layer.padding[0]
            x = q * layer.stride[1] + s * layer.dilation[1] - layer.padding[1]
            if not (0 <= y < height and 0 <= x < width):
                continue
            element = source[n, g, c, y, x] * (1.0 if weight is None else weight[g, k, c, r, s])
            made = output[n, g, k, p, q]
            output[n, g, k, p, q] = max(made, element) if largest else made + element
        return output

    def product(self, layer: Layer, rows: Values, matrices: Values) -> Values:
        """Return rows [g, n, c] times matrices [g, c, k] by group: [g, n, k]."""
        source = rows.transpose(1, 0, 2)[:, :, :, None, None]
        made = self.run(layer, source, matrices.transpose(0, 2, 1)[:, :, :, None, None])
        return made[:, :, :, 0, 0].transpose(1, 0, 2)
