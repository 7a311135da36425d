"""The question of a plan: a graph, scratchpads, an objective, and the costs of transfers and repeated runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final

from onchip.arch.memory import DRAM, Memory, Operand
from onchip.errors import UsageError
from onchip.ir.graph import Graph, State
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor

DRAWING_KINDS: Final = frozenset(
    {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
    | {"bernoulli", "exponential", "multinomial", "native_dropout", "normal", "normal_functional", "rand", "rand_like"}
    | {"randint", "randint_like", "randn", "randn_like", "randperm", "uniform"}
    | {"MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"}
)
"""Operator kinds that draw random numbers, in ONNX, ATen and TFLite: a repeated run would write other values."""


class Recompute(StrEnum):
    """The option that allows or forbids running an operator more than once."""

    NEVER = "never"
    ALLOWED = "allowed"


@dataclass(frozen=True, slots=True)
class Recomputation:
    """The permission to run operators again; `costs` maps an operator's name to the cost of each additional run.

    Costs are in the objective's unit; an operator without a cost runs again for free. Raises UsageError for a negative
    cost.
    """

    costs: Mapping[str, int] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        for name, cost in self.costs.items():
            if cost < 0:
                raise UsageError(f"it is {cost}", place=f"costs.{name}", expected="at least 0")

    def cost(self, operator: Operator) -> int:
        """Return the cost of one more run of an operator, in the objective's unit."""
        return self.costs.get(operator.name, 0)


class Objective(StrEnum):
    """The objective: the cost of non-compulsory transfers (COSMA, Eq. 12), the peak without spills, or another cost.

    A transfer costs its bytes (TRAFFIC), its DMA cycles, or its energy in fJ. LATENCY is the cycle in which everything
    has ended. RECOMPUTATION is the cycles of repeated operator executions in plans without spills.
    """

    TRAFFIC = "traffic"
    PEAK = "peak"
    DMA_CYCLES = "dma-cycles"
    DMA_ENERGY = "dma-energy"
    LATENCY = "latency"
    RECOMPUTATION = "recomputation"

    @property
    def unit(self) -> str:
        """Return the unit of the objective's value: bytes, cycles or fJ."""
        cycles = (Objective.DMA_CYCLES, Objective.LATENCY, Objective.RECOMPUTATION)
        return "cycles" if self in cycles else "fJ" if self is Objective.DMA_ENERGY else "bytes"

    @property
    def counts_transfers(self) -> bool:
        """Return True if the objective is the cost of transfers."""
        return self in (Objective.TRAFFIC, Objective.DMA_CYCLES, Objective.DMA_ENERGY)

    @property
    def forbids_spills(self) -> bool:
        """Return True if only compulsory transfers are allowed."""
        return self in (Objective.PEAK, Objective.RECOMPUTATION)


class Order(StrEnum):
    """The allowed operator orders: any, the graph's own, or one of minimum peak."""

    FREE = "free"
    GIVEN = "given"
    MIN_PEAK = "min-peak"


class Count(StrEnum):
    """The planned tensors: all except parameters, or all."""

    ACTIVATIONS = "activations"
    ALL = "all"


class Placement(StrEnum):
    """The placement policy of tensors: evictable, or at one fixed address.

    With STATIC placement a tensor is either resident in one scratchpad from its first use to its last, or resident only
    while an operator uses it, with a separate residency for each use.
    """

    DYNAMIC = "dynamic"
    STATIC = "static"


