"""The cost of a plan, counted during its replay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onchip.answer.problem import Objective, Problem
from onchip.arch.memory import DRAM
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor

ROLES_IN_DRAM = (Role.INPUT, Role.PARAMETER)
"""Roles of the tensors that are in DRAM from the start."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The totals of a plan's instructions: sizes in bytes, costs in units of `Problem.transfer_cost`.

    `loads` are copies from DRAM to a scratchpad, `write_backs` copies to DRAM. `reloads` are the loads of tensors that
    have been on chip before. `moved` counts copies between scratchpads, which cost something but are not traffic.
    `peak_bytes` is the most bytes resident at once in all scratchpads together. `arenas` maps each scratchpad to its
    highest end address. Each state, named by its old tensor, either stays on chip throughout or is loaded and written
    back.

    The compulsory traffic depends on the problem and on the states that the plan keeps on chip; the other states are
    loaded and written back. An illegal plan that omits compulsory transfers may have negative non-compulsory traffic.
    `compulsory_cost` is valid for every plan: it includes no state, because any state might stay on chip.

    `latency_cycles` is the cycle in which the last instruction ends; None if the latency is not wanted or the plan is
    illegal. `runs_again` counts the Computes of operators that have run before (rematerialisations), and
    `recomputation_cost` is their cost in the unit of the objective.
    """

    loads: int
    write_backs: int
    reloads: int
    moved: int
    compulsory: int
    transfer_cost: int
    compulsory_cost: int
    peak_bytes: int
    arenas: tuple[tuple[str, int], ...]
    runs_again: int
    recomputation_cost: int
    states_on_chip: tuple[str, ...] = ()
    states_loaded: tuple[str, ...] = ()
    latency_cycles: int | None = None

    @property
    def total(self) -> int:
        """Return the traffic in bytes: loads and write-backs."""
        return self.loads + self.write_backs

    @property
    def non_compulsory(self) -> int:
        """Return the traffic in bytes beyond the compulsory traffic (COSMA, Eq. 12)."""
        return self.total - self.compulsory

    @property
    def non_compulsory_cost(self) -> int:
        """Return the cost of traffic and moves beyond `compulsory_cost`, including transfers of states off chip."""
        return self.transfer_cost - self.compulsory_cost

    @property
    def arena_bytes(self) -> int:
        """Return the sum of the highest end addresses of all scratchpads, in bytes."""
        return sum(bytes_of_one for _, bytes_of_one in self.arenas)

    def objective_value(self, objective: Objective) -> int:
        """Return the plan's value of the objective.

        Transfer objectives count all non-compulsory transfers and all rematerialisations; RECOMPUTATION counts only the
        latter. PEAK is the size of the arenas, LATENCY the makespan in cycles, or 0 if it is unknown.
        """
        match objective:
            case Objective.LATENCY:
                return self.latency_cycles or 0
            case Objective.PEAK:
                return self.arena_bytes
            case Objective.RECOMPUTATION:
                return self.recomputation_cost
            case _:
                return self.non_compulsory_cost + self.recomputation_cost


class Meter:
    """A counter of resident bytes and of the tensors moved between memories."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._loads = self._write_backs = self._reloads = self._moved = self._transfer_cost = 0
        self._resident_bytes = self.peak_bytes = 0
        self._runs_again = self._recomputation_cost = 0
        self._arenas = {memory.name: 0 for memory in problem.memories}

    @property
    def arenas(self) -> tuple[tuple[str, int], ...]:
        """Return the highest end address so far of each scratchpad, in bytes."""
        return tuple(self._arenas.items())

    def begin(self, memory: str, size_bytes: int, stop_bytes: int) -> None:
        """Count the start of a residency of `size_bytes` that ends at address `stop_bytes`."""
        self._resident_bytes += size_bytes
        self.peak_bytes = max(self.peak_bytes, self._resident_bytes)
        self._arenas[memory] = max(self._arenas[memory], stop_bytes)

    def end(self, size_bytes: int) -> None:
        """Subtract bytes that are no longer resident, or that another residency already counts."""
        self._resident_bytes -= size_bytes

    def load(self, tensor: Tensor, target: str, *, was_on_chip: bool) -> None:
        """Count a Copy of a tensor from DRAM to scratchpad `target`."""
        self._loads += tensor.size_bytes
        self._reloads += tensor.size_bytes if was_on_chip else 0
        self._transfer_cost += self._problem.transfer_cost(tensor, DRAM, target)

    def write_back(self, tensor: Tensor, source: str) -> None:
        """Count a Copy of a tensor from scratchpad `source` to DRAM."""
        self._write_backs += tensor.size_bytes
        self._transfer_cost += self._problem.transfer_cost(tensor, source, DRAM)

    def move(self, tensor: Tensor, source: str, target: str) -> None:
        """Count a Copy of a tensor from scratchpad `source` to scratchpad `target`."""
        self._moved += tensor.size_bytes
        self._transfer_cost += self._problem.transfer_cost(tensor, source, target)

    def run_again(self, operator: Operator) -> None:
        """Count a run of an operator that has run before."""
        self._runs_again += 1
        self._recomputation_cost += self._problem.cost_again(operator)

    def figures(self, stays: Callable[[str], bool]) -> Figures:
        """Return the figures counted so far; `stays` returns True for a tensor whose state stays on chip throughout."""
        problem = self._problem
        loaded = [tensor for tensor in problem.counted_tensors if must_be_loaded(problem, tensor)]
        written = problem.graph.with_role(Role.OUTPUT)
        names = tuple(memory.name for memory in problem.memories)
        states = {name for state in problem.graph.states for name in (state.old, state.new)}
        inputs, outputs = ([one for one in tensors if one.name not in states] for tensors in (loaded, written))
        load_costs = (min(problem.transfer_cost(tensor, DRAM, name) for name in names) for tensor in inputs)
        write_costs = (min(problem.transfer_cost(tensor, name, DRAM) for name in names) for tensor in outputs)
        return Figures(
            loads=self._loads,
            write_backs=self._write_backs,
            reloads=self._reloads,
            moved=self._moved,
            compulsory=sum(tensor.size_bytes for tensor in (*loaded, *written) if not stays(tensor.name)),
            transfer_cost=self._transfer_cost,
            compulsory_cost=sum(load_costs) + sum(write_costs),
            peak_bytes=self.peak_bytes,
            arenas=self.arenas,
            states_on_chip=tuple(state.old for state in problem.graph.states if stays(state.old)),
            states_loaded=tuple(state.old for state in problem.graph.states if not stays(state.old)),
            runs_again=self._runs_again,
            recomputation_cost=self._recomputation_cost,
        )


def must_be_loaded(problem: Problem, tensor: Tensor) -> bool:
    """Return True if every plan loads the tensor: a network input or parameter that has a reader."""
    return tensor.role in ROLES_IN_DRAM and bool(problem.graph.readers[tensor.name])
