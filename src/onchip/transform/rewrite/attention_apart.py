"""Decompose attention, recurrences and Split into simpler operators."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ir.window import Shape
from onchip.ops.contractions import ATTENTION, PROJECTED, AttentionHeads, cached_operands, heads_of, present_keys
from onchip.ops.sequences import GATES, CellOperands, cell_operands
from onchip.ops.views import slices_of
from onchip.ops.windows import NoLayerError

HEAD_PRODUCTS = "HeadProducts"
"""The kind of `batch` matrix products of rows x depth times depth x columns; its attributes give the numbers."""
APPENDED = "Appended"
"""The kind that writes a cache's contents, then the new elements."""


@dataclass(frozen=True, slots=True)
class AttentionApart:
    """The transform from attention to three operators: `NAME (scores)`, `NAME (softmax)` and NAME itself, the values.

    It has no preconditions. It keeps an attention with unknown heads or shapes, or that computes its queries itself.
    Every other one becomes two operators of kind HEAD_PRODUCTS, each of one loop nest, with a softmax between, which
    reads masks and other operands. With a cache, or if all keys and values are written, `NAME (keys)` and `NAME (cached
    values)` make these first. Elements of scores have the output's bits.
    """

    def __call__(self, graph: Graph) -> Graph:
        """Return the same network; existing names of tensors and operators keep their meaning."""
        operators: list[Operator] = []
        tensors = list(graph.tensors)
        for operator in graph.operators:
            shapes = _shapes(graph, operator) if operator.kind in ATTENTION - {PROJECTED} else None
            heads = None if shapes is None else _heads(graph, operator, shapes)
            if shapes is None or heads is None:
                operators.append(operator)
                continue
            taken = _Taken(graph, operator, heads, cached_operands(operator, shapes))
            operators += taken.operators
            tensors += taken.tensors
        return Graph(graph.name, tuple(tensors), tuple(operators))


def _shapes(graph: Graph, operator: Operator) -> Sequence[Shape] | None:
    """Return the shapes of the first output and all inputs; None if one is unknown or an operand is missing."""
    names = (operator.outputs[0], *operator.inputs, *operator.parameters)
    known = [shape for name in names if (shape := graph.tensor[name].shape) is not None]
    has_all = len(operator.inputs) >= 3 and len(known) == len(names) and len(operator.outputs) in (1, 3)
    return known if has_all else None


def _heads(graph: Graph, operator: Operator, shapes: Sequence[Shape]) -> AttentionHeads | None:
    try:
        return heads_of(operator, shapes, present_keys(graph, operator))
    except NoLayerError:
        return None


class _Taken:
    """An attention that is decomposed; `tensors` are those between its operators."""

    def __init__(self, graph: Graph, operator: Operator, heads: AttentionHeads, cache: tuple[str, str] | None) -> None:
        self.graph, self.operator, self.heads = graph, operator, heads
        self.tensors: list[Tensor] = []
        queries, keys, values, *beside = operator.inputs
        self.operators: list[Operator] = []
        if cache is not None or len(operator.outputs) > 1:
            beside = [name for name in beside if cache is None or name not in cache]
            keys, values = (
                self._with_cache(at, name, None if cache is None else cache[at])
                for at, name in enumerate((keys, values))
            )
        scores, weighted = (self._between(what) for what in ("scores", "softmax"))
        parameters = tuple(name for name in operator.parameters if cache is None or name not in cache)
        self.operators += [
            _products(scores.name, (queries, keys), scores.name, heads.scores),
            Operator(weighted.name, "Softmax", (scores.name, *beside), (weighted.name,), parameters),
            _products(operator.name, (weighted.name, values), operator.outputs[0], heads.values),
        ]

    def _with_cache(self, at: int, new: str, cached: str | None) -> str:
        """Add the operator that appends new keys (at 0) or values (at 1) to the cached ones; return its output."""
        operator, heads = self.operator, self.heads
        name = f"{operator.name} ({('keys', 'cached values')[at]})"
        width = (heads.query_width, heads.value_width)[at]
        if len(operator.outputs) > 1:
            written = operator.outputs[1 + at]
        else:
            bits = self.graph.tensor[new].bits or 0
            self.tensors.append(Tensor.of_shape(name, (heads.batch, heads.keys, width), bits, Role.ACTIVATION))
            written = name
        is_constant = cached is not None and self.graph.tensor[cached].role is Role.PARAMETER
        read = (new,) if cached is None or is_constant else (cached, new)
        parameters = (cached,) if cached is not None and is_constant else ()
        self.operators.append(Operator(name, APPENDED, read, (written,), parameters))
        return written

    def _between(self, what: str) -> Tensor:
        """Add a tensor with an element for each query and key of each head."""
        heads = self.heads
        shape = (heads.batch * heads.group, heads.queries, heads.keys)
        bits = self.graph.tensor[self.operator.outputs[0]].bits
        tensor = Tensor.of_shape(f"{self.operator.name} ({what})", shape, bits or 0, Role.ACTIVATION)
        self.tensors.append(tensor)
        return tensor


