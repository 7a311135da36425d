"""A problem with durations in whole numbers: operators, tensors, scratchpads, and the places of tensors in them."""

from __future__ import annotations

from dataclasses import dataclass

from onchip.answer.problem import Order, Problem
from onchip.arch.memory import DRAM, Operand
from onchip.ir.tensor import Role

ABSENT = -1
OFF_CHIP = -1


@dataclass
class TimedNumbers:
    """The numbers of a problem; place t + m * tensors is tensor t in scratchpad m; sets are bit masks.

    `cycles` are those of each copy by tensor, set-up included; `loads` and `stores` are the least over all scratchpads.
    """

    problem: Problem

    def __post_init__(self) -> None:
        """Number everything."""
        problem, graph, durations = self.problem, self.problem.graph, self.problem.durations
        assert durations is not None
        tensors = problem.counted_tensors
        self.setup, self.is_one_channel = durations.setup_cycles, durations.has_one_channel
        self.queue_count, self.is_given = durations.queues, problem.order is Order.GIVEN
        number_of = {one.name: number for number, one in enumerate(tensors)}
        self.sizes = [one.size_bytes for one in tensors]
        self._number_scratchpads()
        self.loads = [min(self.cycles[OFF_CHIP, memory][tensor] for memory in self.memories) for tensor in self.all]
        self.stores = [min(self.cycles[memory, OFF_CHIP][tensor] for memory in self.memories) for tensor in self.all]
        self.reads = [sorted({number_of[name] for name in one.reads}) for one in graph.operators]
        self.writes = [[number_of[name] for name in one.outputs] for one in graph.operators]
        self.lasting = [durations.of_operator(one) for one in graph.operators]
        self.readers = [sum(1 << at for at, names in enumerate(self.reads) if number in names) for number in self.all]
        self.writer = [next((at for at, names in enumerate(self.writes) if one in names), ABSENT) for one in self.all]
        self.outputs = sum(1 << number for number, one in enumerate(tensors) if one.role is Role.OUTPUT)
        outside = (Role.INPUT, Role.PARAMETER)
        self.from_outside = sum(1 << number for number, one in enumerate(tensors) if one.role in outside)
        self.all_run = (1 << len(self.lasting)) - 1
        self.before = self.ancestors()
        self.after = self.tails()

    def _number_scratchpads(self) -> None:
        """Set the cost of each copy, and the scratchpads where the array reads each tensor, and where it writes."""
        problem, tensors = self.problem, self.problem.counted_tensors
        names = [memory.name for memory in problem.memories]
        self.memories = range(len(names))
        number = {DRAM: OFF_CHIP, **{name: at for at, name in enumerate(names)}}
        self.links = [(number[source], number[target]) for source, target in problem.transfers.links]
        ways = [*self.links, *((OFF_CHIP, at) for at in self.memories), *((at, OFF_CHIP) for at in self.memories)]
        named = {at: name for name, at in number.items()}
        self.cycles = {
            (source, target): [problem.transfer_cost(one, named[source], named[target]) for one in tensors]
            for source, target in ways
        }
        operands = [Operand.WEIGHT if one.role is Role.PARAMETER else Operand.INPUT for one in tensors]
        self.read_in = [[at for at in self.memories if one in problem.memories[at].holds] for one in operands]
        self.written_in = [at for at in self.memories if Operand.OUTPUT in problem.memories[at].holds]
        capacities = [memory.capacity_bytes for memory in problem.memories]
        self.bases = [sum(capacities[:at]) for at in self.memories]
        self.capacity = sum(capacities)
        self.starts = [range(0, one.capacity_bytes, one.alignment_bytes) for one in problem.memories]

    @property
    def all(self) -> range:
        """Return the numbers of the tensors."""
        return range(len(self.sizes))

    def place(self, tensor: int, memory: int) -> int:
        """Return the number of the place of a tensor in a scratchpad."""
        return tensor + memory * len(self.sizes)

    def ancestors(self) -> list[int]:
        """Return, by operator, the mask of its ancestors and itself; a graph's operators are in topological order."""
        found: list[int] = []
        for at, reads in enumerate(self.reads):
            mine = 1 << at
            for one in reads:
                mine |= found[self.writer[one]] if self.writer[one] != ABSENT else 0
            found.append(mine)
        return found

    def tails(self) -> list[int]:
        """Return, by operator, the least cycles from its end to the end of the program."""
        found = [0] * len(self.lasting)
        for at in reversed(range(len(self.lasting))):
            for one in self.writes[at]:
                found[at] = max(found[at], self.stores[one] if self.outputs >> one & 1 else 0)
                for reader in range(at + 1, len(self.lasting)):
                    if self.readers[one] >> reader & 1:
                        found[at] = max(found[at], self.lasting[reader] + found[reader])
        return found
