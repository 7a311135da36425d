"""A network as TFLite Micro runs it: a model in tiles, and a graph of what its arena holds.

A model in tiles has partial operators, slices and concatenations. A tile along rows or columns runs by the operator
itself with its own options, on the part of the input that it reads. If the padding of that part begins elsewhere, the
part gets a few more rows, and the superfluous rows of the output are cut off. docs/tflite_micro.md derives the rows.

The new tensors and operators stand in front of the bytes of the file, which stay unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count, pairwise, product
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from onchip.errors import GraphError
from onchip.formats.networks import network_of_file
from onchip.formats.tflite.arena import ALIGNMENT_BYTES, scratch_bytes
from onchip.formats.tflite.file import ModelFile, dtype_of, model_file, options_of, refused_if_damaged
from onchip.formats.tflite.graph import BUFFER_ALIGNMENT_BYTES, Front, ReadNetwork
from onchip.formats.tflite.network import NetworkOperator
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.tile import Range, Region, SumPart, size_of, whole_region
from onchip.transform.rewrite.shared_bytes import with_workspaces


@dataclass(frozen=True, slots=True)
class MicroNetwork:
    """A network as TFLite Micro runs it: the model, and a graph of what its arena holds.

    `made` maps each operator of the tiled network to the tensors that the model's operators for it write.
    """

    read: ReadNetwork
    graph: Graph
    made: Mapping[str, tuple[str, ...]]

    def in_order(self, tiles: Sequence[str]) -> tuple[str, ...]:
        """Return the graph's operators in an order of the tiled network's operators."""
        graph, order = self.graph, dict[str, None]()
        for tensor in (tensor for tile in tiles for tensor in self.made.get(tile, ())):
            waiting = [tensor]
            while waiting:
                writer = graph.producer.get(waiting[-1])
                before = [] if writer is None or writer.name in order else [*writer.inputs]
                missing = [one for one in before if one in graph.producer and graph.producer[one].name not in order]
                if not missing:
                    order |= {} if writer is None else {writer.name: None}
                    waiting.pop()
                waiting += missing
        return (*order, *(one.name for one in graph.operators if one.name not in order))


def micro_network(read: ReadNetwork, whole: Graph, tiled: Graph) -> MicroNetwork:
    """Return the network in tiles as TFLite Micro runs it; raises GraphError for tiles that it has no operators for."""
    made: Mapping[str, tuple[str, ...]] = {}
    if any(operator.tile for operator in tiled.operators):
        model = TiledModel(read, tiled, whole)
        read = network_of_file(model_file(model.content()), read.graph.name)
        made = model.made
    return MicroNetwork(read, _arena_graph(read), made)


GIVEN, KEPT, END = "@inputs", "@outputs", "@end"
"""Operators that give several inputs at once, or read several outputs at once, and what the latter writes."""


def _arena_graph(read: ReadNetwork) -> Graph:
    """Return the raw graph with the lives of tensors in the arena, and the scratch buffers of kernels as workspaces.

    All inputs are there from the start, and all outputs until the end. The runtime keeps states elsewhere.
    """
    graph = read.graph
    states = {name for name, index in read.index.items() if read.storage.is_state(index)}
    inputs, outputs = (
        tuple(one.name for one in graph.with_role(role) if one.name not in states) for role in (Role.INPUT, Role.OUTPUT)
    )
    shown = {one.outputs[0]: one.inputs[0] for one in graph.operators if one.name not in read.source and one.inputs}
    outputs = tuple(dict.fromkeys(shown.get(name, name) for name in outputs))  # a view of an input is the input
    tensors = [one for one in graph.tensors if one.name not in states and one.name not in shown]
    operators = [
        replace(
            one,
            inputs=tuple(name for name in one.inputs if name not in states),
            outputs=tuple(name for name in one.outputs if name not in states),
            workspace_bytes=_scratch_bytes(read, one),
        )
        for one in graph.operators
        if one.outputs[0] not in shown
    ]
    if len(inputs) > 1:
        tensors = [replace(one, role=Role.ACTIVATION) if one.name in inputs else one for one in tensors]
        operators = [Operator(GIVEN, GIVEN, (), inputs), *operators]
    if len(outputs) > 1:
        tensors.append(Tensor(END, 1, Role.ACTIVATION))
        operators.append(Operator(KEPT, KEPT, outputs, (END,)))
    return with_workspaces(Graph(graph.name, tuple(tensors), tuple(operators)))


def _scratch_bytes(read: ReadNetwork, operator: Operator) -> int:
    source = read.source.get(operator.name)
    sizes = () if source is None else scratch_bytes(source, read.network.tensors)
    return sum(-(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES for size in sizes)


_SAME: Final = 0
_WINDOWS: Final = ("CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "AVERAGE_POOL_2D")
_ELEMENTWISE: Final = frozenset(
    {"ABS", "ADD", "ELU", "HARD_SWISH", "LEAKY_RELU", "LOGISTIC", "MAXIMUM", "MINIMUM", "MUL", "NEG", "PRELU"}
    | {"QUANTIZE", "DEQUANTIZE", "RELU", "RELU6", "SQUARED_DIFFERENCE", "SUB", "TANH", "CONCATENATION", "SOFTMAX"}
)
_PADS: Final = ("PAD", "PADV2")
_FILTERS: Final = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3}
"""The axis of the output channels in the weights."""
_MOST_JOINED: Final = 10
"""Inputs of a concatenation that TFLite Micro takes (`kMaxInputNum` of its kernel)."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A tensor of the new model that holds a region of a tensor of the file."""

    name: str
    region: Region