def _products(name: str, inputs: tuple[str, str], output: str, nest: Layer) -> Operator:
    said = {"batch": nest.g, "rows": nest.n, "depth": nest.c, "columns": nest.k}
    return Operator(name, HEAD_PRODUCTS, inputs, (output,), (), dict(said))


MOST_STEPS: Final = 64
"""Most steps of a decomposed recurrence; a longer one stays one operator without a loop nest.

Each step is two operators or more.
"""
STEPS: Final = "Steps"
"""The kind that splits the product of all inputs into the products of each step."""
GATES_OF_STEP: Final = "Gates"
"""The kind that computes the next state from the products of a step, element by element."""


@dataclass(frozen=True, slots=True)
class RecurrenceApart:
    """The transform from an LSTM, GRU or RNN of ONNX to the operators of each of its steps.

    It has no preconditions. It keeps a recurrence of more than MOST_STEPS steps, of unknown sizes, of another format,
    or with computed weights. Every other one becomes `NAME (inputs)`, the product of the inputs of all steps, and for
    each step `NAME (state 0)` ..., of kind HEAD_PRODUCTS with one loop nest each, and gates without one. NAME itself
    writes the outputs of the recurrence. Tensors in between have the bits of the output's elements.
    """

    def __call__(self, graph: Graph) -> Graph:
        """Return the same network; existing names of tensors and operators keep their meaning."""
        operators: list[Operator] = []
        tensors = list(graph.tensors)
        for operator in graph.operators:
            found = _operands(graph, operator)
            if found is None:
                operators.append(operator)
                continue
            taken = _TakenApart(graph, operator, found)
            operators += taken.operators
            tensors += taken.tensors
        return Graph(graph.name, tuple(tensors), tuple(operators))


def _operands(graph: Graph, operator: Operator) -> CellOperands | None:
    if operator.kind not in GATES or "hidden_size" not in operator.attributes:
        return None
    names = (operator.outputs[0], *operator.inputs, *operator.parameters)
    known = [shape for name in names if (shape := graph.tensor[name].shape) is not None]
    if len(known) < len(names) or graph.tensor[operator.outputs[0]].bits is None:
        return None
    try:
        found = cell_operands(operator, known)
    except NoLayerError:
        return None
    are_constant = {found.weights_of_input, found.weights_of_state} <= set(operator.parameters)
    return found if are_constant and found.cell.steps <= MOST_STEPS else None


