"""Operators along a sequence: recurrences, TopK, STFT and cumulative sums.

In step t an operator adds W x_t and R h_(t-1), for all gates at once, and computes h_t from them element by element,
which costs nothing here. W x_t depends on no earlier step, so all steps together are one product, in which each weight
is used for every step. R h_(t-1) depends on the step before, so it is a separate loop nest that runs once per step.
Without an initial state the first step's state is zero, and has no product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from types import MappingProxyType
from typing import Final

from onchip.ir.layer import Layer
from onchip.ir.operator import SEEN_SHAPES, Operator
from onchip.ir.tensor import Role
from onchip.ir.window import Shape, integer, integers
from onchip.ops.pointwise import across, in_groups, placed
from onchip.ops.slicing import (
    AffineDimension,
    Geometry,
    OperatorEntry,
    Outline,
    Span,
    TileAxis,
    along,
    lone_loops,
    spread,
    unknown,
    whole,
)
from onchip.ops.windows import NoLayerError

GATES: Final[Mapping[str, int]] = MappingProxyType({"LSTM": 4, "GRU": 3, "RNN": 1})
_OF_TFLITE: Final = frozenset(
    {"UNIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_LSTM", "UNIDIRECTIONAL_SEQUENCE_RNN"}
)
RECURRENT: Final = frozenset({*GATES, *_OF_TFLITE, "SVDF"})


@dataclass(frozen=True, slots=True)
class Products:
    """Loop nests by suffix; `times` gives the number of runs of those that run more than once."""

    layers: Mapping[str, Layer]
    times: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RecurrentCell:
    """The products of a recurrence: `batch` rows of `features` per step, for `gates` of `state` elements per direction.

    Each gate also reads `seen` elements of the previous state: `state` of them, unless a projection changes their
    number. `candidate_apart` is True if one gate depends on the state that another gate passes on (GRU).
    `multiplied_steps` is the number of steps with a previous state.
    """

    steps: int
    batch: int
    features: int
    gates: int
    state: int
    seen: int
    multiplied_steps: int
    directions: int = 1
    candidate_apart: bool = False

    @property
    def products(self) -> Products:
        """Return the product of the inputs of all steps, and the products of each step's state."""
        columns = self.gates * self.state
        inputs = Layer(n=self.steps * self.batch, c=self.features, k=self.directions * columns)
        if not self.multiplied_steps:
            return Products({"inputs": inputs})
        at_once = columns - self.state if self.candidate_apart else columns
        of_state = {"state": self._of_state(at_once, self.seen)}
        if self.candidate_apart:
            of_state["candidate"] = self._of_state(self.state, self.seen)
        times = dict.fromkeys(of_state, self.multiplied_steps) if self.multiplied_steps > 1 else {}
        if self.seen != self.state:
            of_state["projection"] = self._of_state(self.seen, self.state)
            times |= {"projection": self.steps} if self.steps > 1 else {}
        return Products({"inputs": inputs, **of_state}, times)

    def _of_state(self, columns: int, depth: int) -> Layer:
        return Layer(n=self.batch, k=columns, c=depth, g=self.directions)


def recurrence(operator: Operator, shapes: Sequence[Shape]) -> Products:
    """Return the products of a recurrent operator; `shapes` are output, inputs, parameters. Raises NoLayerError."""
    inputs, parameters = shapes[1 : 1 + len(operator.inputs)], shapes[1 + len(operator.inputs) :]
    matrices = [shape for shape in parameters if len(shape) == 2]
    if operator.kind == "SVDF":
        return _filtered_features(inputs, matrices)
    if operator.kind in GATES and "hidden_size" in operator.attributes:
        return cell_operands(operator, shapes).cell.products
    gates = GATES.get(operator.kind, 0)
    if len(matrices) > 1 and gates > 1 and matrices[1][0] == gates * matrices[1][1]:
        return _side_by_side(_cells_of_pairs(gates, inputs, matrices))
    return _side_by_side(_cells_of_matrices(operator, inputs, matrices))