@dataclass
class TiledModel:
    """The rewriting of one model; raises GraphError for tiles that no standard operator computes."""

    read: ReadNetwork
    graph: Graph
    """The plan's graph, whose operators may be tiles."""
    whole: Graph
    tensors: dict[str, NewTensor | tuple[str, int]] = field(default_factory=dict)
    operators: list[NewOperator] = field(default_factory=list)
    parts: dict[int, list[_Part]] = field(default_factory=dict)
    """By index of the file's tensors, the parts that were computed."""
    made: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By operator of `graph`, the tensors that its new operators write."""

    def content(self) -> bytes:
        """Return the model, in the order of `graph`."""
        network = self.read.network
        for index in network.inputs:
            self._has_whole(index)
        for operator in self.graph.operators:
            before = len(self.operators)
            self._compute(operator)
            self.made[operator.name] = tuple(one.outputs[0] for one in self.operators[before:])
        outputs = [self._whole(index) for index in network.outputs]
        ends = [network.tensors[index].name for index in network.inputs], outputs
        return rewritten_model(self.read.file, list(self.tensors.values()), self.operators, ends)

    def _has_whole(self, index: int) -> str:
        tensor = self.read.network.tensors[index]
        self.tensors.setdefault(tensor.name, (tensor.name, index))
        part = _Part(tensor.name, whole_region(tensor.shape))
        if part not in self.parts.setdefault(index, []):
            self.parts[index].append(part)
        return tensor.name

    def _new(self, wanted: str, region: Region, like: int) -> str:
        names = chain((wanted,), (f"{wanted} {number}" for number in count(2)))
        name = next(one for one in names if one not in self.tensors)
        self.tensors[name] = NewTensor(name, tuple(stop - start for start, stop in region), like)
        return name

    def _constant(self, values: np.ndarray, like: int | None = None, channels: Range | None = None) -> str:
        name = f"onchip constant {len(self.tensors)}"
        self.tensors[name] = NewTensor(name, values.shape, like, values, channels)
        return name

    def _is_constant(self, index: int) -> bool:
        return self.read.network.tensors[index].stated.content is not None

    def _value(self, index: int) -> npt.NDArray[Any] | None:
        """Return the value of a constant; None for a computed tensor."""
        stated, tensor = self.read.network.content(self.read.file, index), self.read.network.tensors[index]
        return None if stated is None else np.frombuffer(stated, dtype_of(tensor.element_type)).reshape(tensor.shape)

    def _region(self, name: str, region: Region) -> Region:
        """Return a region with the file's axes."""
        order = self.read.presented[name].order
        if order == tuple(range(len(order))):
            return region
        found = list(region)
        for at, axis in enumerate(order):
            found[axis] = region[at]
        return tuple(found)

    def _compute(self, operator: Operator) -> None:
        tile = operator.tile
        name = operator.name if tile is None else tile.operator
        original = self.whole.operator[name]
        members = [self.read.source[one] for one in original.members or (original.name,) if one in self.read.source]
        if tile is None or all(
            region == whole_region(tile.shape[one]) for one, region in zip(tile.outputs, tile.regions, strict=True)
        ):
            for member in members:
                self._run_whole(member)
            return
        is_chain = all(
            later.kind in _ELEMENTWISE and later.inputs == earlier.outputs for earlier, later in pairwise(members)
        )
        if tile.part is not SumPart.WHOLE or not is_chain or len(tile.outputs) != 1:
            raise self._refusal(operator, "in parts of sums, with other operands of fused operators or several outputs")
        self._run_tile(operator, members, self._region(tile.outputs[0], tile.regions[0]))

    def _refusal(self, operator: Operator, why: str) -> GraphError:
        what = f"TFLite Micro has no operator for a tile of {operator.kind} {why}"
        return GraphError(what, place=f"operator {operator.name!r}", expected="tiles along rows or columns")

    def _run_whole(self, member: NetworkOperator) -> None:
        inputs = tuple("" if index < 0 else self._whole(index) for index in member.inputs)
        self.operators.append(NewOperator(inputs, tuple(self._has_whole(at) for at in member.outputs), member))

    def _whole(self, index: int) -> str:
        """Return the name of a whole tensor: put together, or computed by operators that plans do not list."""
        if not self._is_constant(index) and index not in self.parts:
            writer = self.read.storage.writer(index)
            if writer is None:
                return self._has_whole(index)
            self._run_whole(writer)
        return self._gathered(index, whole_region(self.read.network.tensors[index].shape))

    def _sliced(self, source: str, index: int, region: Region, origin: Sequence[int]) -> None:
        """Add a slice of a tensor, in which the region's tensor begins at `origin`."""
        name = self.read.network.tensors[index].name
        shown = ",".join(f"{start}:{stop}" for start, stop in region)
        target = self._new(f"{name}[{shown}]", region, index)
        begin = self._constant(np.array([start - at for (start, _), at in zip(region, origin, strict=True)], np.int32))
        size = self._constant(np.array([stop - start for start, stop in region], np.int32))
        self.operators.append(NewOperator((source, begin, size), (target,), kind="SLICE", union="SliceOptions"))
        self.parts.setdefault(index, []).append(_Part(target, region))

    def _gathered(self, index: int, region: Region, before: int = 0, behind: int = 0, axis: int = 0) -> str:
        """Return a tensor with a region, and with rows of any content before and behind it along an axis."""
        tensor = self.read.network.tensors[index]
        if self._is_constant(index):
            self.tensors.setdefault(tensor.name, (tensor.name, index))
            return tensor.name
        pieces = [one for one in self.parts.get(index, ()) if _is_within(one.region, region)]
        exact = next((one for one in pieces if one.region == region), None)
        if not pieces:
            # no other reader uses the slice, so that it is gone soon
            around = next(one for one in self.parts[index] if _is_within(region, one.region))
            self._sliced(around.name, index, region, [start for start, _ in around.region])
            exact = self.parts[index].pop()
        parts = [exact] if exact is not None else sorted(pieces, key=lambda one: one.region)
        if exact is None:
            cut = [at for at, part in enumerate(region) if any(one.region[at] != part for one in pieces)]
            missing = size_of(region) - sum(size_of(one.region) for one in pieces)
            if len(cut) != 1 or missing or (cut[0] != axis and (before or behind)):
                what = "its parts are not put together along one axis"
                raise GraphError(what, place=f"tensor {tensor.name!r}", expected="tiles along rows or columns")
            axis = cut[0]
        start, stop = region[axis]
        for low, high, place in ((start - before, start, 0), (stop, stop + behind, len(parts) + bool(before))):
            if low < high:
                beside = _along(region, axis, low, high)
                parts.insert(place, _Part(self._filled(beside, 0, index), beside))
        while len(parts) > 1:
            parts = [self._joined(index, parts[:_MOST_JOINED], axis), *parts[_MOST_JOINED:]]
        return parts[0].name

    def _joined(self, index: int, parts: Sequence[_Part], axis: int) -> _Part:
        """Add the concatenation of some neighbours."""
        region = _along(parts[0].region, axis, parts[0].region[axis][0], parts[-1].region[axis][1])
        target = self._new(f"{self.read.network.tensors[index].name} gathered", region, index)
        names = tuple(one.name for one in parts)
        union, options = "ConcatenationOptions", {0: axis}
        self.operators.append(NewOperator(names, (target,), kind="CONCATENATION", union=union, options=options))
        return _Part(target, region)

    def _run_tile(self, operator: Operator, members: Sequence[NetworkOperator], region: Region) -> None:
        """Run operators one after another on a tile; all but the first are element-wise."""
        member, output = members[0], members[-1].outputs[0]
        shape = self.read.network.tensors[output].shape
        cut = [at for at, size in enumerate(shape) if region[at] != (0, size)]
        axis = cut[0]
        is_channel = axis == len(shape) - 1
        if len(cut) != 1 or (is_channel and not self._takes_channels(member, axis)):
            raise self._refusal(operator, "along channels or several axes")
        if member.kind in _FILTERS and is_channel:
            inputs = self._filtered(operator, member, region[axis])
            first, count = region[axis][0], region[axis][1] - region[axis][0]
        elif member.kind in _WINDOWS and not is_channel:
            inputs, first, count = self._window(operator, member, region, axis)
        elif member.kind in _PADS:
            inputs, first, count = self._pad(operator, member, region, axis)
        elif member.kind == "TRANSPOSE" and (order := self._value(member.inputs[1])) is not None:
            read = tuple(region[at] for at in np.argsort(order.reshape(-1)))
            inputs = (self._gathered(member.inputs[0], read), self._whole(member.inputs[1]))
            first, count = region[axis][0], region[axis][1] - region[axis][0]
        elif member.kind in (*_ELEMENTWISE, *_WINDOWS):
            inputs = tuple(self._same_region(index, shape, region, axis) for index in member.inputs if index >= 0)
            first, count = region[axis][0], region[axis][1] - region[axis][0]
        else:
            raise self._refusal(operator, f"({member.kind})")
        made = _along(region, axis, first, first + count)
        if not inputs:
            self._fill(member, region)
            return
        for one in members:
            target = self._new(f"{one.name} tile", made, one.outputs[0])
            self.operators.append(NewOperator(inputs, (target,), one))
            inputs = (target,)
        wanted = [self._region(*_place(self.graph.tensor[one])) for one in operator.outputs]
        if wanted == [made]:
            self.parts.setdefault(output, []).append(_Part(target, made))
            return
        for part in wanted:
            self._sliced(target, output, part, [first if at == axis else start for at, (start, _) in enumerate(made)])

    def _fill(self, member: NetworkOperator, region: Region) -> None:
        """Add the constant that a pad writes outside its input."""
        output = member.outputs[0]
        stated = self._value(member.inputs[2]) if len(member.inputs) > 2 else None
        value = zero_point(self.read.file, output) if stated is None else stated.reshape(-1)[0]
        self.parts.setdefault(output, []).append(_Part(self._filled(region, value, output), region))

    def _filled(self, region: Region, value: npt.ArrayLike, like: int) -> str:
        """Add a constant of a region with one value."""
        kind = dtype_of(self.read.network.tensors[like].element_type)
        return self._constant(np.full([stop - start for start, stop in region], value, kind), like)

    def _listed(self, operator: Operator, index: int) -> Region:
        """Return the region of a tensor that a tile reads, by the parts that the plan lists."""
        found = [_place(self.graph.tensor[one]) for one in operator.inputs]
        regions = [self._region(base, region) for base, region in found if self.read.index.get(base) == index]
        if not regions:
            raise self._refusal(operator, "that reads a view")
        return tuple(
            (min(one[at][0] for one in regions), max(one[at][1] for one in regions)) for at in range(len(regions[0]))
        )

    def _takes_channels(self, member: NetworkOperator, axis: int) -> bool:
        """Return True if an operator computes some channels alone from the same channels of its operands."""
        if member.kind == "CONCATENATION":
            return int(options_of(member.stated).get("axis", 0)) % (axis + 1) != axis
        return member.kind in (_ELEMENTWISE | {*_PADS, *_WINDOWS, "TRANSPOSE"}) - {"SOFTMAX"}

    def _filtered(self, operator: Operator, member: NetworkOperator, channels: Range) -> tuple[str, ...]:
        """Return the operands of a convolution of some channels, whose weights and biases are new constants."""
        source, *constants = member.inputs
        found = [self._gathered(source, self._listed(operator, source))]
        for index, axis in zip(constants, (_FILTERS[member.kind], 0), strict=False):
            if index < 0:
                found.append("")
                continue
            if (values := self._value(index)) is None:
                raise self._refusal(operator, "along channels with computed weights")
            found.append(self._constant(np.take(values, range(*channels), axis), index, channels))
        return tuple(found)

    def _same_region(self, index: int, shape: Sequence[int], region: Region, axis: int) -> str:
        """Return the part of an operand that meets a region of the output; axes are counted from the last."""
        tensor = self.read.network.tensors[index]
        own = axis - len(shape) + len(tensor.shape)
        if own < 0 or tensor.shape[own] == 1:
            return self._whole(index)
        if (values := self._value(index)) is not None:
            return self._constant(np.take(values, range(*region[axis]), own), index)
        whole = whole_region(tensor.shape)
        return self._gathered(index, _along(whole, own, *region[axis]))

    def _window(
        self, operator: Operator, member: NetworkOperator, region: Region, axis: int
    ) -> tuple[tuple[str, ...], int, int]:
        """Return the inputs, and the first row and the number of rows that the operator writes on its part."""
        options, source = options_of(member.stated), member.inputs[0]
        letter, word = (("h", "height"), ("w", "width"))[axis - 1]
        is_pool = member.kind.endswith("POOL_2D")
        kernel = int(options[f"filter_{word}"]) if is_pool else self.read.network.tensors[member.inputs[1]].shape[axis]
        stride = int(options.get(f"stride_{letter}", 1))
        dilation = 1 if is_pool else max(int(options.get(f"dilation_{letter}_factor", 1)), 1)
        size, made = (self.read.network.tensors[index].shape[axis] for index in (source, member.outputs[0]))
        taps = range(0, kernel * dilation, dilation)
        window = PaddedWindow(taps, stride, is_same=options.get("padding") == _SAME)
        listed = self._listed(operator, source)
        low, high = listed[axis]
        pad = window.before(size)
        for before, behind in sorted(product(range(2 * taps.stop), repeat=2), key=sum):
            place = window.fits(before, low, high, behind, region[axis], pad, size)
            if place is not None:
                own = self._gathered(source, listed, before, behind, axis)
                rest = tuple("" if index < 0 else self._whole(index) for index in member.inputs[1:])
                count = window.outputs(before + high - low + behind)
                return (own, *rest), region[axis][0] - place, count
        raise self._refusal(operator, f"of {made} rows")

    def _pad(
        self, operator: Operator, member: NetworkOperator, region: Region, axis: int
    ) -> tuple[tuple[str, ...], int, int]:
        """Return the inputs of a pad of the part that lies in the tile; a tile outside the part is a constant."""
        source, around, *value = member.inputs
        size, stated = self.read.network.tensors[source].shape, self._value(around)
        if stated is None:
            raise self._refusal(operator, "with computed padding")
        pads = stated.reshape(-1, 2).astype(np.int32)
        start, stop = region[axis]
        low, high = (min(max(end - int(pads[axis, 0]), 0), size[axis]) for end in (start, stop))
        if low >= high:
            return (), start, stop - start
        pads[axis] = int(pads[axis, 0]) + low - start, stop - int(pads[axis, 0]) - high
        part = tuple((low, high) if at == axis else (0, length) for at, length in enumerate(size))
        inputs = (self._gathered(source, part), self._constant(pads), *(self._whole(index) for index in value))
        return inputs, start, stop - start


