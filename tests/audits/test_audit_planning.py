"""The second prover against exhaustive search: true optima are confirmed, one more is refuted by a legal plan."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from onchip.answer.problem import Objective, Order, Placement, Problem, Rate, Transfers
from onchip.answer.program import Plan
from onchip.arch.memory import Memory, Operand
from onchip.audits.crossings import CrossingsModel, ProblemFacts
from onchip.audits.finding import Answered, OutOfTimeError, Ruling, searched
from onchip.audits.moments import MomentModel, MomentsModel
from onchip.audits.planning import audit_plan
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.search.budget.clock import Deadline
from onchip.verify.verifier import verify
from oracles.one_scratchpad import least_peak, least_traffic, long_lived_graph, random_graph
from oracles.scratchpads import least_cost_of_instructions
from support.programs import graph, sram
from support.series import series

SECONDS = 30.0
NEVER = Deadline()


def one_scratchpad(seed: int) -> Problem:
    chance = random.Random(seed)
    is_wide = chance.random() < 0.5
    graph = random_graph(seed, 5, 6, chance.choice((3, 5, 9))) if is_wide else long_lived_graph(seed, 6, 1.0, 5)
    alignment = chance.choice((1, 1, 2, 3))
    objective = chance.choice((Objective.TRAFFIC, Objective.TRAFFIC, Objective.PEAK))
    problem = Problem(graph, (Memory("sram", 1, alignment),), objective, chance.choice((Order.FREE, Order.GIVEN)))
    need = max(
        sum(-(-tensor.size_bytes // alignment) * alignment for tensor in problem.operands(operator))
        for operator in graph.operators
    )
    spare = chance.randint(-1, 3) if objective is Objective.TRAFFIC else chance.randint(0, 12)
    return replace(problem, memories=(Memory("sram", max(1, need + spare), alignment),))


def two_scratchpads(seed: int) -> Problem:
    """Return a problem so small that every sequence of instructions can be tried."""
    chance = random.Random(seed)
    tensors = [Tensor("in", chance.randint(1, 2), Role.INPUT)]
    operators = []
    for index in range(chance.randint(1, 2)):
        inputs = tuple(sorted({chance.choice(tensors).name for _ in range(chance.randint(1, 2))}))
        operators.append(Operator(f"o{index}", "Op", inputs, (f"t{index}",)))
        tensors.append(Tensor(f"t{index}", chance.randint(1, 2), Role.ACTIVATION))
    read = {name for operator in operators for name in operator.inputs}
    roles = (one if one.name in read or one.role is Role.INPUT else replace(one, role=Role.OUTPUT) for one in tensors)
    memories = tuple(
        Memory(
            name, chance.randint(1, 4), chance.choice((1, 1, 2)), tuple(sorted(set(chance.choices(list(Operand), k=3))))
        )
        for name in ("left", "right")
    )
    links = tuple(link for link in (("left", "right"), ("right", "left")) if chance.random() < 0.6)
    ways = [("dram", "left"), ("dram", "right"), ("left", "dram"), ("right", "dram"), *links]
    rates = {way: Rate(chance.randint(0, 2), ((8, chance.randint(0, 4)),)) for way in ways}
    order = chance.choice((Order.FREE, Order.GIVEN))
    graph = Graph(f"two{seed}", tuple(roles), tuple(operators))
    return Problem(graph, memories, Objective.DMA_CYCLES, order, transfers=Transfers(links, rates))


def truth_of(problem: Problem) -> int | None:
    if len(problem.memories) > 1:
        return least_cost_of_instructions(problem)
    return least_peak(problem) if problem.objective is Objective.PEAK else least_traffic(problem)


def rules_as_the_oracle_does(problem: Problem) -> bool:
    """Compare the ruling with the oracle's optimum; return False if there is no optimum."""
    truth = truth_of(problem)
    if truth is None:
        return False
    for below in (0, 1):
        assert audit_plan(problem, truth - below, SECONDS).ruling is Ruling.CONFIRMED
    finding = audit_plan(problem, truth + 1, SECONDS)
    assert finding.ruling is Ruling.REFUTED
    assert finding.better_value == truth
    assert isinstance(finding.better, Plan)
    verdict = verify(problem, finding.better)
    assert verdict.is_legal
    assert verdict.figures.objective_value(problem.objective) == truth
    return True


