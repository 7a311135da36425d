"""A problem of one scratchpad as the compiled search takes it."""

from __future__ import annotations

from math import prod

from onchip.answer.problem import Order
from onchip.arch.memory import DRAM
from onchip.facts.ways_to_run import OperatorWays, Parts, WaysToRun
from onchip.ir.tensor import Role
from onchip.native import LatencyBands, LatencyMachine, LatencyWholeOperator, LatencyWholeTensor


def latency_bands(ways: WaysToRun) -> LatencyBands:
    """Return the search over the bands and orders of a problem; its operators and tensors have the same numbers."""
    problem = ways.problem
    durations = problem.known_durations
    memory, name = problem.memories[0], problem.memories[0].name
    machine = LatencyMachine(
        capacity_bytes=ways.capacity_bytes,
        addressed_bytes=memory.capacity_bytes // memory.alignment_bytes * memory.alignment_bytes,
        queues=durations.queues,
        setup_cycles=durations.setup_cycles,
        has_one_channel=durations.has_one_channel,
    )
    return LatencyBands(
        [_tensor(ways, number) for number in range(len(ways.tensors))],
        [_operator(one) for one in ways.operators],
        machine,
        alignment_bytes=memory.alignment_bytes,
        load=problem.transfers.rates[DRAM, name].terms,
        store=problem.transfers.rates[name, DRAM].terms,
        has_given_order=problem.order is Order.GIVEN,
    )


def fewest_parts_that_fit(ways: WaysToRun, room_bytes: int) -> Parts | None:
    """Return the fewest parts of each operator of which one fits; None where one fits in no way, or is not held."""
    parts = []
    problem, holds = ways.problem, ways.problem.memories[0].holds
    for operator in problem.graph.operators:
        if any(problem.operand(operator, tensor) not in holds for tensor in problem.operands(operator)):
            return None
    for number, one in enumerate(ways.operators):
        fitting = (count for count in sorted(one.cycles) if ways.least_need_bytes(number, count) <= room_bytes)
        count = next(fitting, None)
        if count is None:
            return None
        parts.append(count)
    return tuple(parts)


def _tensor(ways: WaysToRun, number: int) -> LatencyWholeTensor:
    tensor, channels = ways.tensors[number], ways.channels[number] or 1
    bits = 0 if tensor.shape is None or tensor.bits is None else prod(tensor.shape) // channels * tensor.bits
    return LatencyWholeTensor(
        size_bytes=tensor.size_bytes,
        channels=channels,
        bits_per_channel=bits,
        is_in_dram=tensor.role in (Role.INPUT, Role.PARAMETER),
        is_output=tensor.role is Role.OUTPUT,
    )


def _operator(one: OperatorWays) -> LatencyWholeOperator:
    reads, writes = ([(tensor, tensor in one.cut) for tensor in side] for side in (one.reads, one.writes))
    ways = sorted(one.cycles.items())
    return LatencyWholeOperator(reads=reads, writes=writes, ways=ways, cuts_inputs=one.cuts_inputs)
