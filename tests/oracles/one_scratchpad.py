"""Exhaustive answers for tiny problems in one scratchpad: every order, every gap between uses, every address.

A `Question` is numbers. Problems are turned into questions; nothing else is shared with the methods that are checked.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

from ortools.sat.python import cp_model

from onchip.answer.problem import Order as GivenOrFree
from onchip.answer.problem import Problem
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from oracles.packing import Buffer, fits

Order = tuple[int, ...]
"""Operators by number, in the order in which they run."""


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


@dataclass(frozen=True, slots=True)
class Question:
    """`sizes` and `roles` by tensor; `reads` and `writes` (counted tensors only) by operator, in the given order."""

    sizes: tuple[int, ...]
    roles: tuple[str, ...]
    reads: tuple[tuple[int, ...], ...]
    writes: tuple[tuple[int, ...], ...]
    alignment: int = 1

    @classmethod
    def of(cls, problem: Problem) -> Question:
        """Return the numbers of a problem."""
        number = {tensor.name: index for index, tensor in enumerate(problem.counted_tensors)}
        tensors, operators = problem.counted_tensors, problem.graph.operators
        return cls(
            tuple(tensor.size_bytes for tensor in tensors),
            tuple(str(tensor.role) for tensor in tensors),
            tuple(tuple(number[name] for name in one.reads if name in number) for one in operators),
            tuple(tuple(number[name] for name in one.outputs) for one in operators),
            problem.memories[0].alignment_bytes,
        )

    def operands(self, operator: int) -> set[int]:
        """Return the distinct operands of the operator."""
        return {*self.reads[operator], *self.writes[operator]}

    def orders(self) -> Iterator[Order]:
        """Yield every order in which each operator follows the writers of its inputs."""
        yield from self._orders_after(())

    def _orders_after(self, done: Order) -> Iterator[Order]:
        if len(done) == len(self.reads):
            yield done
        made = {tensor for operator in done for tensor in self.writes[operator]}
        anywhere = {tensor for written in self.writes for tensor in written}
        for operator in range(len(self.reads)):
            if operator not in done and all(t in made or t not in anywhere for t in self.reads[operator]):
                yield from self._orders_after((*done, operator))

    def uses(self, order: Order) -> dict[int, list[int]]:
        """Return the steps that need each tensor."""
        uses: dict[int, list[int]] = {}
        for step, operator in enumerate(order):
            for tensor in self.operands(operator):
                uses.setdefault(tensor, []).append(step)
        return uses

    @property
    def required_bytes(self) -> int:
        """Return M_R: the need of the most demanding operator."""
        needs = ([self.sizes[t] for t in self.operands(o)] for o in range(len(self.reads)))
        return max(packed_bytes(need, self.alignment) for need in needs)

    def peak_of(self, order: Order) -> int:
        """Return the most bytes live at once without spills, packed."""
        return max(packed_bytes(sizes, self.alignment) for sizes in _live(KeepOrDrop(self, order).residencies(0)))

    def least_peak(self) -> int:
        """Return M_P: the least peak over all orders."""
        return min(map(self.peak_of, self.orders()))

    def least_arena(self, orders: Sequence[Order], capacity: int) -> int | None:
        """Return the least capacity into which some order packs without spills; None if it is above `capacity`."""
        lives = {KeepOrDrop(self, order).residencies(0) for order in orders}
        arenas = range(min(map(self.peak_of, orders)), capacity + 1)
        return next((arena for arena in arenas if any(packs(live, arena, self.alignment) for live in lives)), None)

    def least_traffic(self, orders: Iterable[Order], capacity: int, *, with_addresses: bool = True) -> int | None:
        """Return the least non-compulsory bytes of a legal plan in one of these orders; None if no plan is legal."""
        if self.required_bytes > capacity:
            return None
        best: int | None = None
        for order in orders:
            choices, limit = KeepOrDrop(self, order), 8
            while True:
                within = limit if best is None else min(limit, best)
                found = choices.cheapest_legal(capacity, within, with_addresses=with_addresses)
                best = best if found is None else found
                if found is not None or within == best or limit > choices.greatest_cost:
                    break
                limit *= 2
        return best


def orders(problem: Problem) -> Iterable[Order]:
    """Return every topological order, or only the given one."""
    is_given = problem.order is GivenOrFree.GIVEN
    return [tuple(range(len(problem.graph.operators)))] if is_given else Question.of(problem).orders()


def least_traffic(problem: Problem, *, with_addresses: bool = True) -> int | None:
    """Return the least non-compulsory bytes of any legal plan, or None if no plan is legal."""
    capacity = problem.memories[0].capacity_bytes
    return Question.of(problem).least_traffic(orders(problem), capacity, with_addresses=with_addresses)


def least_peak(problem: Problem) -> int | None:
    """Return the least arena of any plan without spills, or None if the scratchpad is too small for one."""
    return Question.of(problem).least_arena(list(orders(problem)), problem.memories[0].capacity_bytes)


def packed_bytes(sizes: Sequence[int], alignment: int) -> int:
    """Return the least capacity for all at once: all but the topmost are padded, so the most padded one is on top."""
    padded = [-(-size // alignment) * alignment for size in sizes]
    return min((sum(padded) - p + size for p, size in zip(padded, sizes, strict=True)), default=0)


class KeepOrDrop:
    """The choices, for one order, of the gaps between uses over which a tensor is evicted.

    The gap between two consecutive steps counts too: the tensor returns at another address.
    """

    def __init__(self, question: Question, order: Order) -> None:
        self._question = question
        self._uses = question.uses(order)
        self.gaps = [(tensor, gap) for tensor, uses in self._uses.items() for gap in pairwise(uses)]

    def cheaper_than(self, limit: int) -> list[tuple[int, int]]:
        """Return costs and choices (masks over the gaps), cheapest first."""
        choices: list[tuple[int, int, frozenset[int]]] = [] if limit <= 0 else [(0, 0, frozenset())]
        for index, (tensor, _) in enumerate(self.gaps):
            for cost, cut, spilled in tuple(choices):
                is_spilled = self._question.roles[tensor] == "activation" and tensor not in spilled
                more = cost + self._question.sizes[tensor] * (1 + is_spilled)
                if more < limit:
                    choices.append((more, cut | 1 << index, spilled | {tensor}))
        return sorted((cost, cut) for cost, cut, _ in choices)

    @property
    def greatest_cost(self) -> int:
        """Return an upper bound on the cost of a choice."""
        return 2 * sum(self._question.sizes[tensor] for tensor, _ in self.gaps)

    def cheapest_legal(self, capacity: int, limit: int, *, with_addresses: bool) -> int | None:
        """Return the cost of the cheapest choice below `limit` that fits, and that packs if addresses count."""
        alignment = self._question.alignment
        for cost, cut in self.cheaper_than(limit):
            residencies = self.residencies(cut)
            if all(packed_bytes(sizes, alignment) <= capacity for sizes in _live(residencies)) and (
                not with_addresses or packs(residencies, capacity, alignment)
            ):
                return cost
        return None

    def residencies(self, cut: int) -> tuple[Buffer, ...]:
        """Return the residencies: start and stop (half-open steps), and bytes."""
        found: list[Buffer] = []
        for tensor, uses in self._uses.items():
            start, size = uses[0], self._question.sizes[tensor]
            for index, (name, (before, after)) in enumerate(self.gaps):
                if name == tensor and cut >> index & 1:
                    found.append((start, before + 1, size))
                    start = after
            found.append((start, uses[-1] + 1, size))
        return tuple(sorted(found))


def _live(residencies: Sequence[Buffer]) -> list[list[int]]:
    """Return the sizes that are live at the start of each residency; at no other step more are."""
    return [
        [size for start, stop, size in residencies if start <= at < stop]
        for at in {start for start, _, _ in residencies}
    ]


@cache
def packs(residencies: tuple[Buffer, ...], capacity: int, alignment: int) -> bool:
    """Return True if offsets within the capacity exist; raises TooLargeError if trying all would take minutes."""
    return fits(residencies, capacity, alignment)


def bounds_of_traffic(question: Question, capacity: int, seconds: float) -> tuple[int, int | None]:
    """Return a lower and an upper bound (None: unknown) on the least non-compulsory bytes of the given order.

    One CP-SAT model with addresses, for questions too large to enumerate: a tensor has an address at each use. Between
    two uses it either keeps its address, and its bytes are taken, or it is evicted.
    """
    model, costs = cp_model.CpModel(), []
    times: list[cp_model.IntervalVar] = []
    places: list[cp_model.IntervalVar] = []
    for tensor, steps in question.uses(tuple(range(len(question.reads)))).items():
        size = question.sizes[tensor]
        if size > capacity:
            return 0, None
        slots = (capacity - size) // question.alignment
        units = [model.new_int_var(0, slots, "") for _ in steps]
        for step, unit in zip(steps, units, strict=True):
            times.append(model.new_fixed_size_interval_var(step, 1, ""))
            places.append(model.new_fixed_size_interval_var(question.alignment * unit, size, ""))
        away = []
        for (before, after), (earlier, later) in zip(pairwise(steps), pairwise(units), strict=True):
            kept = model.new_bool_var("")
            model.add(earlier == later).only_enforce_if(kept)
            away.append(~kept)
            if after > before + 1:
                gap = after - before - 1
                times.append(model.new_optional_fixed_size_interval_var(before + 1, gap, kept, ""))
                places.append(model.new_optional_fixed_size_interval_var(question.alignment * later, size, kept, ""))
        costs += [size * one for one in away]
        if away and question.roles[tensor] == "activation":
            stored = model.new_bool_var("")
            model.add_bool_or(away).only_enforce_if(stored)
            model.add_bool_and([~one for one in away]).only_enforce_if(~stored)
            costs.append(size * stored)
    model.add_no_overlap_2d(times, places)
    model.minimize(sum(costs))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    low = max(0, round(solver.best_objective_bound)) if status != cp_model.INFEASIBLE else 0
    return low, round(solver.objective_value) if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) else None
