"""A problem, with homes of operands, as the compiled search takes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from onchip.answer.problem import Order
from onchip.arch.memory import DRAM
from onchip.bounds.latency.ways_to_run import OperatorWays, WaysToRun
from onchip.ir.tensor import Role
from onchip.memory.timed.homes import Homes
from onchip.native import LatencyAccess, LatencyBands, LatencyMachine, LatencyWholeOperator, LatencyWholeTensor


def latency_bands(ways: WaysToRun, homes: Homes) -> LatencyBands:
    """Return the search over the bands and orders of a problem.

    Operators and tensors have the same numbers; a tensor with several homes has further ones, after all others.
    """
    problem = ways.problem
    durations = problem.known_durations
    rates = problem.transfers.rates
    addressed = (
        memory.capacity_bytes // memory.alignment_bytes * memory.alignment_bytes for memory in problem.memories
    )
    machine = LatencyMachine(
        scratchpads=list(zip(ways.capacities_bytes, addressed, strict=True)),
        queues=durations.queues,
        setup_cycles=durations.setup_cycles,
        has_one_channel=durations.has_one_channel,
    )
    accesses = [
        LatencyAccess(
            alignment_bytes=memory.alignment_bytes,
            load=rates[DRAM, memory.name].terms,
            store=rates[memory.name, DRAM].terms,
        )
        for memory in problem.memories
    ]
    places = _Places(ways, homes)
    operators = [places.operator(number, one) for number, one in enumerate(ways.operators)]
    tensors = places.tensors()
    return LatencyBands(tensors, operators, machine, accesses=accesses, has_given_order=problem.order is Order.GIVEN)


@dataclass
class _Places:
    """Numbers of tensors in their homes: that of the tensor where it is written, or else read first."""

    ways: WaysToRun
    homes: Homes
    _first: dict[int, int] = field(default_factory=dict)
    _others: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for one, homes in zip(self.ways.operators, self.homes, strict=True):
            for tensor, home in zip((*one.reads, *one.writes), homes, strict=True):
                if tensor in one.writes or tensor not in self._first:
                    self._first[tensor] = home
        for one, homes in zip(self.ways.operators, self.homes, strict=True):
            for tensor, home in zip((*one.reads, *one.writes), homes, strict=True):
                if home != self._first[tensor]:
                    self._others.setdefault((tensor, home), len(self.ways.tensors) + len(self._others))

    def operator(self, number: int, one: OperatorWays) -> LatencyWholeOperator:
        """What it reads and writes in which of its places."""
        homes, count = self.homes[number], len(one.reads)
        reads, writes = self._operands(one, one.reads, homes[:count]), self._operands(one, one.writes, homes[count:])
        ways = sorted(one.cycles.items())
        return LatencyWholeOperator(reads=reads, writes=writes, ways=ways, cuts_inputs=one.cuts_inputs)

    def _operands(self, one: OperatorWays, tensors: Sequence[int], homes: Sequence[int]) -> list[tuple[int, bool]]:
        pairs = zip(tensors, homes, strict=True)
        return [(self._others.get((tensor, home), tensor), tensor in one.cut) for tensor, home in pairs]

    def tensors(self) -> list[LatencyWholeTensor]:
        """Each in its first home, then those of several in the others."""
        first = [self._tensor(number, self._first.get(number, 0), None) for number in range(len(self.ways.tensors))]
        return first + [self._tensor(number, home, number) for number, home in self._others]

    def _tensor(self, number: int, home: int, same_as: int | None) -> LatencyWholeTensor:
        tensor, channels = self.ways.tensors[number], self.ways.channels[number] or 1
        bits = 0 if tensor.shape is None or tensor.bits is None else prod(tensor.shape) // channels * tensor.bits
        is_written = number in self.ways.writer
        is_elsewhere = is_written and any(one == number for one, _ in self._others)
        return LatencyWholeTensor(
            size_bytes=tensor.size_bytes,
            channels=channels,
            bits_per_channel=bits,
            is_in_dram=tensor.role in (Role.INPUT, Role.PARAMETER) or same_as is not None,
            is_output=same_as is None and (tensor.role is Role.OUTPUT or is_elsewhere),
            memory=home,
            same_as=-1 if same_as is None else same_as,
        )
