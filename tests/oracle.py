"""The exhaustive answers for tiny problems: every order, every choice of what to keep, every packing.

Nothing here is clever, and nothing is shared with the methods it judges but the data types.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from onchip.arch.memory import Memory
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.plan.problem import Order, Problem

Rectangle = tuple[int, int, int]  # start, stop (half-open steps), bytes


def random_graph(seed: int, operators: int = 7, window: int = 6, greatest_size: int = 9) -> Graph:
    """A seeded graph: operators read recent tensors, write one or two, some of them unread."""
    chance = random.Random(seed)
    tensors = [_tensor(f"in{i}", chance, greatest_size, Role.INPUT) for i in range(chance.randint(1, 2))]
    parameters = [_tensor(f"w{i}", chance, greatest_size, Role.PARAMETER) for i in range(chance.randint(0, 2))]
    made: list[Operator] = []
    for index in range(chance.randint(operators - 2, operators)):
        recent = [tensor.name for tensor in tensors][-window:]
        inputs = tuple(chance.choice(recent) for _ in range(chance.choice((1, 1, 2, 2, 3))))
        outputs = [
            _tensor(f"t{index}_{k}", chance, greatest_size, Role.ACTIVATION)
            for k in range(1 + (chance.random() < 0.15))
        ]
        weights = tuple(dict.fromkeys(chance.choice(parameters).name for _ in parameters[: chance.randint(0, 2)]))
        tensors += outputs
        made.append(Operator(f"op{index}", "Op", inputs, tuple(t.name for t in outputs), weights))
    read = {name for operator in made for name in operator.reads}
    everything = (*tensors, *parameters)
    return Graph(
        f"random{seed}",
        tuple(_as_output(tensor) if _is_output(tensor, read, chance) else tensor for tensor in everything),
        tuple(made),
    )


def _tensor(name: str, chance: random.Random, greatest_size: int, role: Role) -> Tensor:
    return Tensor(name, chance.randint(1, greatest_size), role)


def _is_output(tensor: Tensor, read: set[str], chance: random.Random) -> bool:
    if tensor.role is not Role.ACTIVATION:
        return False
    return chance.random() < (0.8 if tensor.name not in read else 0.1)


def _as_output(tensor: Tensor) -> Tensor:
    return Tensor(tensor.name, tensor.size_bytes, Role.OUTPUT)


def least_traffic(problem: Problem, *, with_addresses: bool = True) -> int | None:
    """The least non-compulsory bytes of any legal plan, None if no plan is legal."""
    best: int | None = None
    for order in orders(problem):
        choices = KeepOrDrop(problem, order)
        for cost, cut in choices.cheaper_than(best):
            residencies = choices.residencies(cut)
            if not _fits_at_each_step(problem.memories[0], residencies, len(order)):
                continue
            if not with_addresses or packs(residencies, problem.memories[0]):
                best = cost
                break
    return best


def least_peak(problem: Problem) -> int | None:
    """The least arena of any plan without spills, None if the scratchpad is too small for one."""
    arenas = [least_arena(_whole_lives(problem, order), problem.memories[0]) for order in orders(problem)]
    return min((arena for arena in arenas if arena is not None), default=None)


def orders(problem: Problem) -> Iterator[tuple[Operator, ...]]:
    """Every topological order, or the given one alone."""
    if problem.order is Order.GIVEN:
        yield problem.graph.operators
        return
    yield from _extensions(problem.graph, ())


def _extensions(graph: Graph, done: tuple[Operator, ...]) -> Iterator[tuple[Operator, ...]]:
    if len(done) == len(graph.operators):
        yield done
        return
    for operator in graph.operators:
        if operator not in done and all(graph.producer.get(name, None) in (None, *done) for name in operator.reads):
            yield from _extensions(graph, (*done, operator))


def _uses(problem: Problem, order: tuple[Operator, ...]) -> dict[str, list[int]]:
    uses: dict[str, list[int]] = {}
    for step, operator in enumerate(order):
        for tensor in problem.operands(operator):
            uses.setdefault(tensor.name, []).append(step)
    return uses


class KeepOrDrop:
    """Every choice, for one order, of the gaps between uses over which a tensor leaves."""

    def __init__(self, problem: Problem, order: tuple[Operator, ...]) -> None:
        self._graph = problem.graph
        self._uses = _uses(problem, order)
        self._gaps = [
            (name, gap) for name, uses in self._uses.items() for gap in pairwise(uses) if gap[1] > gap[0] + 1
        ]

    def cheaper_than(self, best: int | None) -> list[tuple[int, int]]:
        """Costs and choices (masks over the gaps), cheapest first."""
        costs = [(self._cost(cut), cut) for cut in range(1 << len(self._gaps))]
        return sorted(pair for pair in costs if best is None or pair[0] < best)

    def _cost(self, cut: int) -> int:
        names = [name for index, (name, _) in enumerate(self._gaps) if cut >> index & 1]
        spilled = {name for name in names if self._graph.tensor[name].role is Role.ACTIVATION}
        return sum(self._graph.tensor[name].size_bytes for name in (*names, *spilled))

    def residencies(self, cut: int) -> tuple[Rectangle, ...]:
        """A rectangle per residency."""
        rectangles: list[Rectangle] = []
        for name, uses in self._uses.items():
            start, size = uses[0], self._graph.tensor[name].size_bytes
            for index, (other, (before, after)) in enumerate(self._gaps):
                if other == name and cut >> index & 1:
                    rectangles.append((start, before + 1, size))
                    start = after
            rectangles.append((start, uses[-1] + 1, size))
        return tuple(sorted(rectangles))


def _whole_lives(problem: Problem, order: tuple[Operator, ...]) -> tuple[Rectangle, ...]:
    return tuple(
        (uses[0], uses[-1] + 1, problem.graph.tensor[name].size_bytes) for name, uses in _uses(problem, order).items()
    )


def _fits_at_each_step(memory: Memory, rectangles: tuple[Rectangle, ...], steps: int) -> bool:
    return all(
        sum(size for start, stop, size in rectangles if start <= step < stop) <= memory.capacity_bytes
        for step in range(steps)
    )


@cache
def packs(rectangles: tuple[Rectangle, ...], memory: Memory) -> bool:
    """Whether offsets within the capacity exist."""
    return least_arena(rectangles, memory, enough=memory.capacity_bytes) is not None


def least_arena(rectangles: tuple[Rectangle, ...], memory: Memory, enough: int = 0) -> int | None:
    """The least arena within the capacity (or any that is `enough`), None if there is none.

    In a packing of which no rectangle can be lowered, each lies on one below it or on the ground:
    placing from the bottom up, in every order, each as low as those in its way allow, finds it.
    """
    best = memory.capacity_bytes + 1
    enough = max(enough, most_live(rectangles))
    seen: set[tuple[object, ...]] = set()

    def place(placed: tuple[tuple[Rectangle, int], ...], left: tuple[Rectangle, ...], ground: int, arena: int) -> None:
        nonlocal best
        if not left:
            best = min(best, arena)
            return
        lowest = {rectangle: _lowest_offset(rectangle, placed, memory) for rectangle in left}
        key = (left, *lowest.values(), ground, arena)
        if key in seen or any(offset + rectangle[2] >= best for rectangle, offset in lowest.items()):
            return
        seen.add(key)
        for rectangle, offset in lowest.items():
            if offset >= ground and best > enough:
                index = left.index(rectangle)
                rest = (*left[:index], *left[index + 1 :])
                place((*placed, (rectangle, offset)), rest, offset, max(arena, offset + rectangle[2]))

    place((), tuple(sorted(rectangles)), 0, 0)
    return best if best <= memory.capacity_bytes else None


def most_live(rectangles: tuple[Rectangle, ...]) -> int:
    """The most bytes live in one step: no arena is less."""
    return max(sum(size for start, stop, size in rectangles if start <= at < stop) for at, _, _ in rectangles)


def _lowest_offset(rectangle: Rectangle, placed: tuple[tuple[Rectangle, int], ...], memory: Memory) -> int:
    ends = [offset + below[2] for below, offset in placed if _meet(rectangle, below)]
    return -(-max(ends, default=0) // memory.alignment_bytes) * memory.alignment_bytes


def _meet(a: Rectangle, b: Rectangle) -> bool:
    return a[0] < b[1] and b[0] < a[1]
