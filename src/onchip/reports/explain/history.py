"""What happens in the scratchpads while a legal plan runs: who is resident in which step, and what moves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import gcd

from onchip.answer.problem import Problem
from onchip.answer.program import Allocate, Compute, Free, Plan
from onchip.answer.residencies import Residency, Transfer, residencies_of, transfers_of
from onchip.ir.operator import Operator
from onchip.ir.tensor import Tensor
from onchip.model.lifetimes.overwriting import inside_others, overwritable_inputs


@dataclass(frozen=True)
class History:
    """Facts of a legal plan, for drawing and explaining; the verifier has its own way to them.

    Step k is the slot of `operators[k]`. A residency begun after operator k-1 and ended after operator
    l-1 is there in the steps [k, l).
    """

    problem: Problem
    plan: Plan

    @cached_property
    def operators(self) -> tuple[Operator, ...]:
        """The operators in the order in which they run."""
        names = (one.operator for one in self.plan.instructions if isinstance(one, Compute))
        return tuple(self.problem.graph.operator[name] for name in names)

    @cached_property
    def residencies(self) -> tuple[Residency, ...]:
        """Return all residencies, in the order in which they begin."""
        return residencies_of(self.plan, self.problem.graph)

    @cached_property
    def transfers(self) -> tuple[Transfer, ...]:
        """Return all transfers, in the order of the plan's instructions."""
        return transfers_of(self.plan, self.problem.graph)

    @property
    def step_count(self) -> int:
        """Return how many steps there are: one for each operator."""
        return len(self.operators)

    @cached_property
    def runs_again(self) -> tuple[tuple[int, Operator], ...]:
        """The steps in which an operator runs that has run before, with it."""
        run: set[str] = set()
        found = []
        for step, operator in enumerate(self.operators):
            if operator.name in run:
                found.append((step, operator))
            run.add(operator.name)
        return tuple(found)

    def cost(self, transfer: Transfer) -> int:
        """What a transfer costs, in units of `Problem.transfer_cost`."""
        tensor = self.problem.graph.tensor[transfer.tensor]
        return self.problem.transfer_cost(tensor, transfer.source, transfer.target)

    def residents(self, memory: str, step: int) -> tuple[Residency, ...]:
        """Who is in a scratchpad while the operator of `step` runs, the largest first."""
        present = (one for one in self.residencies if one.memory == memory and one.start_step <= step < one.stop_step)
        return tuple(sorted(present, key=lambda one: (-one.size_bytes, one.start_instruction)))

    def footprint(self, memory: str) -> tuple[int, ...]:
        """Return for each step the bytes that are resident in a scratchpad."""
        return self._bytes_per_step((one, one.size_bytes) for one in self.residencies if one.memory == memory)

    @cached_property
    def padded_footprint(self) -> Mapping[str, tuple[int, ...]]:
        """Per scratchpad and step the bytes resident, each tensor rounded up to the alignment."""
        return {
            memory.name: self._bytes_per_step(
                (one, aligned(one.size_bytes, memory.alignment_bytes))
                for one in self.residencies
                if one.memory == memory.name
            )
            for memory in self.problem.memories
        }

    def peak_bytes(self, memory: str) -> int:
        """The most bytes resident at once in a scratchpad, between steps as well."""
        tensors = self.problem.graph.tensor
        changes = (
            tensors[one.tensor].size_bytes * (1 if isinstance(one, Allocate) else -1)
            for one in self.plan.instructions
            if isinstance(one, Allocate | Free) and one.memory == memory
        )
        return max(_running_sums(changes), default=0)

    @cached_property
    def without_place_for_life(self) -> tuple[Tensor, ...]:
        """The tensors with several residencies, in the graph's order: none keeps its place from first to last use."""
        times = Counter(one.tensor for one in self.residencies)
        return tuple(tensor for tensor in self.problem.counted_tensors if times[tensor.name] > 1)

    @cached_property
    def with_place_for_life(self) -> tuple[Tensor, ...]:
        """The tensors with a single residency, in the graph's order."""
        times = Counter(one.tensor for one in self.residencies)
        return tuple(tensor for tensor in self.problem.counted_tensors if times[tensor.name] == 1)

    def footprint_of_operands(self, memory: str) -> tuple[int, ...]:
        """Per step the bytes resident in a scratchpad that the running operator reads or writes."""
        present: list[dict[str, int]] = [{} for _ in self.operators]
        for one in self.residencies:
            if one.memory == memory:
                for step in range(one.start_step, min(one.stop_step, self.step_count)):
                    present[step][one.tensor] = one.size_bytes
        operands = ({tensor.name for tensor in self.problem.operands(operator)} for operator in self.operators)
        return tuple(sum(sizes.get(name, 0) for name in names) for sizes, names in zip(present, operands, strict=True))

    @property
    def common_alignment_bytes(self) -> int:
        """What the alignments of all scratchpads have in common: in none a tensor takes less than rounded up to it."""
        return gcd(*(memory.alignment_bytes for memory in self.problem.memories))

    @cached_property
    def bytes_without_spills(self) -> int:
        """The most bytes in use at once if, in this order, every tensor stayed from its first use to its last.

        Each rounded up to what the alignments of all scratchpads have in common; addresses may need more. Nothing
        would run again then.
        """
        uses: dict[str, list[int]] = {}
        once = tuple({operator.name: operator for operator in self.operators}.values())
        for step, operator in enumerate(once):
            for tensor in self.problem.operands(operator):
                uses.setdefault(tensor.name, []).append(step)
        change = [0] * (len(once) + 1)
        alignment = self.common_alignment_bytes
        for name, steps in uses.items():
            size_bytes = aligned(self.problem.graph.tensor[name].size_bytes, alignment)
            change[steps[0]] += size_bytes
            change[steps[-1] + 1] -= size_bytes
        for step, operator in enumerate(once):
            inputs = overwritable_inputs(operator, self.problem.graph, alignment)
            inside = inside_others(one for one in inputs if uses[one.tensor][-1] == step)
            saved = sum(aligned(self.problem.graph.tensor[name].size_bytes, alignment) for name in inside)
            change[step] -= saved
            change[step + 1] += saved
        return max(_running_sums(change), default=0)

    def _bytes_per_step(self, residencies: Iterable[tuple[Residency, int]]) -> tuple[int, ...]:
        change = [0] * (self.step_count + 1)
        for one, size_bytes in residencies:
            change[one.start_step] += size_bytes
            change[one.stop_step] -= size_bytes
        return _running_sums(change)[: self.step_count]


def aligned(size_bytes: int, alignment_bytes: int) -> int:
    """The bytes rounded up to a multiple of the alignment."""
    return -(-size_bytes // alignment_bytes) * alignment_bytes


def _running_sums(changes: Iterable[int]) -> tuple[int, ...]:
    sums, total = [], 0
    for change in changes:
        total += change
        sums.append(total)
    return tuple(sums)