@dataclass(frozen=True, slots=True)
class PaddedWindow:
    """The taps of a window along an axis."""

    taps: range
    stride: int
    is_same: bool

    @property
    def reach(self) -> int:
        """Elements from the first tap to the last."""
        return self.taps[-1] + 1

    def outputs(self, size: int) -> int:
        """Return the number of outputs on an axis of `size`."""
        return -(-size // self.stride) if self.is_same else max(0, (size - self.reach) // self.stride + 1)

    def before(self, size: int) -> int:
        """Return the padding before an axis of `size`, as the runtime chooses it."""
        return max(0, (self.outputs(size) - 1) * self.stride + self.reach - size) // 2 if self.is_same else 0

    def fits(
        self, before: int, low: int, high: int, behind: int, wanted: tuple[int, int], pad: int, size: int
    ) -> int | None:
        """Return the output on the part that is the first wanted one, if all wanted outputs read the same; else None.

        The part is [low, high) of an axis of `size`, with other elements before and behind it.
        """
        length = before + high - low + behind
        own = self.before(length)
        shift = wanted[0] * self.stride - pad - low + before + own
        place, rest = divmod(shift, self.stride)
        if rest or place < 0 or place + wanted[1] - wanted[0] > self.outputs(length):
            return None
        for at in range(wanted[1] - wanted[0]):
            for tap in self.taps:
                element = (wanted[0] + at) * self.stride - pad + tap
                local = (place + at) * self.stride - own + tap
                if 0 <= element < size:
                    if not low <= element < high or local != element - low + before:
                        return None
                elif 0 <= local < length:
                    return None
        return place


def _place(tensor: Tensor) -> tuple[str, Region]:
    if tensor.part_of is None or tensor.region is None:
        return tensor.name, whole_region(tensor.shape or ())
    return tensor.part_of, tensor.region


def _along(region: Region, axis: int, start: int, stop: int) -> Region:
    """Return a region with another range along an axis."""
    return (*region[:axis], (start, stop), *region[axis + 1 :])


def _is_within(part: Region, whole: Region) -> bool:
    return all(first <= start and stop <= last for (start, stop), (first, last) in zip(part, whole, strict=True))


_MODEL_FIELDS, _CODES, _SUBGRAPHS, _DESCRIPTION, _BUFFERS = 8, 1, 2, 3, 4
_SUBGRAPH_FIELDS: Final = 6
_TENSOR_FIELDS, _QUANTISATION = 10, 4
_OPERATOR_FIELDS, _OPTIONS = 12, (4, 5)
_INT32: Final = 2
"""The schema's number of the element type."""


@dataclass(frozen=True, slots=True)
class NewTensor:
    """A tensor of the new model: with the type and quantisation of tensor `like` of the file, or int32 without one.

    Of scales for each channel it has those of `channels`.
    """

    name: str
    shape: tuple[int, ...]
    like: int | None = None
    content: npt.NDArray[Any] | None = None
    channels: Range | None = None


@dataclass(frozen=True, slots=True)
class NewOperator:
    """An operator over the tensors of the new model, by name.

    It has the kind and options of an `old` operator, or is of a built-in `kind` with options of the schema's `union`
    name: numbers by their slots.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    old: NetworkOperator | None = None
    kind: str = ""
    union: str = ""
    options: Mapping[int, int] | None = None


def rewritten_model(
    file: ModelFile,
    tensors: Sequence[NewTensor | tuple[str, int]],
    operators: Sequence[NewOperator],
    ends: tuple[Sequence[str], Sequence[str]],
) -> bytes:
    """Return a model of one subgraph with these tensors: new ones, and pairs of a name and an index of the file.

    `ends` are the inputs and the outputs. An empty name is an absent operand.
    """
    with refused_if_damaged():
        return _Writer(file, tensors).model(operators, ends)


class _Writer:
    def __init__(self, file: ModelFile, tensors: Sequence[NewTensor | tuple[str, int]]) -> None:
        self.file, self.front, self.tensors = file, Front(BUFFER_ALIGNMENT_BYTES), tensors
        names = [one.name if isinstance(one, NewTensor) else one[0] for one in tensors]
        self.index = {name: at for at, name in enumerate(names)} | {"": -1}
        self.buffers = self.front.targets(file.table, _BUFFERS)
        self.codes = self.front.targets(file.table, _CODES)
        self.added: dict[str, int] = {}

    def model(self, operators: Sequence[NewOperator], ends: tuple[Sequence[str], Sequence[str]]) -> bytes:
        front, table = self.front, self.file.table
        written = front.vector([self._operator(one) for one in operators])
        tensors = front.vector([self._tensor(one) for one in self.tensors])
        inputs, outputs = map(self._named, ends)
        subgraph = front.table(_SUBGRAPH_FIELDS, {0: tensors, 1: inputs, 2: outputs, 3: written}, {})
        fields = {_DESCRIPTION: front.target(table, _DESCRIPTION), _CODES: front.vector(self.codes)}
        fields |= {_SUBGRAPHS: front.vector([subgraph]), _BUFFERS: front.vector(self.buffers)}
        start = front.finished(front.table(_MODEL_FIELDS, fields, {0: table.Version()}))
        return start + self.file.content + bytes(-len(self.file.content) % BUFFER_ALIGNMENT_BYTES)

    def _named(self, names: Sequence[str]) -> int:
        return self.front.integers([self.index[name] for name in names])

    def _tensor(self, tensor: NewTensor | tuple[str, int]) -> int:
        if not isinstance(tensor, NewTensor):
            return -self.file.subgraphs[0].tensors[tensor[1]].place
        front, kind, buffer = self.front, _INT32, 0
        if tensor.content is not None:
            self.buffers.append(front.buffer(np.ascontiguousarray(tensor.content).reshape(-1).view(np.uint8)))
            buffer = len(self.buffers) - 1
        fields = {3: front.text(tensor.name), 0: front.integers(tensor.shape)}
        if tensor.like is not None:
            stated = self.file.table.Subgraphs(0).Tensors(tensor.like)
            fields[_QUANTISATION], kind = front.target(stated, _QUANTISATION), stated.Type()
            scales = stated.Quantization()
            if tensor.channels is not None and scales is not None and scales.ScaleLength() > 1:
                parts = (scales.ScaleAsNumpy(), np.float32), (scales.ZeroPointAsNumpy(), np.int64)
                own = [front.numbers(np.asarray(all_of[slice(*tensor.channels)], kind)) for all_of, kind in parts]
                fields[_QUANTISATION] = front.table(7, {2: own[0], 3: own[1]}, {6: scales.QuantizedDimension()})
        return front.table(_TENSOR_FIELDS, fields, {1: kind, 2: buffer})

    def _operator(self, operator: NewOperator) -> int:
        import tflite

        front = self.front
        fields = {1: self._named(operator.inputs), 2: self._named(operator.outputs)}
        if operator.old is not None:
            table = operator.old.stated.table
            numbers = {0: table.OpcodeIndex(), 3: table.BuiltinOptionsType()}
            fields |= {slot: front.target(table, slot) for slot in _OPTIONS}
        else:
            numbers = {0: self._code(operator.kind), 3: getattr(tflite.BuiltinOptions, operator.union)}
            fields[_OPTIONS[0]] = front.table(2, {}, operator.options or {})
        return front.table(_OPERATOR_FIELDS, fields, numbers)

    def _code(self, kind: str) -> int:
        import tflite

        if kind not in self.added:
            number = getattr(tflite.BuiltinOperator, kind)
            self.codes.append(self.front.table(4, {}, {0: min(number, 127), 2: 1, 3: number}))
            self.added[kind] = len(self.codes) - 1
        return self.added[kind]


def zero_point(file: ModelFile, tensor: int) -> int:
    """Return the integer that stands for zero in a tensor of the file; 0 without a quantisation."""
    with refused_if_damaged():
        found = file.table.Subgraphs(0).Tensors(tensor).Quantization()
        return int(found.ZeroPoint(0)) if found is not None and found.ZeroPointLength() else 0
