"""Run tiles of an ONNX model's operators, some of which run in steps.

A normalisation's statistics are summed in 64 bits and stored in at least 32. Operators fused after a normalisation run
by the model's own nodes.

This is exact if a region of the output depends only on the operands of the tile. A part of a sum is the operator on
that part with the neutral element elsewhere; terms that are added once, such as a bias, are subtracted from all parts
except the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Self, cast

import numpy as np
import onnx
from onnx.helper import get_attribute_value

from onchip.errors import GraphError
from onchip.formats.onnx.nodes import node_names
from onchip.formats.onnx.program import Array
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Range, Region, SumPart, Tile
from onchip.ops.contractions import kept_dimensions, longest_reduced
from onchip.ops.pointwise import (
    ATTENTION_SCORES,
    ATTENTION_WEIGHTS,
    BY_CHANNEL,
    STATISTICS_OF,
    summed_dimension,
)
from onchip.ops.slicing import (
    AFFINE,
    ATTENTION_VALUES,
    COMPARED,
    CONTINUED,
    GROUP_MEAN,
    GROUP_VARIANCE,
    MULTIPLIED,
    REDUCTIONS,
    STATISTICS,
    Outline,
)
from onchip.simulate.kernels.onnx_kernels import OnnxKernels
from onchip.transform.slices.bands import Bytes, bytes_of_region, bytes_put_together, place_of

_EPSILON = 1e-5


class StepKernels:
    """Kernels for `graph`, which is `whole` with some operators in steps; `kernels` runs those of `whole`."""

    name = OnnxKernels.name

    def __init__(self, graph: Graph, whole: Graph, kernels: OnnxKernels) -> None:
        self._graph = graph
        self._whole = whole
        self._kernels = kernels
        self._original = dict(_originals(graph, whole))
        nodes = kernels.network.nodes
        self._nodes: Mapping[str, onnx.NodeProto] = dict(zip(node_names(nodes), nodes, strict=True))

    # Delegated to the kernels of whole operators

    def parameter(self, tensor: Tensor) -> Bytes:
        """Return the bytes of a parameter, as the model holds it."""
        return self._kernels.parameter(tensor)

    def network_input(self, tensor: Tensor) -> Bytes:
        """Return random bytes of the input's type, determined by its name and the seed."""
        return self._kernels.network_input(tensor)

    def given_input(self, tensor: Tensor, array: Array) -> Bytes:
        """Return the bytes of a given value; raises InputError for another type or shape."""
        return self._kernels.given_input(tensor, array)

    def difference_from_whole_model(self, inputs: Mapping[str, Bytes], outputs: Mapping[str, Bytes]) -> float:
        """Return the relative difference from the outputs of the original model."""
        return self._kernels.difference_from_whole_model(inputs, outputs)

    # Steps

    def is_step(self, operator: Operator) -> bool:
        """Return True if the operator is a step of one of the model's."""
        return operator.name in self._original

    def element_type(self, output: str) -> np.dtype[np.generic]:
        """Return the output type of an operator or step; raises GraphError for a type without a numpy equivalent."""
        writer = self._graph.producer[output]
        if not self.is_step(writer) or output in self._whole.tensor:
            return self._kernels.element_type(output)
        own = self._kernels.element_type(self._original[writer.name].outputs[0])
        return np.result_type(own, np.float32) if writer.kind in STATISTICS else own

    def run(self, operator: Operator, operands: Mapping[str, Bytes]) -> Mapping[str, Bytes]:
        """Return the operator's outputs; raises GraphError if onnxruntime cannot run it, and for integer steps."""
        if not self.is_step(operator):
            return self._kernels.run(operator, operands)
        values = self.part_of_step(operator, operands, None)
        output = operator.outputs[0]
        original = self._original[operator.name]
        if operator.name == original.name and len(original.members) > 1:
            return self._with_what_is_fused(original, values, operands)
        return {output: _bytes(values, self.element_type(output))}

    def part_of_step(self, step: Operator, operands: Mapping[str, Bytes], part: Range | None) -> Array:
        """Return a step's result over a range of its reduction, in 64 bits; None for the whole reduction.

        Raises GraphError for elements that are not floating-point numbers.
        """
        shapes = Outline(step, self._graph, is_model=True).shapes()
        arrays = [self._values(name, operands[name], shape) for name, shape in zip(step.inputs, shapes, strict=False)]
        if step.kind in STATISTICS:
            return self._statistic(step, arrays, part)
        if step.kind == ATTENTION_SCORES:
            return self._scores(step, arrays)
        if step.kind == ATTENTION_WEIGHTS:
            return _softmax(arrays[0])
        if step.kind == ATTENTION_VALUES:
            weights, values = arrays
            keys = slice(*(part or (0, values.shape[2])))
            return np.asarray(weights[..., keys] @ _for_each_head(values, weights)[:, :, keys])
        return self._normalised(step, arrays, operands)

    def _values(self, name: str, content: Bytes, shape: Sequence[int]) -> Array:
        dtype = self._type_of(name)
        if dtype.kind not in "fb":
            what = f"it is taken apart in steps, and its elements are {dtype}"
            raise GraphError(what, place=f"tensor {name!r}", expected="floating-point numbers")
        values = content.view(dtype).reshape(shape)
        return values if dtype.kind == "b" else values.astype(np.float64)

    def _type_of(self, name: str) -> np.dtype[np.generic]:
        if name in self._whole.tensor:
            return self._kernels.values.type_of(name)[0]
        return self.element_type(name)

    def _statistic(self, step: Operator, arrays: Sequence[Array], part: Range | None) -> Array:
        """Return a statistic of all elements of a group, or the share of a part of them."""
        source, *found = arrays
        groups = self._graph.tensor[step.outputs[0]].shape or ()
        reduced = tuple(at for at, size in enumerate(groups) if size != source.shape[at])
        count = source.size // max(prod(groups), 1)
        summed = summed_dimension(Outline(step, self._graph, is_model=True))
        here = slice(None) if part is None else slice(*part)
        seen = source[tuple(here if at == summed else slice(None) for at in range(source.ndim))]
        about_mean = seen - found[0] if step.kind == GROUP_VARIANCE else seen
        each = seen if step.kind == GROUP_MEAN else np.square(about_mean)
        return np.asarray(each.sum(axis=reduced, keepdims=True) / count)

    def _scores(self, step: Operator, arrays: Sequence[Array]) -> Array:
        queries, keys, *masks = arrays
        attributes = self._attributes(self._node(step))
        scale = float(attributes.get("scale", 0) or 1 / np.sqrt(queries.shape[-1]))
        scores = queries @ _for_each_head(keys, queries).swapaxes(2, 3) * scale
        for mask in masks:
            scores = np.where(mask, scores, -np.inf) if mask.dtype.kind == "b" else scores + mask
        return np.asarray(scores)

    def _normalised(self, step: Operator, arrays: Sequence[Array], operands: Mapping[str, Bytes]) -> Array:
        """Return the output of the node itself, before the operators fused after it."""
        kind, node = self._original[step.name].kind, self._node(step)
        source, *found = arrays[: 1 + STATISTICS_OF[kind]]
        spread = [_spread(each, source.shape) if kind in BY_CHANNEL else each for each in found]
        mean, square = spread if len(spread) > 1 else (0, spread[0])
        values = (source - mean) / np.sqrt(square + float(self._attributes(node).get("epsilon", _EPSILON)))
        for name, combine in zip(node.input[1:], (np.multiply, np.add), strict=False):
            if name:
                along = self._scale(name, operands)
                values = combine(values, _by_channel(along, source.shape) if kind in BY_CHANNEL else along)
        return np.asarray(values)

    def _scale(self, name: str, operands: Mapping[str, Bytes]) -> Array:
        """Return a scale or a shift by its name in the model."""
        base = self._kernels.network.storage.base(name)
        if self._kernels.network.is_constant(base):
            return self._kernels.values.array(base).astype(np.float64)
        dtype, shape = self._kernels.values.type_of(name)
        return operands[base].view(dtype).reshape(shape).astype(np.float64)

    def _node(self, step: Operator) -> onnx.NodeProto:
        original = self._original[step.name]
        return self._nodes[original.members[0] if original.members else original.name]

    def _attributes(self, node: onnx.NodeProto) -> Mapping[str, float]:
        return {attribute.name: get_attribute_value(attribute) for attribute in node.attribute}

    def _with_what_is_fused(
        self, original: Operator, values: Array, operands: Mapping[str, Bytes]
    ) -> Mapping[str, Bytes]:
        written = self._nodes[original.members[0]].output[0]
        beside = {name: content for name, content in operands.items() if name in original.reads}
        found = _bytes(values, self._kernels.element_type(original.outputs[0]))
        return self._kernels.run(original, {**beside, written: found})


