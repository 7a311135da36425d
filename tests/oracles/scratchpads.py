"""Exhaustive answers for tiny problems with several scratchpads; nothing is shared with the methods under test.

Two oracles: every choice of evictions, packed in every way (no links); and, for smaller problems, every sequence of
instructions (`oracles.instructions`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise, product

from onchip.answer.problem import Order as GivenOrFree
from onchip.answer.problem import Placement, Problem
from onchip.arch.memory import DRAM, Memory
from onchip.ir.tensor import Tensor
from oracles.instructions import Programs
from oracles.machine import Machine, Net, Pad, Step
from oracles.one_scratchpad import KeepOrDrop, Order, Question, orders

Place = tuple[int, int, int, int]  # start, stop (half-open steps), bytes, mask of scratchpads


def least_bytes(problem: Problem, *, costliest: int = 10**9) -> int | None:
    """Return the least non-compulsory bytes below `costliest` of a legal plan without links; None without one."""
    best: int | None = None
    for order in orders(problem):
        choices = KeepOrDrop(Question.of(problem), order)
        limit = 8
        while True:
            within = min(limit, costliest if best is None else best)
            found = next((cost for cost, cut in choices.cheaper_than(within) if _is_legal(problem, order, cut)), None)
            best = best if found is None else found
            if found is not None or within < limit or limit > choices.greatest_cost:
                break
            limit *= 2
    return best


def least_arenas(problem: Problem) -> int | None:
    """Return the least sum of all arenas of a plan without spills, or None if the scratchpads are too small."""
    lives = [_places(problem, order, 0) or [] for order in orders(problem)]
    sizes = product(*(range(memory.capacity_bytes + 1) for memory in problem.memories))
    for arenas in sorted(sizes, key=sum):
        memories = [
            replace(memory, capacity_bytes=max(arena, 1))
            for memory, arena in zip(problem.memories, arenas, strict=True)
        ]
        empty = sum(1 << index for index, arena in enumerate(arenas) if not arena)
        for places in lives:
            there = tuple(sorted((start, stop, size, mask & ~empty) for start, stop, size, mask in places))
            if packs_into(there, tuple(memories)):
                return sum(arenas)
    return None


def _is_legal(problem: Problem, order: Order, cut: int) -> bool:
    places = _places(problem, order, cut)
    if places is None or any(not mask for *_, mask in places):
        return False
    return packs_into(tuple(sorted(places)), problem.memories)


def _places(problem: Problem, order: Order, cut: int) -> list[Place] | None:
    """Return a place per residency; None if static placement forbids the tensor's mix of stays and evictions."""
    places, gap = [], 0
    for number, steps in Question.of(problem).uses(order).items():
        stretches = [[steps[0]]]
        for _, after in pairwise(steps):
            if cut >> gap & 1:
                stretches.append([after])
            else:
                stretches[-1].append(after)
            gap += 1
        if problem.placement is Placement.STATIC and len(stretches) > 1 and any(len(one) > 1 for one in stretches):
            return None
        tensor = problem.counted_tensors[number]
        places += [(s[0], s[-1] + 1, tensor.size_bytes, _mask(problem, order, tensor, s)) for s in stretches]
    return places


def _mask(problem: Problem, order: Order, tensor: Tensor, steps: list[int]) -> int:
    return sum(
        1 << index
        for index, memory in enumerate(problem.memories)
        if all(problem.operand(problem.graph.operators[order[step]], tensor) in memory.holds for step in steps)
    )


@cache
def packs_into(places: tuple[Place, ...], memories: tuple[Memory, ...]) -> bool:
    """Return True if scratchpads and offsets exist; tries every free place of each buffer, in order of start."""
    hopeless: set[tuple[object, ...]] = set()

    def place(index: int, live: tuple[tuple[int, int, int, int], ...]) -> bool:
        if index == len(places):
            return True
        start, stop, size, mask = places[index]
        live = tuple(one for one in live if one[3] > start)
        if (index, live) in hopeless:
            return False
        for number, memory in enumerate(memories):
            for offset in (
                range(0, memory.capacity_bytes - size + 1, memory.alignment_bytes) if mask >> number & 1 else ()
            ):
                if all(m != number or offset + size <= low or high <= offset for m, low, high, _ in live) and place(
                    index + 1, tuple(sorted((*live, (number, offset, offset + size, stop))))
                ):
                    return True
        hopeless.add((index, live))
        return False

    return place(0, ())


def least_cost_of_instructions(problem: Problem) -> int | None:
    """Return the least cost of transfers beyond the cheapest compulsory ones, over all programs, links included."""
    order = tuple(range(len(problem.graph.operators))) if problem.order is GivenOrFree.GIVEN else None
    is_static = problem.placement is Placement.STATIC
    return Programs(net_of(problem), machine_of(problem), order, is_static=is_static, most_states=10**7).least()


def net_of(problem: Problem) -> Net:
    """Return the network in plain numbers."""
    number = {tensor.name: index for index, tensor in enumerate(problem.counted_tensors)}
    steps = tuple(
        Step(
            operator.name,
            tuple(dict.fromkeys(number[name] for name in operator.reads if name in number)),
            tuple(number[name] for name in operator.outputs),
        )
        for operator in problem.graph.operators
    )
    tensors = problem.counted_tensors
    return Net(tuple(number), tuple(t.size_bytes for t in tensors), tuple(str(t.role) for t in tensors), steps)


def machine_of(problem: Problem) -> Machine:
    """Return the scratchpads in plain numbers, with the cost of each copy."""
    names = [memory.name for memory in problem.memories]
    ways = [*problem.transfers.links, *((DRAM, name) for name in names), *((name, DRAM) for name in names)]
    numbers = {name: index for index, name in enumerate(names)} | {DRAM: -1}
    pads = (
        Pad(memory.name, memory.capacity_bytes, memory.alignment_bytes, frozenset(map(str, memory.holds)))
        for memory in problem.memories
    )
    prices = {
        (index, numbers[source], numbers[target]): problem.transfer_cost(tensor, source, target)
        for index, tensor in enumerate(problem.counted_tensors)
        for source, target in ways
    }
    return Machine(tuple(pads), prices)