@dataclass(frozen=True, slots=True)
class CellOperands:
    """A cell of ONNX's kinds, and the names of the tensors that it multiplies; `initial` is None without one."""

    cell: RecurrentCell
    weights_of_input: str
    weights_of_state: str
    initial: str | None


def cell_operands(operator: Operator, shapes: Sequence[Shape]) -> CellOperands:
    """Return the operands of ONNX's LSTM, GRU or RNN; `shapes` are output, inputs, parameters. Raises NoLayerError."""
    state, gates = integer(operator, "hidden_size", 0), GATES[operator.kind]
    directions = 2 if operator.attributes.get("direction") == "bidirectional" else 1
    seen, count = operator.attributes.get(SEEN_SHAPES), len(operator.inputs)
    sights = [_sizes(shape) for shape in seen] if isinstance(seen, list) else list(shapes[1 : 1 + count])
    if not sights or len(sights[0]) != 3 or state < 1:
        raise NoLayerError("nothing says how its input is cut into steps")
    steps, batch, features = sights[0]
    if integer(operator, "layout", 0):
        steps, batch = batch, steps
    named = list(zip((*operator.inputs, *operator.parameters), [*sights, *shapes[1 + count :]], strict=True))
    rows = directions * gates * state
    for operands in (named[count:], named[1:count]):
        place = _weights_place([shape for _, shape in operands], rows * features, rows * state)
        if place is not None:
            pair = operands[place : place + 2]
            others = [each for each in named[1:] if each not in pair]
            initial = next(
                (name for name, shape in others if len(shape) > 2 and prod(shape) == directions * batch * state), None
            )
            multiplied = steps if initial else steps - 1
            is_apart = operator.kind == "GRU" and not integer(operator, "linear_before_reset", 0)
            cell = RecurrentCell(steps, batch, features, gates, state, state, multiplied, directions, is_apart)
            return CellOperands(cell, pair[0][0], pair[1][0], initial)
    raise NoLayerError("its weights do not fit its input")


def _weights_place(operands: Sequence[Shape], of_input: int, of_state: int) -> int | None:
    """Return the index of the input's weights, directly before the state's weights; None if no pair matches."""
    sizes = [prod(shape) for shape in operands]
    return next((place for place, pair in enumerate(pairwise(sizes)) if pair == (of_input, of_state)), None)


def _cells_of_matrices(
    operator: Operator, inputs: Sequence[Shape], matrices: Sequence[Shape]
) -> Sequence[RecurrentCell]:
    """Return the cells of TFLite's kinds: a matrix per gate for the input, then the state, then a projection."""
    directions = 2 if operator.kind.startswith("BIDIRECTIONAL") else 1
    count, left = divmod(len(matrices), directions)
    gates, has_projection = divmod(count, 2)
    if left or gates not in (1, 3, 4) or not inputs or len(inputs[0]) not in (2, 3):
        raise NoLayerError("its weights are no matrix for each gate")
    first, second = (*(1,) * (3 - len(inputs[0])), *inputs[0])[:2]
    is_in_steps = operator.kind in _OF_TFLITE
    steps, batch = (first, second) if operator.attributes.get("time_major") is True else (second, first)
    if not is_in_steps:
        steps, batch = 1, first * second
    cells = []
    for at in range(0, len(matrices), count):
        (state, features), (rows, seen) = matrices[at], matrices[at + gates]
        if rows != state or features != inputs[0][-1] or (seen != state and not has_projection):
            raise NoLayerError("its weights do not fit its input")
        cells.append(RecurrentCell(steps, batch, features, gates, state, seen, steps))
    return cells


def _cells_of_pairs(gates: int, inputs: Sequence[Shape], matrices: Sequence[Shape]) -> Sequence[RecurrentCell]:
    """Return the cells of PyTorch's kinds: for each layer and direction, weights of the input, then of the state."""
    if len(matrices) % 2 or len(inputs) < 2 or len(inputs[1]) != 3 or len(inputs[0]) != 3:
        raise NoLayerError("nothing says how its input is cut into steps")
    batch = inputs[1][1]
    steps = prod(inputs[0][:-1]) // batch
    cells = []
    for (rows, features), (others, state) in zip(matrices[::2], matrices[1::2], strict=True):
        if rows != others or rows != gates * state:
            raise NoLayerError("its weights do not fit its state")
        cells.append(RecurrentCell(steps, batch, features, gates, state, state, steps))
    return cells


