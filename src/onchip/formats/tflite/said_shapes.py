"""Inputs that say what shape an operator's output has."""

from __future__ import annotations

from typing import Final

import numpy as np

from onchip.formats.tflite.network import FlatNetwork
from onchip.formats.tflite.runtime import Values

_SAYS_ITS_SHAPE: Final = {"TRANSPOSE_CONV": 0, "RESHAPE": 1, "BROADCAST_TO": 1, "FILL": 0}
_SAYS_ITS_PIXELS: Final = {"RESIZE_BILINEAR": 1, "RESIZE_NEAREST_NEIGHBOR": 1}


def said_shape(network: FlatNetwork, index: int) -> Values | None:
    """What such an input must hold, so that the output has the shape that the network has; None for any other."""
    for operator in network.operators:
        for places, skipped in ((_SAYS_ITS_SHAPE, slice(None)), (_SAYS_ITS_PIXELS, slice(1, 3))):
            place = places.get(operator.kind)
            if place is not None and place < len(operator.inputs) and operator.inputs[place] == index:
                return np.array(network.tensors[operator.outputs[0]].shape[skipped])
    return None
