"""The oracle of all schedules: its schedules are legal at the stated cost; plainer searches find none better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import pytest

from onchip.answer.layer_mapping import LayerMapping
from onchip.answer.layer_problem import LayerProblem
from onchip.arch.accelerator import Accelerator
from onchip.arch.compute import ComputeArray
from onchip.arch.memory import Access, Direction, Dram, Memory, MemoryLevel, Port
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.ops.layers_of import Precision
from oracles.every_schedule import EverySchedule
from oracles.packing import TooLargeError
from oracles.schedule import Addresses, LeastSchedule, State, Work
from oracles.schedule_costs import NestFronts, Toy
from oracles.schedule_latency import Clock, FastestSchedule
from oracles.wide_mapspace import best_mappings, every_mapping, tiny
from support.random_schedules import small_case, tiny_case


def chain(*kinds: str) -> Graph:
    """Return a chain of maps of two bytes, each computed from the map before."""
    names = ["x", *(f"m{at}" for at in range(len(kinds)))]
    roles = [Role.INPUT, *[Role.ACTIVATION] * (len(kinds) - 1), Role.OUTPUT]
    tensors = [Tensor.of_shape(name, (1, 1, 1, 2), 8, role) for name, role in zip(names, roles, strict=True)]
    operators = [Operator(f"op{at}", kind, (names[at],), (names[at + 1],)) for at, kind in enumerate(kinds)]
    return Graph("chain", tuple(tensors), tuple(operators))


def machine(capacity: int) -> Accelerator:
    """Return a machine with one scratchpad of the given capacity in bytes."""
    memory, port = Memory("sram", capacity), Port(Direction.READ_WRITE, 8)
    level = MemoryLevel(memory, is_scratchpad=True, access=Access(8, 1, 2), ports=(port,))
    array, dram = ComputeArray({"lane": 1}, None, 0.0), Dram(Access(8, 10, 20), (port,))
    return Accelerator("tiny", (memory,), (level,), None, array, dram)


def every(seed: int) -> EverySchedule:
    case = tiny_case(seed)
    return EverySchedule(case.network, case.machine, Precision(8, None).on(case.machine))


class Unguided(LeastSchedule):
    """The same search by cost alone, with addresses from the start."""

    def to_pay(self, state: State) -> float:
        return 0.0

    def least_cost(self, below: float) -> float:
        for number in range(len(self.toy.operators)):
            self._operator_pays(number, frozenset())  # so that all sizes of workspaces are known
        return self._searched(below, Addresses(self.toy)).cost


@pytest.mark.parametrize("objective", ["energy", "traffic", "latency", "edp"])
@pytest.mark.parametrize("seed", [0, 1, 5, 9, 23])
def test_the_best_schedule_is_legal_and_costs_what_it_says(seed: int, objective: str) -> None:
    oracle = every(seed)
    best = oracle.best(objective, Work(20_000))
    assert best.schedule is not None
    assert best.cost == oracle.value_of(best.schedule, objective)


@pytest.mark.parametrize("objective", ["energy", "traffic"])
@pytest.mark.parametrize("seed", [5, 8, 11, 13, 20, 23])
def test_a_search_without_guidance_finds_nothing_cheaper(seed: int, objective: str) -> None:
    oracle = every(seed)
    best, cost = oracle.best(objective), inf
    for toy in oracle.toys():
        if len(toy.operators) <= 3:
            cost = min(cost, Unguided(toy, objective, work=Work(200_000)).least_cost(cost))
    assert best.cost <= cost
    if max(len(toy.operators) for toy in oracle.toys()) <= 3:
        assert best.cost == cost


@pytest.mark.parametrize("capacity", [2, 3, 4, 6])
def test_no_program_is_faster_than_the_fastest_schedule(capacity: int) -> None:
    """Programs are listed one action after the other, with addresses; two that reach one state are both continued."""
    toy = Toy(chain("Softmax", "Softmax"), machine(capacity), Precision(8, 8))
    search, addresses, looked_at = FastestSchedule(toy, "latency"), Addresses(toy), Work(100_000)
    least = search.least().cost

    def finds_a_faster_one(state: State, clock: Clock, actions: int) -> bool:
        looked_at.spend()
        if search._value(state, clock, 0) >= least or not actions:
            return False
        return search._is_over(state) or any(
            finds_a_faster_one(after, timed, actions - 1)
            for action, _, bare in search.moves(state)
            for _, after, timed in search._steps(addresses, clock, state, action, bare)
        )

    assert not finds_a_faster_one(search.start, search._begin(addresses), 7)


def test_results_in_place_need_the_memory_of_one_map() -> None:
    """In one byte each map passes DRAM, unless all operators run in tiles of one pixel together."""
    network = chain("Exp", "Exp", "Exp")
    for capacity, alone in ((2, 4), (1, 12)):
        oracle = EverySchedule(network, machine(capacity), Precision(8, 8))
        singles = [toy for toy in oracle.toys() if all(len(stack.operators) == 1 for stack in toy.stacks)]
        assert oracle.best("traffic").cost == 4
        assert min(LeastSchedule(toy, "traffic").least().cost for toy in singles) == alone


def test_too_much_work_ends_with_an_error_of_its_own() -> None:
    with pytest.raises(TooLargeError):
        every(19).best("energy", Work(50))


@pytest.mark.parametrize("seed", range(8))
def test_the_best_mappings_are_as_good_as_every_mapping(seed: int) -> None:
    problem = tiny(seed)

    def front(mappings: list[LayerMapping]) -> Sequence[object]:
        fronts = NestFronts()
        fronts._mappings = lambda _: mappings  # type: ignore[method-assign, assignment]
        return sorted(
            (pj, one.cycles, one.read_bits, one.written_bits, one.room) for one, pj in fronts.of(problem, ["buffer"])
        )

    assert front(list(best_mappings(problem))) == front(list(_on_the_array(problem)))


def _on_the_array(problem: LayerProblem) -> list[LayerMapping]:
    bounds, found = problem.layer.bounds, list[LayerMapping]()
    for mapping in every_mapping(problem):
        if sum(loop.along is not None and loop.size > 1 for loop in mapping.nest) <= 1 and all(
            loop.along is None or loop.size <= 2 for loop in mapping.nest
        ):
            short = tuple(name for name in mapping.ragged if mapping.bounds[name] != bounds[name])
            found.append(replace(mapping, ragged=short))
    return found


def test_a_case_is_the_same_each_time() -> None:
    assert tiny_case(7) == tiny_case(7)
    assert small_case(7) == small_case(7)
