"""Exhaustive answers for tiny problems: every order, every choice of kept tensors, every packing.

The code is plain, and shares only data types with the methods that it checks.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from onchip.answer.problem import Order, Problem
from onchip.arch.memory import Memory
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from oracles.one_plan import packed_bytes
from oracles.packing import fits, most_bytes_alive

Rectangle = tuple[int, int, int]  # start, stop (half-open steps), bytes


def random_graph(seed: int, operators: int = 7, window: int = 6, greatest_size: int = 9) -> Graph:
    """Return a seeded graph: operators read recent tensors and write one or two, some of them unread."""
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


def long_lived_graph(seed: int, operators: int = 11, pairs: float = 1.0, greatest_size: int = 9) -> Graph:
    """Return a seeded graph whose operators read any one or two tensors, however old; addresses matter more often."""
    chance = random.Random(seed)
    tensors = [_tensor("in", chance, greatest_size, Role.INPUT)]
    made: list[Operator] = []
    for index in range(operators):
        reads = range(2 if chance.random() < pairs else 1)
        inputs = tuple(dict.fromkeys(chance.choice(tensors).name for _ in reads))
        tensors.append(_tensor(f"t{index}", chance, greatest_size, Role.ACTIVATION))
        made.append(Operator(f"op{index}", "Op", inputs, (tensors[-1].name,)))
    read = {name for operator in made for name in operator.reads}
    everything = (tensor if tensor.name in read else _as_output(tensor) for tensor in tensors)
    return Graph(f"long{seed}", tuple(everything), tuple(made))


def _tensor(name: str, chance: random.Random, greatest_size: int, role: Role) -> Tensor:
    return Tensor(name, chance.randint(1, greatest_size), role)


def _is_output(tensor: Tensor, read: set[str], chance: random.Random) -> bool:
    if tensor.role is not Role.ACTIVATION:
        return False
    return chance.random() < (0.8 if tensor.name not in read else 0.1)


def _as_output(tensor: Tensor) -> Tensor:
    return Tensor(tensor.name, tensor.size_bytes, Role.OUTPUT)


def least_traffic(problem: Problem, *, with_addresses: bool = True) -> int | None:
    """Return the least non-compulsory bytes of any legal plan, or None if no plan is legal."""
    best: int | None = None
    for order in orders(problem):
        choices = KeepOrDrop(problem, order)
        limit = 8
        while True:
            within = limit if best is None else min(limit, best)
            found = choices.cheapest_legal(problem.memories[0], within, with_addresses=with_addresses)
            best = best if found is None else found
            if found is not None or within == best or limit > choices.greatest_cost:
                break
            limit *= 2
    return best


def least_peak(problem: Problem) -> int | None:
    """Return the least arena of any plan without spills, or None if the scratchpad is too small for one."""
    lives = {_whole_lives(problem, order) for order in orders(problem)}
    capacities = range(min(map(most_bytes_alive, lives)), problem.memories[0].capacity_bytes + 1)
    memories = (Memory("arena", capacity, problem.memories[0].alignment_bytes) for capacity in capacities)
    return next((memory.capacity_bytes for memory in memories if any(packs(live, memory) for live in lives)), None)


def orders(problem: Problem) -> Iterator[tuple[Operator, ...]]:
    """Yield every topological order, or only the given one."""
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
    """The choices, for one order, of the gaps between uses over which a tensor is evicted.

    The gap between two consecutive steps counts too: the tensor returns at another address.
    """

    def __init__(self, problem: Problem, order: tuple[Operator, ...]) -> None:
        self._graph = problem.graph
        self._uses = _uses(problem, order)
        self._steps = len(order)
        self.gaps = [(name, gap) for name, uses in self._uses.items() for gap in pairwise(uses)]
        self._gaps_of = {
            name: [(index, gap) for index, (other, gap) in enumerate(self.gaps) if other == name] for name in self._uses
        }

    def cheaper_than(self, limit: int) -> list[tuple[int, int]]:
        """Return costs and choices (masks over the gaps), cheapest first."""
        choices: list[tuple[int, int, frozenset[str]]] = [] if limit <= 0 else [(0, 0, frozenset())]
        for index, (name, _) in enumerate(self.gaps):
            tensor = self._graph.tensor[name]
            for cost, cut, spilled in tuple(choices):
                is_spilled = tensor.role is Role.ACTIVATION and name not in spilled
                more = cost + tensor.size_bytes * (1 + is_spilled)
                if more < limit:
                    choices.append((more, cut | 1 << index, spilled | {name}))
        return sorted((cost, cut) for cost, cut, _ in choices)

    @property
    def greatest_cost(self) -> int:
        """Return an upper bound on the cost of a choice."""
        return 2 * sum(self._graph.tensor[name].size_bytes for name, _ in self.gaps)

    def cheapest_legal(self, memory: Memory, limit: int, *, with_addresses: bool) -> int | None:
        """Return the cost of the cheapest choice below `limit` that fits, and that packs if addresses count."""
        for cost, cut in self.cheaper_than(limit):
            residencies = self.residencies(cut)
            if _fits_at_each_step(memory, residencies, self._steps) and (
                not with_addresses or packs(residencies, memory)
            ):
                return cost
        return None

    def residencies(self, cut: int) -> tuple[Rectangle, ...]:
        """Return a rectangle per residency."""
        rectangles: list[Rectangle] = []
        for name, uses in self._uses.items():
            start, size = uses[0], self._graph.tensor[name].size_bytes
            for index, (before, after) in self._gaps_of[name]:
                if cut >> index & 1:
                    rectangles.append((start, before + 1, size))
                    start = after
            rectangles.append((start, uses[-1] + 1, size))
        return tuple(sorted(rectangles))


def _whole_lives(problem: Problem, order: tuple[Operator, ...]) -> tuple[Rectangle, ...]:
    uses = _uses(problem, order)
    return tuple(sorted((at[0], at[-1] + 1, problem.graph.tensor[name].size_bytes) for name, at in uses.items()))


def _fits_at_each_step(memory: Memory, rectangles: tuple[Rectangle, ...], steps: int) -> bool:
    """Return True if at each step the live tensors fit, one above the other, each at an aligned offset."""
    live = ([size for start, stop, size in rectangles if start <= step < stop] for step in range(steps))
    return all(packed_bytes(sizes, memory.alignment_bytes) <= memory.capacity_bytes for sizes in live)


@cache
def packs(rectangles: tuple[Rectangle, ...], memory: Memory) -> bool:
    """Return True if offsets within the capacity exist; raises TooLargeError if trying all would take minutes."""
    return fits(rectangles, memory.capacity_bytes, memory.alignment_bytes)
