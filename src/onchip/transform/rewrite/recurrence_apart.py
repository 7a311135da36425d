"""The transform that decomposes recurrences into products and gates of every step, with tensors in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.sequences.recurrences import GATES, CellOperands, cell_operands
from onchip.ops.windows.sliding_windows import NoLayerError, Shape
from onchip.transform.rewrite.attention_apart import APPENDED, HEAD_PRODUCTS

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
            taken = _Taken(graph, operator, found)
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


class _Taken:
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
