"""Recurrent operators as matrix products: one of the inputs of all steps, and one of the state per step.

In step t an operator adds W x_t and R h_(t-1), for all gates at once, and computes h_t from them element by element,
which costs nothing here. W x_t depends on no earlier step, so all steps together are one product, in which each weight
is used for every step. R h_(t-1) depends on the step before, so it is a separate loop nest that runs once per step.
Without an initial state the first step's state is zero, and has no product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from types import MappingProxyType
from typing import Final

from onchip.ir.layer import Layer
from onchip.ir.operator import SEEN_SHAPES, Operator
from onchip.ir.window import integer
from onchip.ops.windows.sliding_windows import NoLayerError, Shape

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