class _TakenApart:
    """A recurrence that is decomposed; `tensors` are those between its operators."""

    def __init__(self, graph: Graph, operator: Operator, operands: CellOperands) -> None:
        self.operator, self.operands, self.cell = operator, operands, operands.cell
        self._bits = graph.tensor[operator.outputs[0]].bits or 0
        multiplied = {operator.inputs[0], operands.weights_of_input, operands.weights_of_state, operands.initial}
        self._beside = tuple(name for name in operator.inputs if name not in multiplied)
        self._kept = tuple(name for name in operator.parameters if name not in multiplied)
        self._is_constant = {name: name in operator.parameters for name in operator.reads}
        self.operators: list[Operator] = []
        self.tensors: list[Tensor] = []
        self._take_apart()

    def _take_apart(self) -> None:
        cell, layers = self.cell, self.cell.products.layers
        rows = cell.directions * cell.gates * cell.state
        whole = self._tensor("inputs", (cell.steps, cell.batch, rows))
        self._product("inputs", self.operator.inputs[0], self.operands.weights_of_input, whole, layers["inputs"])
        parts = [whole]
        if cell.steps > 1:
            parts = [self._tensor(f"inputs {step}", (cell.batch, rows)) for step in range(cell.steps)]
            self.operators.append(Operator(self._named("steps"), STEPS, (whole,), tuple(parts)))
        state, memory, states = self.operands.initial, None, []
        for step in range(cell.steps):
            ways = {step, cell.steps - 1 - step} if cell.directions > 1 else {step}
            read = [*(parts[way] for way in sorted(ways)), *self._of_state(step, state)]
            read += [name for name in (state, memory) if name is not None]
            state, memory = self._gates(step, read)
            states.append(state)
        if cell.steps > 1:
            read = list(dict.fromkeys((*states, *filter(None, (memory,)))))
            self.operators.append(self._reading(self.operator.name, APPENDED, read, self.operator.outputs))

    def _of_state(self, step: int, state: str | None) -> list[str]:
        """Add the products of an existing previous state and of the reset state; return their names."""
        cell, products = self.cell, self.cell.products.layers
        if state is None:
            return []
        made = [self._tensor(f"state {step}", self._in_directions(products["state"].k))]
        weights = self.operands.weights_of_state
        self._product(f"state {step}", state, weights, made[0], products["state"])
        if cell.candidate_apart:
            seen = self._tensor(f"reset {step}", self._in_directions(cell.state))
            self.operators.append(self._reading(self._named(f"reset {step}"), GATES_OF_STEP, [made[0], state], (seen,)))
            made.append(self._tensor(f"candidate {step}", self._in_directions(cell.state)))
            self._product(f"candidate {step}", seen, weights, made[1], products["candidate"])
        return made

    def _gates(self, step: int, read: list[str]) -> tuple[str, str | None]:
        """Add a step's gates; return its state and an LSTM's memory. A single step writes the recurrence's outputs."""
        cell = self.cell
        beside = [*read, *(self._beside if step == 0 else ()), *self._kept]
        if cell.steps == 1:
            self.operators.append(self._reading(self.operator.name, GATES_OF_STEP, beside, self.operator.outputs))
            return self.operator.outputs[0], None
        names = ["gates", *(["memory"] if self.operator.kind == "LSTM" else [])]
        written = [self._tensor(f"{name} {step}", self._in_directions(cell.state)) for name in names]
        self.operators.append(self._reading(self._named(f"gates {step}"), GATES_OF_STEP, beside, tuple(written)))
        return written[0], written[1] if len(written) > 1 else None

    def _in_directions(self, columns: int) -> Shape:
        return self.cell.directions, self.cell.batch, columns

    def _product(self, what: str, rows: str, weights: str, output: str, nest: Layer) -> None:
        said = {"batch": nest.g, "rows": nest.n, "depth": nest.c, "columns": nest.k}
        self.operators.append(self._reading(self._named(what), HEAD_PRODUCTS, [rows, weights], (output,), said))

    def _reading(
        self, name: str, kind: str, read: list[str], outputs: tuple[str, ...], attributes: dict[str, int] | None = None
    ) -> Operator:
        """Return an operator whose operands are divided into inputs and parameters."""
        parameters = tuple(one for one in read if self._is_constant.get(one, False))
        inputs = tuple(one for one in read if not self._is_constant.get(one, False))
        return Operator(name, kind, inputs, outputs, parameters, dict(attributes or {}))

    def _tensor(self, what: str, shape: Shape) -> str:
        self.tensors.append(Tensor.of_shape(self._named(what), shape, self._bits, Role.ACTIVATION))
        return self._named(what)

    def _named(self, what: str) -> str:
        return f"{self.operator.name} ({what})"


@dataclass(frozen=True, slots=True)
class SplitsApart:
    """The transform from a Split to operators `NAME (0)`, `NAME (1)` and so on of kind Slice, one per output.

    It keeps Splits listed in `whole`, those of a map without a shape or of a view, and those whose parts do not add up
    to the map. The Slices of a Split together have all elements of its map once.
    """

    whole: Collection[str] = ()

    def __call__(self, graph: Graph) -> Graph:
        """Return the same network; names of tensors, and of other operators, keep their meaning."""
        operators = [
            part
            for operator in graph.operators
            for part in (slices_of(graph, operator) if operator.name not in self.whole else ()) or (operator,)
        ]
        return Graph(graph.name, graph.tensors, tuple(operators), graph.states)
