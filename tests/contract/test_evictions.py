"""Evictions, idle gaps and nested blocks: the search costs what brute force finds."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, product

import pytest

from onchip.answer.problem import Order, Problem
from onchip.answer.result import Status, Stop
from onchip.arch.memory import Memory
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.memory.retention.kept_gaps import IdleGap, KeptGaps, what_leaves
from onchip.memory.spill.min_peak import MinPeakSearch
from onchip.memory.spill.search import BestFirstSearch, SearchOutcome
from onchip.model.capacity.bounds import greatest_need
from onchip.model.lifetimes.indexed import IndexedProblem
from onchip.native import StayGap, StaySearch, StopToken
from onchip.search.budget.limits import Limits, Run
from oracles.one_scratchpad import least_traffic
from support.crowds import crowd
from support.series import in_one_test

# Crowds of alike tensors, of which some must leave: the search costs what another model and brute force find


def crowded(seed: int, waiting: int, greatest_size: int, reads: int = 1, order: Order = Order.GIVEN) -> IndexedProblem:
    """Return a problem whose scratchpad holds the crowd, or the large tensor and a part of the crowd."""
    graph = crowd(seed, waiting, greatest_size, reads)
    capacity = sum(graph.tensor[f"t{i}"].size_bytes for i in range(waiting)) + 3
    alignment = (1, 1, 2, 3)[seed % 4]
    memory = Memory("sram", capacity * alignment + seed % alignment, alignment)
    return IndexedProblem.of(Problem(graph, (memory,), order=order))


def with_copies_elsewhere(seed: int) -> IndexedProblem:
    """Return a crowd of tensors: DRAM has copies of the network outputs, and may have copies of tensors read twice."""
    graph = crowd(seed, waiting=7, greatest_size=1 + seed % 2, reads=1 + seed % 3)
    tensors = tuple(
        replace(tensor, role=Role.OUTPUT) if tensor.name in {f"t{i}" for i in range(seed % 4)} else tensor
        for tensor in graph.tensors
    )
    capacity_bytes = sum(graph.tensor[f"t{i}"].size_bytes for i in range(7)) + 2
    problem = Problem(replace(graph, tensors=tensors), (Memory("sram", capacity_bytes),), order=Order.GIVEN)
    return IndexedProblem.of(problem)


def searched(indexed: IndexedProblem) -> SearchOutcome:
    """Search the given order, and compare with the model of tensors kept over the gaps between their uses."""
    outcome = BestFirstSearch(indexed, Run()).solve()
    kept = KeptGaps(indexed, range(indexed.operator_count)).solve(Run())
    assert outcome.cost == outcome.lower_bound == kept.objective_value == kept.lower_bound
    return outcome


@in_one_test("seed", range(60))
def test_of_alike_tensors_any_may_leave(seed: int) -> None:
    searched(crowded(seed, waiting=7, greatest_size=1 + seed % 2, reads=1 + seed // 3 % 3))


@in_one_test("seed", range(20))
def test_of_alike_tensors_any_may_leave_in_any_order(seed: int) -> None:
    indexed = crowded(seed, waiting=3, greatest_size=1 + seed % 2, order=Order.FREE)
    outcome = BestFirstSearch(indexed, Run()).solve()
    assert outcome.cost == outcome.lower_bound == least_traffic(indexed.problem, with_addresses=False)


@in_one_test("seed", range(60))
def test_what_has_a_copy_in_whatever_way_is_alike(seed: int) -> None:
    assert searched(with_copies_elsewhere(seed)).cost


@in_one_test("seed", range(24))
def test_the_search_comes_back_to_what_it_has_not_listed(seed: int) -> None:
    """Sets by the thousands, more than are listed at once."""
    searched(crowded(seed, waiting=13, greatest_size=6, reads=3))


@pytest.mark.parametrize("seed", [0, 1, 4, 5])
def test_a_state_may_have_more_residents_than_a_word_has_bits(seed: int) -> None:
    outcome = searched(crowded(seed, waiting=90, greatest_size=2))
    assert outcome.moves is not None
    assert max(len(move.evicted) for move in outcome.moves) > 20


@pytest.mark.slow
def test_sets_by_the_millions_do_not_keep_a_search_from_stopping() -> None:
    indexed = crowded(1, waiting=60, greatest_size=9, reads=3)
    outcome = BestFirstSearch(indexed, Run().within(0.3)).solve()

    assert outcome.stop in (Stop.TIME_LIMIT, Stop.COMPLETED)


# The least cost of leaving tensors, found state by state, equals brute force over the choices for all gaps


def least_cost_of_leaving(gaps: Sequence[IdleGap], left_units: Callable[[int], int]) -> int:
    """Return the least cost of evictions; evicting everything always fits."""
    fitting = (stays for stays in product((False, True), repeat=len(gaps)) if _fits(gaps, stays, left_units))
    return min(cost_of_leaving([gap for gap, one in zip(gaps, stays, strict=True) if not one]) for stays in fitting)


def cost_of_leaving(gaps: Sequence[IdleGap]) -> int:
    """Return the cost of the loads of evicted gaps, and of one store per tensor."""
    return sum(gap.load_cost for gap in gaps) + sum({gap.tensor: gap.store_cost for gap in gaps}.values())


def _fits(gaps: Sequence[IdleGap], stays: Sequence[bool], left_units: Callable[[int], int]) -> bool:
    staying = [gap for gap, one in zip(gaps, stays, strict=True) if one]
    steps = {step for gap in staying for step in gap.steps}
    return all(sum(gap.units for gap in staying if step in gap.steps) <= left_units(step) for step in steps)


def _gaps(chance: random.Random, steps: int, most: int) -> list[IdleGap]:
    """Return gaps of a few tensors in random order; gaps of one tensor do not overlap, but may touch."""
    found = []
    for tensor in range(chance.randint(1, 5)):
        units, load, store = chance.randint(0, 6), chance.randint(0, 9), chance.choice((0, 0, 1, 5, 9))
        ends = sorted(chance.sample(range(steps + 1), 2 * chance.randint(1, 2)))
        if chance.random() < 0.2 and len(ends) == 4:
            ends[2] = ends[1]
        for start, stop in zip(ends[::2], ends[1::2], strict=True):
            found.append(IdleGap(tensor, start, range(start, stop), units, load, store))
    chance.shuffle(found)
    return found[:most]


@in_one_test("seed", range(400))
def test_what_leaves_costs_what_all_choices_cost_at_least_and_the_rest_fits(seed: int) -> None:
    chance = random.Random(seed)
    steps = chance.randint(4, 12)
    gaps, left = _gaps(chance, steps, 9), [chance.randint(0, 14) for _ in range(steps)]
    found = what_leaves(gaps, left.__getitem__, Run())
    assert found is not None
    assert found.cost == cost_of_leaving(found.gaps) == least_cost_of_leaving(gaps, left.__getitem__)
    staying = [gap for gap in gaps if gap not in found.gaps]
    for step, units in enumerate(left):
        assert sum(gap.units for gap in staying if step in gap.steps) <= units


def _at_once(count: int) -> list[IdleGap]:
    return [IdleGap(tensor, 0, range(2), 1, 1, 1) for tensor in range(count)]


def test_more_than_a_word_of_gaps_at_once_or_too_many_states_are_no_answer() -> None:
    assert what_leaves(_at_once(65), lambda _: 0, Run()) is None
    assert what_leaves(_at_once(64), lambda _: 0, Run()) is not None
    assert what_leaves(_at_once(20), lambda _: 20, Run()) is None


def test_tensors_that_left_are_told_apart_as_far_as_a_word_goes() -> None:
    early = [IdleGap(tensor, tensor, range(tensor, tensor + 1), 1, 1, 1) for tensor in range(65)]
    late = [IdleGap(tensor, 70 + tensor, range(70 + tensor, 71 + tensor), 1, 1, 1) for tensor in range(65)]
    assert what_leaves([*early, *late], lambda _: 0, Run()) is None
    found = what_leaves([*early[:64], *late[:64]], lambda _: 0, Run())
    assert found is not None
    assert found.cost == 64 * 3


def test_without_time_nothing_is_answered() -> None:
    assert what_leaves(_at_once(3), lambda _: 1, Run(Limits(time_limit_seconds=0.0))) is None
    token = StopToken()
    token.ask()
    assert not StaySearch([], [1]).run(10, token)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"stop": 0}, "empty"),
        ({"stop": 3}, "behind the last step"),
        ({"start": -1}, "empty"),
        ({"units": -1}, "below 0"),
        ({"load_cost": -1}, "below 0"),
        ({"store_cost": (1 << 60) + 1}, "too many"),
    ],
)
def test_gaps_that_are_none_are_refused(change: dict[str, int], said: str) -> None:
    right = {"tensor": 0, "start": 0, "stop": 2, "units": 1, "load_cost": 1, "store_cost": 0}
    with pytest.raises(ValueError, match=said):
        StaySearch([StayGap(**{**right, **change})], [1, 1])


# Nested blocks, as in U-Nets: tensors that are live across a block do not make the search restart the block


class NestedBlocks:
    """A U-Net with `levels` levels, whose cells share a random wiring; sizes are random within a level.

    Each level is `narrowing` times as wide as the one above it.
    """

    def __init__(self, seed: int, levels: int, nodes: int, widest: int = 64, narrowing: float = 2 / 3) -> None:
        self._seed, self._nodes = seed, nodes
        self._tensors: list[Tensor] = []
        self._operators: list[Operator] = []
        self._levels([max(2, int(widest * narrowing**level)) for level in range(levels + 1)])

    @property
    def graph(self) -> Graph:
        """Return the network."""
        return Graph("nested", tuple(self._tensors), tuple(self._operators))

    def _levels(self, sizes: Sequence[int]) -> None:
        hidden, skips = self._tensor(sizes[0], Role.INPUT), list[str]()
        for size in sizes[:-1]:
            skips.append(self._cell(hidden, size))
            hidden = self._add((skips[-1],), size)
        hidden = self._cell(hidden, sizes[-1])
        for size in reversed(sizes[:-1]):
            hidden = self._cell(self._add((hidden, skips.pop()), size), size)
        self._add((hidden,), 1, Role.OUTPUT)

    def _cell(self, read: str, size: int) -> str:
        """Add a cell whose first operator reads the input and whose last joins all unread maps.

        Any order in between is legal.
        """
        chance = random.Random(self._seed)
        made, first = [self._add((read,), size)], len(self._operators)
        for _ in range(self._nodes):
            one, other = (chance.choice(made) for _ in range(2))
            more = chance.randint(1, size), chance.randint(1, size)
            made.append(self._add((self._add((one,), more[0]), self._add((other,), more[1])), size))
        taken = {name for operator in self._operators[first:] for name in operator.inputs}
        return self._add([name for name in made if name not in taken], size)

    def _add(self, reads: Sequence[str], size: int, role: Role = Role.ACTIVATION) -> str:
        written = self._tensor(size, role)
        self._operators.append(Operator(f"o{len(self._operators)}", "Op", tuple(dict.fromkeys(reads)), (written,)))
        return written

    def _tensor(self, size: int, role: Role) -> str:
        self._tensors.append(Tensor.of_shape(f"t{len(self._tensors)}", (size,), 8, role))
        return self._tensors[-1].name


def in_room_for(graph: Graph, more: float) -> Problem:
    """Return the problem of a network with `more` times the capacity that its most demanding operator needs."""
    roomy = Problem(graph, (Memory("sram", 10**9),))
    need_bytes = greatest_need(roomy).need_bytes
    return Problem(graph, (Memory("sram", int(need_bytes * more)),))


ALIKE = 0.95
"""Skips of all levels are about as large: which of them leave is no matter of course."""


def searched_blocks(seed: int, levels: int, nodes: int, more: float, narrowing: float = 2 / 3) -> SearchOutcome:
    problem = in_room_for(NestedBlocks(seed, levels, nodes, narrowing=narrowing).graph, more)
    found = BestFirstSearch(IndexedProblem.of(problem), Run(), 200_000).solve()
    assert found.cost == found.lower_bound
    return found


@pytest.mark.parametrize(("levels", "nodes"), [(1, 0), (2, 0), (3, 0), (1, 1)])
def test_nested_blocks_cost_what_every_order_and_every_choice_costs_at_least(levels: int, nodes: int) -> None:
    costs = set()
    for widest in (7, 9, 12):
        for more in (1.0, 1.15, 1.3):
            problem = in_room_for(NestedBlocks(0, levels, nodes, widest, ALIKE).graph, more)
            found = BestFirstSearch(IndexedProblem.of(problem), Run()).solve()
            assert found.cost == least_traffic(problem, with_addresses=False)
            costs.add(found.cost)
    assert levels == 1 or len(costs) > 2


@pytest.mark.parametrize("seed", range(4))
def test_levels_around_a_block_add_to_the_states_and_do_not_multiply_them(seed: int) -> None:
    """Two levels or twelve: a skip that waits is not one more choice in each block."""
    for nodes in (2, 4):
        few, many = (searched_blocks(seed, levels, nodes, 1.0) for levels in (2, 12))
        operators = [len(NestedBlocks(seed, levels, nodes).graph.operators) for levels in (2, 12)]
        assert many.states * operators[0] <= 1.5 * few.states * operators[1]


@pytest.mark.parametrize("seed", range(4))
def test_of_skips_that_are_alike_far_fewer_sets_are_looked_at_than_there_are(seed: int) -> None:
    few, many = (searched_blocks(seed, levels, 4, 1.3, ALIKE) for levels in (2, 12))
    assert many.states < few.states + 2**12 * 12


@pytest.mark.parametrize(("levels", "nodes"), [(2, 1), (3, 2), (8, 2)])
def test_the_least_peak_is_that_of_a_block_with_all_that_passes_it(levels: int, nodes: int) -> None:
    """Tensors never leave: those that pass a block add their bytes to its peak, and the worst block decides alone."""
    graph = NestedBlocks(1, levels, nodes).graph
    found = MinPeakSearch(IndexedProblem.of(in_room_for(graph, 100.0)), Run()).solve()
    assert found.status is Status.OPTIMAL
    assert found.objective_value == max(map(partial(least_peak_of_block, graph), blocks_of(graph)))


def blocks_of(graph: Graph) -> Iterator[range]:
    """Yield ranges of operators: each range runs after all operators before it and before all operators behind it."""
    before: list[set[int]] = []
    number = {operator.name: at for at, operator in enumerate(graph.operators)}
    for operator in graph.operators:
        makers = {number[graph.producer[name].name] for name in operator.inputs if name in graph.producer}
        before.append(makers.union(*(before[maker] for maker in makers)))
    last = len(before)
    cuts = [at for at in range(last) if all(before[later].issuperset(range(at)) for later in range(at, last))]
    yield from (range(start, stop) for start, stop in pairwise([*cuts, last]))


def least_peak_of_block(graph: Graph, block: range) -> int:
    """Return the least peak over all orders of a block's operators, with the tensors that pass the block."""
    operators = [graph.operators[at] for at in block]
    earlier, later = graph.operators[: block.start], graph.operators[block.stop :]
    known = {name for operator in earlier for name in (*operator.inputs, *operator.outputs)}
    return min(_peak(graph, order, known, later) for order in _orders(graph, operators, known, ()))


def _orders(
    graph: Graph, left: list[Operator], known: set[str], done: tuple[Operator, ...]
) -> Iterator[tuple[Operator, ...]]:
    if not left:
        yield done
    made = known.union(*(operator.outputs for operator in done))
    for at, operator in enumerate(left):
        if all(name in made or name not in graph.producer for name in operator.inputs):
            yield from _orders(graph, left[:at] + left[at + 1 :], known, (*done, operator))


def _peak(graph: Graph, order: Sequence[Operator], known: set[str], later: Sequence[Operator]) -> int:
    peak, there = 0, set(known)
    for at, operator in enumerate(order):
        there = {name for name in there if any(name in one.inputs for one in (*order[at:], *later))}
        there |= {*operator.inputs, *operator.outputs}
        peak = max(peak, sum(graph.tensor[name].size_bytes for name in there))
    return peak