def _side_by_side(cells: Sequence[RecurrentCell]) -> Products:
    """Return the products of cells that share only their input; the names of several cells are numbered."""
    if len(cells) == 1:
        return cells[0].products
    made = [(number, cell.products) for number, cell in enumerate(cells)]
    return Products(
        {f"{name} {number}": layer for number, each in made for name, layer in each.layers.items()},
        {f"{name} {number}": times for number, each in made for name, times in each.times.items()},
    )


def _filtered_features(inputs: Sequence[Shape], matrices: Sequence[Shape]) -> Products:
    """Return the products of an SVDF: filters over the features, and one filter each over their recent results."""
    if len(matrices) != 2 or not inputs or matrices[0][1] != inputs[0][-1] or matrices[0][0] != matrices[1][0]:
        raise NoLayerError("its filters do not fit its input")
    (filters, features), (_, memory) = matrices
    rows = prod(inputs[0][:-1])
    return Products({"features": Layer(n=rows, c=features, k=filters), "time": Layer(n=rows, c=memory, g=filters)})


def _sizes(shape: object) -> Shape:
    return tuple(size for size in shape if isinstance(size, int)) if isinstance(shape, list) else ()


_BATCH, _DIRECTION = 0, 1
"""Axes of a recurrent layer: samples and directions are independent; steps and state elements are not."""


def _recurrent(outline: Outline) -> Geometry | None:
    """Return the geometry of steps, directions, batch and state; None for ONNX's layout 1, which has another order."""
    source, *others = outline.shapes()
    writes = [outline.shape(name) for name in outline.operator.outputs]
    if len(source) != 3 or integer(outline.operator, "layout", 0) or any(len(one) not in (3, 4) for one in writes):
        return None
    directions, batch, kept = writes[0][-3:]
    if batch != source[1] or any(one[-3:-1] != (directions, batch) for one in writes):
        return None
    outline.axes = [TileAxis(batch), TileAxis(directions)]
    state = (directions, batch, kept)
    read_otherwise = [
        _state(shape) if shape == state and name in outline.operator.inputs and batch % kept else _by_direction(shape)
        for name, shape in zip(outline.read_names[1:], others, strict=True)
    ]
    written = [(*whole([one[:-3]])[0], *_state((directions, batch, one[-1]))) for one in writes]
    return outline.finish([(Span(source[0]), Span(batch, _BATCH), Span(source[2])), *read_otherwise], written)


def _state(shape: Shape) -> tuple[Span, ...]:
    return Span(shape[0], _DIRECTION), Span(shape[1], _BATCH), Span(shape[2])


def _by_direction(shape: Shape) -> tuple[Span, ...]:
    """Return the spans of weights, with a matrix per direction, or of sequence lengths, which are read whole."""
    if len(shape) < 2:
        return whole([shape])[0]
    return Span(shape[0], _DIRECTION), *map(Span, shape[1:])


def _along_one_axis(outline: Outline) -> OperatorEntry | None:
    """Return the entry of a kind that works on independent rows, such as TopK."""
    source = outline.shapes()[0]
    writes = [outline.shape(name) for name in outline.operator.outputs]
    axis = _axis(outline, len(source))
    if axis is None or any(len(one) != len(source) for one in writes):
        return None
    if any(one[:axis] + one[axis + 1 :] != source[:axis] + source[axis + 1 :] for one in writes):
        return None
    return across(outline, axis, writes, [source])


def _axis(outline: Outline, rank: int) -> int | None:
    """Return the axis from an attribute that is a number or a list of one; the last one, as for TopK, by default."""
    axis = outline.operator.attributes.get("axis", -1)
    axis = axis[0] if isinstance(axis, list) and len(axis) == 1 else axis
    return axis % rank if isinstance(axis, int) and -rank <= axis < rank else None