def _originals(graph: Graph, whole: Graph) -> Mapping[str, Operator]:
    """Return a map from each step to its original operator; the last step has the original's name."""
    found: dict[str, Operator] = {}
    before: list[str] = []
    for operator in graph.operators:
        original = whole.operator.get(operator.name)
        if original is None:
            before.append(operator.name)
        elif original.kind != operator.kind:
            found |= dict.fromkeys((*before, operator.name), original)
            before = []
    return found


def _softmax(scores: Array) -> Array:
    """Return the softmax; not a number for a fully masked row, as in onnxruntime."""
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=-1, keepdims=True))


def _for_each_head(shared: Array, queries: Array) -> Array:
    """Return keys or values repeated for each head of queries."""
    return np.repeat(shared, queries.shape[1] // shared.shape[1], axis=1)


def _spread(statistic: Array, shape: Sequence[int]) -> Array:
    """Return for each channel the statistic of its group."""
    samples, groups = statistic.shape[:2]
    each = np.repeat(statistic.reshape(samples, groups), shape[1] // groups, axis=1)
    return each.reshape(samples, shape[1], *(1,) * (len(shape) - 2))


def _by_channel(scale: Array, shape: Sequence[int]) -> Array:
    """Return one value per channel from one per channel or group of channels."""
    each = np.repeat(scale, shape[1] // scale.size)
    return each.reshape(shape[1], *(1,) * (len(shape) - 2))


def _bytes(values: Array, dtype: np.dtype[np.generic]) -> Bytes:
    return np.ascontiguousarray(values.astype(dtype)).reshape(-1).view(np.uint8)


class OnnxTileKernels:
    """Runs `graph`, the tiles of `whole`, with the operators of `kernels`."""

    name = OnnxKernels.name

    def __init__(self, graph: Graph, whole: Graph, kernels: OnnxKernels) -> None:
        self._graph = graph
        self._whole = whole
        self._kernels = kernels

    def parameter(self, tensor: Tensor) -> Bytes:
        """Return a parameter's bytes; of a band, its region."""
        base, shape = self._base(tensor)
        return bytes_of_region(self._kernels.parameter(base), shape, place_of(tensor)[1])

    def network_input(self, tensor: Tensor) -> Bytes:
        """Return a random array for the seed; a band is a region of it."""
        base, shape = self._base(tensor)
        return bytes_of_region(self._kernels.network_input(base), shape, place_of(tensor)[1])

    def given_input(self, tensor: Tensor, array: Array) -> Bytes:
        """Return the bytes of a value handed in for the whole tensor; of a band, its region. Raises InputError."""
        base, shape = self._base(tensor)
        return bytes_of_region(self._kernels.given_input(base, array), shape, place_of(tensor)[1])

    def run(self, operator: Operator, operands: Mapping[str, Bytes]) -> Mapping[str, Bytes]:
        """Return the operator's outputs; raises GraphError where onnxruntime does not know how."""
        tile = operator.tile
        if tile is None:
            return self._kernels.run(operator, operands)
        original = self._whole.operator[tile.operator]
        before = operator.inputs[-1] if tile.part.adds_to_a_sum else None
        bands: dict[str, list[tuple[Tensor, Bytes]]] = {name: [] for name in original.inputs}
        for name, content in operands.items():
            if name != before:
                tensor = tile.seen(self._graph.tensor[name])
                bands.setdefault(place_of(tensor)[0], []).append((tensor, content))
        if tile.part is SumPart.WHOLE:
            values = self._kernels.run(original, self._given(bands))
        else:
            earlier = None if before is None else operands[before]
            values = {tile.outputs[0]: self._part_of_sum(original, tile, bands, earlier)}
        written = {}
        for name in operator.outputs:
            base, region = place_of(self._graph.tensor[name])
            base, region = (base, region) if base in values else (tile.outputs[0], tile.regions[0])
            written[name] = bytes_of_region(values[base], self._whole.tensor[base].shape or (), region)
        return written

    def _given(self, bands: Mapping[str, list[tuple[Tensor, Bytes]]]) -> dict[str, Bytes]:
        return {name: self._put_together(self._whole.tensor[name], each) for name, each in bands.items()}

    def _part_of_sum(
        self,
        original: Operator,
        tile: Tile,
        bands: Mapping[str, list[tuple[Tensor, Bytes]]],
        before: Bytes | None,
    ) -> Bytes:
        """Return the bytes of the whole output, with the current partial sum in the tile's region."""
        output = tile.outputs[0]
        dtype, shape = self._kernels.element_type(output), self._whole.tensor[output].shape or ()
        combination = combination_of(original.kind, dtype)
        given, source = self._given(bands), original.inputs[0]
        earlier = None if before is None else before.view(dtype)
        if original.kind in REDUCTIONS:
            part = ReducedPart.of(original, self._whole, tile.reduction or (0, 1))
            alone = part.alone(given[source], combination)
            if earlier is not None and original.kind == CONTINUED:
                part.go_on(alone, tile.regions[0], earlier)
                earlier = None
            given[source] = alone.reshape(-1).view(np.uint8)
        found = self._kernels.run(original, given)[output].view(dtype).reshape(shape).copy()
        if earlier is None:
            return found.reshape(-1).view(np.uint8)
        if original.kind in AFFINE:
            nothing = {name: np.zeros_like(content) for name, content in given.items() if name in original.inputs}
            found -= self._kernels.run(original, nothing)[output].view(dtype).reshape(shape)
        here = tuple(slice(*each) for each in tile.regions[0])
        found[here] = combination.combine(found[here], earlier.reshape(found[here].shape))
        return found.reshape(-1).view(np.uint8)

    def difference_from_whole_model(self, inputs: Mapping[str, Bytes], outputs: Mapping[str, Bytes]) -> float:
        """Return the difference from the whole model, after the bands are put together."""
        given = {tensor.name: self._gathered(tensor, inputs) for tensor in self._whole.with_role(Role.INPUT)}
        found = {tensor.name: self._gathered(tensor, outputs) for tensor in self._whole.with_role(Role.OUTPUT)}
        return self._kernels.difference_from_whole_model(given, found)

    def _base(self, tensor: Tensor) -> tuple[Tensor, tuple[int, ...]]:
        base = self._whole.tensor[place_of(tensor)[0]]
        return base, base.shape or ()

    def _gathered(self, base: Tensor, contents: Mapping[str, Bytes]) -> Bytes:
        if base.name in contents:
            return contents[base.name]
        bands = [(tensor, contents[tensor.name]) for tensor in self._graph.tensors if tensor.part_of == base.name]
        return self._put_together(base, bands)

    def _put_together(self, base: Tensor, bands: list[tuple[Tensor, Bytes]]) -> Bytes:
        if len(bands) == 1 and bands[0][0].part_of is None:
            return bands[0][1]
        return bytes_put_together(base, bands)


@dataclass(frozen=True, slots=True)
class PartCombination:
    """Combines the results of two parts into that of both; a `neutral` element changes no result."""

    combine: Callable[[Array, Array], Array]
    neutral: Any
    dtype: np.dtype[np.generic]


@dataclass(frozen=True, slots=True)
class ReducedPart:
    """A part of a reduction in the seen input: a range of the longest reduced dimension."""

    seen: tuple[int, ...]
    kept: Mapping[int, int]
    longest: int
    part: Range

    @classmethod
    def of(cls, original: Operator, graph: Graph, part: Range) -> Self:
        """Describe a part; raises GraphError for an operator whose kept dimensions are unknown, which is never cut."""
        outline = Outline(original, graph, is_model=True)
        seen = outline.shapes()[0]
        kept = kept_dimensions(original, seen, outline.written)
        longest = None if kept is None else longest_reduced(seen, kept)
        if kept is None or longest is None:
            raise GraphError("it has no parts", place=f"operator {original.name!r}", expected="a reduction")
        return cls(seen, kept, longest, part)

    def alone(self, content: Bytes, combination: PartCombination) -> Array:
        """Return the input with neutral elements outside the part: bands may hold more of a view than the part."""
        values = content.view(combination.dtype).reshape(self.seen)
        found = np.full_like(values, combination.neutral)
        here = self._at(slice(*self.part))
        found[here] = values[here]
        return found

    def go_on(self, values: Array, region: Region, before: Array) -> None:
        """Put the current partial sum next to the part: before it, or after it if it is the first."""
        start, stop = self.part
        here = list(self._at(start - 1 if start else stop))
        for at in range(len(here)):
            if at in self.kept:
                here[at] = slice(*region[self.kept[at]])
            elif at != self.longest:
                here[at] = 0
        place = tuple(here)
        values[place] = before.reshape(values[place].shape)

    def _at(self, along: slice | int) -> tuple[slice | int, ...]:
        return tuple(along if at == self.longest else slice(None) for at in range(len(self.seen)))


def combination_of(kind: str, dtype: np.dtype[np.generic]) -> PartCombination:
    """Return how parts of a reduction of this kind combine over elements of this type; most kinds add."""
    if kind in COMPARED:
        is_greatest = kind == "ReduceMax"
        combine = np.maximum if is_greatest else np.minimum
        if dtype.kind == "f":
            return PartCombination(combine, -np.inf if is_greatest else np.inf, dtype)
        limits = np.iinfo(dtype)  # type: ignore[type-var]
        return PartCombination(combine, limits.min if is_greatest else limits.max, dtype)
    return PartCombination(np.multiply, 1, dtype) if kind in MULTIPLIED else PartCombination(np.add, 0, dtype)


class OnnxStepTileKernels(OnnxTileKernels):
    """Runs `graph`, the tiles of `in_steps`; `kernels` runs the operators."""

    def __init__(self, graph: Graph, in_steps: Graph, kernels: StepKernels) -> None:
        # OnnxTileKernels uses only the part of the interface that both kinds of kernels share.
        super().__init__(graph, in_steps, cast("OnnxKernels", kernels))
        self._steps = kernels

    def _part_of_sum(
        self,
        original: Operator,
        tile: Tile,
        bands: Mapping[str, list[tuple[Tensor, Bytes]]],
        before: Bytes | None,
    ) -> Bytes:
        if not self._steps.is_step(original):
            return super()._part_of_sum(original, tile, bands, before)
        dtype = self._steps.element_type(tile.outputs[0])
        found = self._steps.part_of_step(original, self._given(bands), tile.reduction)
        if before is not None:
            here = tuple(slice(*each) for each in tile.regions[0])
            found[here] += before.view(dtype).reshape(found[here].shape)
        return np.ascontiguousarray(found.astype(dtype)).reshape(-1).view(np.uint8)
