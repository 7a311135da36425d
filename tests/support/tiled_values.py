"""A comparison of an ONNX model's operator in tiles with the whole operator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

import numpy as np

from onchip.answer.bindings import Bindings
from onchip.answer.problem import Problem
from onchip.arch.memory import Memory
from onchip.ir.graph import Graph
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Range, Region
from onchip.model.capacity.bounds import operator_need
from onchip.ops.entries import geometry_of
from onchip.ops.slicing import Geometry, OperandAccess
from onchip.simulate.arithmetic_kernels import ArithmeticKernels, values_in_given_order
from onchip.simulate.kernels.onnx_kernels import OnnxKernels
from onchip.simulate.kernels.onnx_tiles import OnnxTileKernels
from onchip.simulate.machine import run_in_given_order
from onchip.transform.slices.bands import Bytes, bytes_of_region, place_of
from support.in_tiles import tiled_to_fit

OPERATOR = "op"
ROOMY = (Memory("sram", 2**40),)


def split_to_share(whole: Graph, share: float, *, is_model: bool, name: str = OPERATOR) -> Graph:
    """Split for a scratchpad with `share` of the need of the operator `name`, which must then be in tiles."""
    need = operator_need(Problem(whole, ROOMY), whole.operator[name]).need_bytes
    problem = Problem(whole, (Memory("sram", int(share * need)),))
    tiled = tiled_to_fit(problem, is_model=is_model)
    assert sum(one.tile is not None and one.tile.operator == name for one in tiled.operators) > 1
    return tiled


def difference_in_tiles(tiled: Graph, whole: Graph, path: Path) -> float:
    """Return the greatest relative difference of the network's outputs from those of onnxruntime."""
    kernels = OnnxTileKernels(tiled, whole, OnnxKernels(whole, path, Bindings()))
    inputs = {tensor.name: kernels.network_input(tensor) for tensor in tiled.with_role(Role.INPUT)}
    outputs = run_in_given_order(Problem(tiled, ROOMY), kernels, inputs).outputs
    return kernels.difference_from_whole_model(inputs, outputs)


def tiles_that_read_too_little(graph: Graph, path: Path) -> Iterator[tuple[Range, ...]]:
    """Yield the tiles of `op` whose outputs change with input elements outside of the region that the tile reads."""
    operator, kernels = graph.operator[OPERATOR], OnnxKernels(graph, path, Bindings())
    geometry = geometry_of(operator, graph, is_model=True)
    assert geometry is not None
    assert any(axis.size > 1 for axis in geometry.axes)
    contents = {name: kernels.network_input(graph.tensor[name]) for name in operator.inputs}
    expected = kernels.run(operator, contents)
    for tile in _some_tiles(geometry):
        reads = [access for access in geometry.reads if access.tensor in contents]
        given = dict(contents)
        for name in contents:
            regions = [one.region(tile, geometry.axes) for one in reads if one.tensor == name]
            given[name] = _spoilt(contents[name], graph.tensor[name], [one for one in regions if one is not None])
        found = kernels.run(operator, given)
        if any(_differs(found, expected, graph, write, tile, geometry) for write in geometry.writes):
            yield tile


def _some_tiles(geometry: Geometry) -> Iterator[tuple[Range, ...]]:
    """Yield tiles of one position along some axes, all of others, and all of the reduced axis."""

    def pieces(size: int) -> list[Range]:
        return sorted({(0, size), (0, 1), (size // 2, size // 2 + 1), (size - 1, size)})

    yield from product(*([(0, axis.size)] if axis.is_reduction else pieces(axis.size) for axis in geometry.axes))


def _differs(
    found: Mapping[str, Bytes],
    expected: Mapping[str, Bytes],
    graph: Graph,
    write: OperandAccess,
    tile: tuple[Range, ...],
    geometry: Geometry,
) -> bool:
    shape, region = graph.tensor[write.tensor].shape or (), write.region(tile, geometry.axes)
    assert region is not None
    after, before = (bytes_of_region(one[write.tensor], shape, region) for one in (found, expected))
    return not np.array_equal(after, before)


def _spoilt(content: Bytes, tensor: Tensor, kept: list[Region]) -> Bytes:
    """Return the bytes of a tensor with other values everywhere except in some regions."""
    dtype = {32: np.float32, 64: np.int64}[tensor.bits or 0]
    whole = content.view(dtype).reshape(tensor.shape or ())
    other = (1 - whole).astype(dtype)
    for region in kept:
        here = tuple(slice(*each) for each in region)
        other[here] = whole[here]
    return np.ascontiguousarray(other).reshape(-1).view(np.uint8)


def whole_tensor_differences(graph: Graph, whole: Graph, seed: int = 0) -> tuple[str, ...]:
    """Return the tensors of the tiled `graph` whose values differ from their regions of the tensors of `whole`."""
    kernels, whole_kernels = ArithmeticKernels(graph, seed), ArithmeticKernels(whole, seed)
    found = values_in_given_order(graph, kernels, _inputs(graph, kernels))
    expected = values_in_given_order(whole, whole_kernels, _inputs(whole, whole_kernels))
    differing = []
    for tensor in graph.tensors:
        base, region = place_of(tensor)
        if tensor.name in found and base in expected:
            content = bytes_of_region(expected[base], whole.tensor[base].shape or (), region)
            if not np.array_equal(found[tensor.name], content):
                differing.append(tensor.name)
    return tuple(differing)


def _inputs(graph: Graph, kernels: ArithmeticKernels) -> dict[str, Bytes]:
    return {tensor.name: kernels.network_input(tensor) for tensor in graph.with_role(Role.INPUT)}