def _windowed_transform(outline: Outline) -> OperatorEntry | None:
    """Return the entry of an STFT: frame n reads `frame_length` elements from n steps on, for all frequencies."""
    (signal, *others), write = outline.shapes(), along(outline.written)
    (step,), (length,) = (integers(outline.operator, name, (0,)) for name in ("frame_step", "frame_length"))
    length = length or max((shape[0] for shape in others if len(shape) == 1), default=0)
    if len(signal) < 2 or len(write) != 4 or min(step, length) < 1 or signal[0] != write[0].size:
        return None
    if (signal[1] - length) // step + 1 != write[1].size:
        return None
    frames = AffineDimension(signal[1], {"P1": step, "R": 1})
    return placed(outline, (write[0], frames, *unknown(signal[2:])), loops={"R": length})


def _picked_one_by_one(outline: Outline) -> OperatorEntry | None:
    """Return the entry of a GatherElements: an index replaces an element's position along the axis only."""
    if len(outline.read_names) != 2 or any(
        outline.graph.tensor[one].role is Role.PARAMETER for one in outline.read_names
    ):
        return None
    (source, indices), write = outline.shapes(), along(outline.written)
    axis, rank = integer(outline.operator, "axis", 0), len(write)
    if indices != outline.written or len(source) != rank or not -rank <= axis < rank:
        return None
    picked = (AffineDimension(size, {} if at == axis % rank else {f"P{at}": 1}) for at, size in enumerate(source))
    operands = {0: write, 1: tuple(picked), 2: write}
    return OperatorEntry(lone_loops(operands), operands)


def _channels_warped(outline: Outline) -> OperatorEntry | None:
    """Return the entry of MediaPipe's bilinear transform (NHWC): pixels may move anywhere, channels do not."""
    source, write = outline.shapes()[0], along(outline.written)
    if len(source) != 4 or len(write) != 4 or (source[0], source[3]) != (write[0].size, write[3].size):
        return None
    return placed(outline, (write[0], *unknown(source[1:3]), write[3]))


def _attention(outline: Outline) -> Geometry | None:
    """Return the geometry of attention: a query meets all keys and values of its head, shared by query heads.

    Any further operand is a mask, with a row per query.
    """
    shapes, written = outline.shapes(), outline.written
    is_known = len(outline.operator.outputs) == 1 and len(outline.operator.inputs) >= 3 and len(shapes) in (3, 4)
    if not is_known or any(len(shape) != 4 for shape in (*shapes, written)):
        return None
    queries, keys, values = shapes[:3]
    heads, shared = written[1], keys[1]
    if queries[:3] != written[:3] or keys[:3] != values[:3] or (keys[0], keys[3]) != (queries[0], queries[3]):
        return None
    if values[3] != written[3] or heads % shared:
        return None
    write, loops = in_groups(written, shared)
    of_keys = (write[0], AffineDimension(shared, {"P1": 1}), AffineDimension(keys[2], {}))
    scores = (*write[:3], of_keys[2])
    masks = {at: mask for at, shape in enumerate(shapes[3:], 4) if (mask := spread(scores, shape)) is not None}
    if len(masks) + 3 < len(shapes):
        return None
    reads = {1: (*write[:3], AffineDimension(queries[3], {})), 2: (*of_keys, AffineDimension(keys[3], {}))}
    operands = {0: write, **reads, 3: (*of_keys, write[3]), **masks}
    return outline.cut(OperatorEntry(lone_loops({0: write}) | loops, operands), [3])


SEQUENCES: Final[Mapping[str, Callable[[Outline], Geometry | OperatorEntry | None]]] = {
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    **dict.fromkeys(("TopK", "CumSum", "Hardmax", "LpNormalization"), _along_one_axis),
    "STFT": _windowed_transform,
    "Attention": _attention,
    "GatherElements": _picked_one_by_one,
    "custom.TransformTensorBilinear": _channels_warped,
}
"""Functions by kind that return an entry or a geometry, or None if shapes or attributes do not determine it."""