@pytest.mark.parametrize("first", series(range(0, 150, 30), 2))
def test_one_scratchpad_is_ruled_on_as_trying_everything_does(first: int) -> None:
    assert sum(rules_as_the_oracle_does(one_scratchpad(seed)) for seed in range(first, first + 30)) >= 15


def test_linked_scratchpads_are_ruled_on_as_trying_everything_does() -> None:
    assert sum(rules_as_the_oracle_does(two_scratchpads(seed)) for seed in range(24)) >= 10


@pytest.mark.parametrize("orders", [False, True])
def test_what_crosses_operators_is_a_relaxation(orders: bool) -> None:
    """The relaxations have a solution for any value up to the true optimum."""
    for seed in range(40):
        problem = one_scratchpad(seed)
        if (truth := truth_of(problem)) is None:
            continue
        model = CrossingsModel(ProblemFacts(problem), truth + 1, NEVER, orders=orders).model
        assert searched(model, SECONDS, 1)[0] is Answered.SOLUTION, seed


@pytest.mark.parametrize("orders", [False, True])
def test_a_network_output_that_has_left_costs_its_load_alone(orders: bool) -> None:
    """The map a is written in any case. While b is on the chip it has no room, and comes back for h."""
    network = graph(
        "x:input:1 a:output:4 b:activation:8 c:activation:1 y:output:1",
        f="x -> a",
        g="x -> b",
        k="b -> c",
        h="a c -> y",
    )
    problem = Problem(network, sram(9), order=Order.GIVEN)
    assert rules_as_the_oracle_does(problem)
    assert least_traffic(problem) == 4
    model = CrossingsModel(ProblemFacts(problem), 5, NEVER, orders=orders).model
    assert searched(model, SECONDS, 1)[0] is Answered.SOLUTION


def test_residencies_without_room_between_steps_are_a_relaxation() -> None:
    for seed in range(24):
        problem = two_scratchpads(seed)
        if (truth := truth_of(problem)) is None:
            continue
        shape = MomentModel(truth + 1, with_addresses=False, transits=1, room_between=False)
        assert searched(MomentsModel(ProblemFacts(problem), shape, NEVER).model, SECONDS, 1)[0] is Answered.SOLUTION, (
            seed
        )


def test_in_a_given_order_what_crosses_operators_is_exact_in_bytes() -> None:
    for seed in range(40):
        problem = replace(one_scratchpad(seed), order=Order.GIVEN, objective=Objective.TRAFFIC)
        problem = replace(problem, memories=(replace(problem.memories[0], alignment_bytes=1),))
        truth = least_traffic(problem, with_addresses=False)
        if truth:
            model = CrossingsModel(ProblemFacts(problem), truth, NEVER, orders=False).model
            assert searched(model, SECONDS, 1)[0] is Answered.NONE, seed


@pytest.mark.slow
def test_a_tensor_with_a_place_for_life_costs_no_less_than_one_that_comes_and_goes() -> None:
    refuted = 0
    for seed in range(30):
        problem = replace(one_scratchpad(seed), objective=Objective.TRAFFIC, order=Order.GIVEN)
        static = replace(problem, placement=Placement.STATIC)
        if (truth := least_traffic(problem)) is None:
            continue
        assert audit_plan(static, truth, SECONDS).ruling is Ruling.CONFIRMED
        finding = audit_plan(static, 10**6, SECONDS)
        refuted += finding.ruling is Ruling.REFUTED
    assert refuted >= 15


def test_a_bound_of_nothing_is_confirmed_at_once() -> None:
    finding = audit_plan(one_scratchpad(0), 0, SECONDS)

    assert finding.ruling is Ruling.CONFIRMED
    assert finding.detail == "nothing costs less than 0"


def test_without_time_nothing_is_ruled() -> None:
    problem = replace(one_scratchpad(0), objective=Objective.TRAFFIC)

    assert audit_plan(problem, 5, -1.0).ruling is Ruling.UNDECIDED
    with pytest.raises(OutOfTimeError):
        CrossingsModel(ProblemFacts(problem), 5, Deadline.after(-1.0), orders=True)
