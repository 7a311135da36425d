"""The exhaustive answers for tiny problems with several scratchpads. Nothing is shared with the methods judged.

Two oracles: every choice of what leaves, packed in every way (no links); and, for tinier problems, every
sequence of instructions there is.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise, product

from onchip.arch.memory import DRAM, Memory
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.plan.problem import Placement, Problem
from oracles.one_scratchpad import KeepOrDrop, orders

Place = tuple[int, int, int, int]  # start, stop (half-open steps), bytes, mask of scratchpads


def least_bytes(problem: Problem, *, costliest: int = 10**9) -> int | None:
    """The least non-compulsory bytes below `costliest` of any legal plan, None if none is legal; no links."""
    best: int | None = None
    for order in orders(problem):
        choices = KeepOrDrop(problem, order)
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
    """The least sum of all arenas of any plan without spills, None if the scratchpads are too small for one."""
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


def _is_legal(problem: Problem, order: tuple[Operator, ...], cut: int) -> bool:
    places = _places(problem, order, cut)
    if places is None or any(not mask for *_, mask in places):
        return False
    return packs_into(tuple(sorted(places)), problem.memories)


def _places(problem: Problem, order: tuple[Operator, ...], cut: int) -> list[Place] | None:
    """One for each residency; None where a tensor neither stays nor leaves throughout, as static placement asks."""
    uses: dict[str, list[int]] = {}
    for step, operator in enumerate(order):
        for tensor in problem.operands(operator):
            uses.setdefault(tensor.name, []).append(step)
    places, gap = [], 0
    for name, steps in uses.items():
        stretches = [[steps[0]]]
        for _, after in pairwise(steps):
            if cut >> gap & 1:
                stretches.append([after])
            else:
                stretches[-1].append(after)
            gap += 1
        if problem.placement is Placement.STATIC and len(stretches) > 1 and any(len(one) > 1 for one in stretches):
            return None
        tensor = problem.graph.tensor[name]
        places += [(s[0], s[-1] + 1, tensor.size_bytes, _mask(problem, order, tensor, s)) for s in stretches]
    return places


def _mask(problem: Problem, order: tuple[Operator, ...], tensor: Tensor, steps: list[int]) -> int:
    return sum(
        1 << index
        for index, memory in enumerate(problem.memories)
        if all(problem.operand(order[step], tensor) in memory.holds for step in steps)
    )


@cache
def packs_into(places: tuple[Place, ...], memories: tuple[Memory, ...]) -> bool:
    """Whether scratchpads and offsets exist: each, as it begins, at every free place of every one it may be in."""
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


Resident = tuple[str, int, int, bool]  # tensor, scratchpad, offset, whether its bytes are there
State = tuple[frozenset[str], frozenset[Resident], frozenset[str]]  # operators run, residents, in DRAM


def least_cost_of_instructions(problem: Problem) -> int | None:
    """The least cost of transfers, less the compulsory at their cheapest, over all programs; links and rates count."""
    in_dram = frozenset(t.name for t in problem.counted_tensors if t.role in (Role.INPUT, Role.PARAMETER))
    start: State = (frozenset(), frozenset(), in_dram)
    outputs = frozenset(tensor.name for tensor in problem.graph.with_role(Role.OUTPUT))
    heap: list[tuple[int, int, State]] = [(0, 0, start)]
    best = {start: 0}
    pushed = 0
    while heap:
        cost, _, state = heapq.heappop(heap)
        if cost > best[state]:
            continue
        if len(state[0]) == len(problem.graph.operators) and outputs <= state[2]:
            return cost - _compulsory_cost(problem)
        for more, child in _children(problem, state):
            if cost + more < best.get(child, 10**9):
                best[child] = cost + more
                pushed += 1
                heapq.heappush(heap, (cost + more, pushed, child))
    return None


def _compulsory_cost(problem: Problem) -> int:
    names = [memory.name for memory in problem.memories]
    loaded = [
        t for t in problem.counted_tensors if t.role in (Role.INPUT, Role.PARAMETER) and problem.graph.readers[t.name]
    ]
    written = problem.graph.with_role(Role.OUTPUT)
    return sum(min(problem.transfer_cost(t, DRAM, name) for name in names) for t in loaded) + sum(
        min(problem.transfer_cost(t, name, DRAM) for name in names) for t in written
    )


def _children(problem: Problem, state: State) -> Iterator[tuple[int, State]]:
    run, residents, in_dram = state
    for child in _computed(problem, state):
        yield 0, child
    for one in residents:
        yield 0, (run, residents - {one}, in_dram)
        name, number, _, is_there = one
        tensor = problem.graph.tensor[name]
        memory = problem.memories[number].name
        if is_there and name not in in_dram:
            yield problem.transfer_cost(tensor, memory, DRAM), (run, residents, in_dram | {name})
    for tensor in problem.counted_tensors:
        for place in _free_places(problem, residents, tensor):
            yield 0, (run, residents | {(*place, False)}, in_dram)
    for one in residents:
        name, number, offset, is_there = one
        target = problem.memories[number].name
        there = residents - {one} | {(name, number, offset, True)}
        if is_there:
            continue
        if name in in_dram:
            yield problem.transfer_cost(problem.graph.tensor[name], DRAM, target), (run, there, in_dram)
        for other in residents:
            source = problem.memories[other[1]].name
            if other[0] == name and other[3] and (source, target) in problem.transfers.links:
                yield problem.transfer_cost(problem.graph.tensor[name], source, target), (run, there, in_dram)


def _free_places(problem: Problem, residents: frozenset[Resident], tensor: Tensor) -> Iterator[tuple[str, int, int]]:
    for number, memory in enumerate(problem.memories):
        if any(one[:2] == (tensor.name, number) for one in residents):
            continue
        others = [(one[2], one[2] + problem.graph.tensor[one[0]].size_bytes) for one in residents if one[1] == number]
        for offset in range(0, memory.capacity_bytes - tensor.size_bytes + 1, memory.alignment_bytes):
            if all(offset + tensor.size_bytes <= low or high <= offset for low, high in others):
                yield tensor.name, number, offset


def _computed(problem: Problem, state: State) -> Iterator[State]:
    run, residents, in_dram = state
    for operator in problem.graph.operators:
        if operator.name in run or not _may_run(problem, operator, run):
            continue
        operands = problem.operands(operator)
        if all(any(_serves(problem, operator, tensor, one) for one in residents) for tensor in operands):
            there = frozenset(
                (name, number, offset, True)
                if name in operator.outputs and _serves(problem, operator, problem.graph.tensor[name], one)
                else one
                for one in residents
                for name, number, offset, _ in [one]
            )
            yield run | {operator.name}, there, in_dram


def _may_run(problem: Problem, operator: Operator, run: frozenset[str]) -> bool:
    if problem.order == "given":
        return problem.graph.operators.index(operator) == len(run)
    return all(problem.graph.producer[name].name in run for name in operator.reads if name in problem.graph.producer)


def _serves(problem: Problem, operator: Operator, tensor: Tensor, one: Resident) -> bool:
    operand = problem.operand(operator, tensor)
    is_ready = one[3] or tensor.name in operator.outputs
    return one[0] == tensor.name and is_ready and operand in problem.memories[one[1]].holds
