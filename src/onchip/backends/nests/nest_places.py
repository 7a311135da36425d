"""Where the elements of a layer's operands lie: as a network has them, and in tiles that were copied.

Channels are last, as in TensorFlow: inputs [N][height][width][G][C], weights [R][S][C][G][K], outputs [N][P][Q][G][K].
So of a product of matrices, A[N][C] times B[C][K] gives [N][K].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

from onchip.backends.nests.nest_loops import CNest
from onchip.ir.layer import INPUT, OUTPUT, RELEVANT, WEIGHT, Layer

LINE_ELEMENTS: Final = 16
"""Of float32 in a line of a cache. Rows of copied inputs are an odd number of lines apart, to meet in no one set."""


@dataclass(frozen=True, slots=True)
class OperandPlace:
    """How many elements one goes on where a loop goes on by one, by the loop's name; and along the tile in registers.

    Along the dimension of the lanes, one goes on by a vector in the tile.
    """

    loops: Mapping[str, int]
    tile: Mapping[str, int]
    elements: int


@dataclass(frozen=True, slots=True)
class InputBlock:
    """A copied block of the input: `sizes` and `strides` by axis, in elements."""

    sizes: Mapping[str, int]
    strides: Mapping[str, int]

    @property
    def elements(self) -> int:
        """How many elements it takes, those between its rows among them."""
        return self.sizes["N"] * self.strides["N"]


def place_in_network(nest: CNest, operand: str) -> OperandPlace:
    """Return where an operand of the network lies."""
    strides = _network_strides(nest.layer, operand)
    return _place(nest, strides, nest.layer.elements(operand))


def place_of_packed_weights(nest: CNest) -> OperandPlace:
    """Where weights lie in a copied tile: in the order in which the loops read them, each vector whole."""
    loops: dict[str, int] = {}
    tile: dict[str, int] = {}
    stride = nest.width
    for dimension in ("K", "G", "C", "S", "R"):
        tile[dimension] = stride
        stride *= nest.vectors(dimension)
    for loop in (*nest.steps, *nest.around[: nest.packed[WEIGHT]]):
        if loop.dimension in RELEVANT[WEIGHT]:
            loops[loop.name] = stride
            stride *= loop.size
    return OperandPlace(loops, tile, stride)


def place_of_packed_input(nest: CNest) -> OperandPlace:
    """Return where inputs lie in a copied block."""
    block = input_block(nest)
    strides = _along_loops(nest.layer, block.strides)
    inner = {loop.name for loop in nest.around[nest.packed[INPUT] :]}
    place = _place(nest, strides, block.elements)
    return OperandPlace(
        {name: stride for name, stride in place.loops.items() if name not in inner}, place.tile, place.elements
    )


def input_block(nest: CNest) -> InputBlock:
    """The block of the input that the loops inside its copy read, zeros around it included where it is whole."""
    layer = nest.layer
    spans = {name: nest.span(name, nest.packed[INPUT]) for name in RELEVANT[INPUT]}
    spans = {name: min(span, layer.bounds[name]) for name, span in spans.items()}
    height, width = layer.axes
    sizes = {
        "N": spans["N"],
        "H": height.span(spans["P"], spans["R"]),
        "W": width.span(spans["Q"], spans["S"]),
        "G": spans["G"],
        "C": spans["C"],
    }
    pixel = _odd_lines(sizes["G"] * sizes["C"])
    row = sizes["W"] * pixel
    image = sizes["H"] * row
    return InputBlock(sizes, {"N": image, "H": row, "W": pixel, "G": sizes["C"], "C": 1})


def network_axes(layer: Layer) -> dict[str, int]:
    """How far apart neighbours along each axis of the input lie."""
    height, width = layer.input_pixels
    pixel = layer.g * layer.c
    return {"N": height * width * pixel, "H": width * pixel, "W": pixel, "G": layer.c, "C": 1}


def _odd_lines(elements: int) -> int:
    if elements < LINE_ELEMENTS:
        return elements
    lines = -(-elements // LINE_ELEMENTS)
    return (lines + 1 - lines % 2) * LINE_ELEMENTS


def _network_strides(layer: Layer, operand: str) -> dict[str, int]:
    if operand == INPUT:
        return _along_loops(layer, network_axes(layer))
    order = ("R", "S", "C", "G", "K") if operand == WEIGHT else ("N", "P", "Q", "G", "K")
    bounds = layer.bounds
    return {name: prod(bounds[inner] for inner in order[at + 1 :]) for at, name in enumerate(order)}


def _along_loops(layer: Layer, axes: Mapping[str, int]) -> dict[str, int]:
    """The loops P and R move along the height, Q and S along the width."""
    return {
        "N": axes["N"],
        "P": layer.stride[0] * axes["H"],
        "R": layer.dilation[0] * axes["H"],
        "Q": layer.stride[1] * axes["W"],
        "S": layer.dilation[1] * axes["W"],
        "G": axes["G"],
        "C": axes["C"],
    }


def _place(nest: CNest, strides: Mapping[str, int], elements: int) -> OperandPlace:
    loops = {
        loop.name: loop.step * strides[loop.dimension]
        for loop in (*nest.steps, *nest.around)
        if loop.dimension in strides
    }
    tile = {name: stride * (nest.lanes if name == nest.lane_loop else 1) for name, stride in strides.items()}
    return OperandPlace(loops, tile, elements)


def output_place(nest: CNest) -> OperandPlace:
    """Where outputs lie: they are never copied."""
    return place_in_network(nest, OUTPUT)