@dataclass(frozen=True, slots=True)
class Rate:
    """The cost of a transfer: `setup`, and for each term (unit_bits, cost) the cost per started unit."""

    setup: int = 0
    terms: tuple[tuple[int, int], ...] = ((8, 1),)

    def __post_init__(self) -> None:
        if self.setup < 0 or any(unit_bits < 1 or cost < 0 for unit_bits, cost in self.terms):
            raise UsageError(
                "a transfer's rate is negative", expected="a set-up and costs of at least 0, units of 1 bit"
            )

    def cost(self, size_bytes: int) -> int:
        """Return the cost of moving `size_bytes` bytes, in the unit of the objective."""
        return self.setup + sum(-(-size_bytes * 8 // unit_bits) * cost for unit_bits, cost in self.terms)


BYTES = Rate()
"""A cost of one per byte."""


@dataclass(frozen=True, slots=True)
class Transfers:
    """The links (source, target) between scratchpads, and the rate of each (source, target) pair.

    A pair without a rate costs its bytes.
    """

    links: tuple[tuple[str, str], ...] = ()
    rates: Mapping[tuple[str, str], Rate] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Durations:
    """The durations of operators in cycles; the rates in Transfers, set-up included, are those of transfers.

    `cycles` are those of the operators, by name, that state none. Transfer k is set up on queue k mod `queues` for
    `setup_cycles`, and then has exclusive use of DRAM: with `has_one_channel` among loads and stores together,
    otherwise among transfers of its direction. Raises UsageError for less than one queue, or for negative times.
    """

    cycles: Mapping[str, int] = field(default_factory=dict, hash=False)
    queues: int = 1
    setup_cycles: int = 0
    has_one_channel: bool = True

    def __post_init__(self) -> None:
        if self.queues < 1 or self.setup_cycles < 0 or any(cycles < 0 for cycles in self.cycles.values()):
            raise UsageError("a duration is negative, or there is no queue", expected="cycles of at least 0, a queue")

    def of_operator(self, operator: Operator) -> int:
        """Return the cycles of an operator; raises UsageError if neither the operator nor `cycles` gives any."""
        cycles = operator.stated.cycles
        if cycles is None:
            cycles = self.cycles.get(operator.name)
        if cycles is None:
            what = "nothing says how many cycles it takes"
            raise UsageError(what, place=f"operator {operator.name!r}", expected="cycles of it, or an array")
        return cycles


@dataclass(frozen=True)
class Problem:
    """A planning problem: a graph, the scratchpads that it may use, and the objective.

    `durations` are required for the objective LATENCY. With a `recomputation` operators may run again; every objective
    that counts transfers also counts that cost. `settled_states` stay on the chip permanently, outside the given
    memories: their tensors appear nowhere, but all readers of the old one run before the new one is written. Raises
    UsageError if the objective lacks a rate or a cost that it needs.
    """

    graph: Graph
    memories: tuple[Memory, ...]
    objective: Objective = Objective.TRAFFIC
    order: Order = Order.FREE
    count: Count = Count.ACTIVATIONS
    transfers: Transfers = Transfers()
    placement: Placement = Placement.DYNAMIC
    settled_states: tuple[State, ...] = ()
    durations: Durations | None = None
    recomputation: Recomputation | None = None

    def __post_init__(self) -> None:
        if not self.memories:
            raise UsageError("there is no scratchpad to plan", expected="at least one memory")
        self._recomputation_is_asked_of_what_knows_it()
        if self.objective is Objective.LATENCY and self.known_durations:
            self._every_way_has_a_rate()

    @property
    def known_durations(self) -> Durations:
        """Return the durations; raises UsageError if there are none."""
        if self.durations is None:
            raise UsageError("nothing says how long operators last", expected="durations, as of an accelerator")
        return self.durations

    def _recomputation_is_asked_of_what_knows_it(self) -> None:
        if self.recomputation is None:
            return
        if self.objective in (Objective.PEAK, Objective.LATENCY):
            what = f"the objective {self.objective} does not count recomputed cycles"
            expected = "`minimize='recomputation'`, traffic, dma-cycles or dma-energy"
            raise UsageError(what, place="recompute allowed", expected=expected)
        if self.placement is Placement.STATIC:
            what = "a tensor that is computed again has several places"
            raise UsageError(what, place="recompute allowed, placement static", expected="dynamic placement")

    def may_run_again(self, operator: Operator) -> bool:
        """Return True if the operator may run more than once: it touches no state, and draws no random numbers."""
        touched = self._state_names.intersection((*operator.inputs, *operator.outputs))
        return self.recomputation is not None and operator.kind not in DRAWING_KINDS and not touched

    def cost_again(self, operator: Operator) -> int:
        """Return the cost of one more execution of an operator, in the objective's unit."""
        return 0 if self.recomputation is None else self.recomputation.cost(operator)

    def _every_way_has_a_rate(self) -> None:
        names = [memory.name for memory in self.memories]
        ways = [*((DRAM, name) for name in names), *((name, DRAM) for name in names), *self.transfers.links]
        for source, target in ways:
            if (source, target) not in self.transfers.rates:
                what = f"nothing says how long a transfer from {source!r} to {target!r} lasts"
                raise UsageError(what, place="rates", expected="a rate of that way")

    def counts(self, tensor: Tensor) -> bool:
        """Return True if the tensor appears in the plan."""
        is_settled = tensor.name in self._settled_names
        return (self.count is Count.ALL or tensor.role is not Role.PARAMETER) and not is_settled

    @cached_property
    def _state_names(self) -> frozenset[str]:
        states = (*self.graph.states, *self.settled_states)
        return frozenset(name for state in states for name in (state.old, state.new))

    @cached_property
    def _settled_names(self) -> frozenset[str]:
        return frozenset(name for state in self.settled_states for name in (state.old, state.new))

    @cached_property
    def _counted(self) -> Mapping[str, Tensor]:
        return {tensor.name: tensor for tensor in self.counted_tensors}

    @cached_property
    def counted_tensors(self) -> tuple[Tensor, ...]:
        """Return the tensors that appear in the plan, in the graph's order."""
        return tuple(tensor for tensor in self.graph.tensors if self.counts(tensor))

    def operands(self, operator: Operator) -> tuple[Tensor, ...]:
        """Return the distinct counted tensors that must be resident while `operator` runs."""
        counted = self._counted
        names = dict.fromkeys((*operator.inputs, *operator.parameters, *operator.outputs))
        return tuple(counted[name] for name in names if name in counted)

    def operand(self, operator: Operator, tensor: Tensor) -> Operand:
        """Return the operand type of `tensor` for an operator that reads or writes it."""
        if tensor.name in operator.outputs:
            return Operand.OUTPUT
        return Operand.WEIGHT if tensor.role is Role.PARAMETER else Operand.INPUT

    def transfer_cost(self, tensor: Tensor, source: str, target: str) -> int:
        """Return the cost of moving `tensor` from memory `source` to memory `target`, in the objective's unit."""
        return self.transfers.rates.get((source, target), BYTES).cost(tensor.size_bytes)
