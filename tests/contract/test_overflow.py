"""The minimum bytes placed off chip equal a brute force over all kept sets, each with every packing."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from onchip.answer.packing import Buffer, Overflow, PackingProblem, StaticMemory, StaticPackingProblem
from onchip.answer.result import SearchResult, Status, Stop
from onchip.formats.minimalloc import read_buffers
from onchip.memory.allocate import pools, sections
from onchip.memory.allocate.exact import Attempt, least_arena_bytes
from onchip.memory.allocate.pools import Conflict, MemoryModel, MemorySearch, bytes_surely_outside, least_overflow
from onchip.memory.effort import StepParams
from onchip.search.budget.limits import Limits, Progress, Run
from onchip.verify.packing import verify_overflow
from oracles.packing import TooLargeError, least_outside_bytes
from support.packable import drawn_buffers, full_at_every_step
from support.series import HALVES

DATA = Path(__file__).parent.parent / "data"
MINIMALLOC = DATA / "minimalloc"
EXECUTORCH = DATA / "executorch"


@st.composite
def problems(draw: st.DrawFn) -> PackingProblem:
    """Draw a tiny problem with a capacity from much too small to ample."""
    return PackingProblem(
        tuple(draw(drawn_buffers(8, 8))), draw(st.integers(1, 16)), draw(st.sampled_from((1, 1, 2, 3)))
    )


def brimful(seed: int) -> PackingProblem | None:
    """Return a problem full at every step, where sets that fit by bytes often do not pack; None if too large to try."""
    chance = random.Random(seed)
    alignment = chance.choice((1, 1, 2, 3))
    in_units = full_at_every_step(chance, chance.randint(4, 7), chance.randint(4, 8), 4, 0.4)
    buffers = [replace(one, size_bytes=one.size_bytes * alignment - chance.randrange(alignment)) for one in in_units]
    roomy = PackingProblem(tuple(buffers), 10**6, alignment)
    return replace(roomy, capacity_bytes=least_arena_bytes(roomy)) if len(buffers) <= 12 else None


def oracle_outside_bytes(problem: PackingProblem) -> int:
    """Return the minimum bytes off chip by brute force over the kept sets; rejects examples too large to try."""
    buffers = [(one.start, one.stop, one.size_bytes) for one in problem.buffers]
    try:
        return least_outside_bytes(buffers, problem.capacity_bytes, problem.alignment_bytes)
    except TooLargeError:
        reject()


def is_legal(problem: PackingProblem, result: SearchResult[Overflow]) -> bool:
    if result.answer is None or result.objective_value is None:
        return False
    return verify_overflow(problem, result.answer, result.objective_value) == ()


def is_optimal(problem: PackingProblem, result: SearchResult[Overflow]) -> bool:
    least = oracle_outside_bytes(problem)
    known = (result.status, result.objective_value, result.lower_bound)
    return is_legal(problem, result) and known == (Status.OPTIMAL, least, least)


def model_of(problem: PackingProblem, run: Run | None = None) -> MemoryModel:
    """Return the model of the memory and of an unlimited memory off chip."""
    memories = (StaticMemory(problem.capacity_bytes, problem.alignment_bytes), StaticMemory())
    costs = ({0: 0, 1: 1},) * len(problem.buffers)
    return MemoryModel(StaticPackingProblem(problem.buffers, memories, costs), run or Run())


def executorch(network: str) -> tuple[Buffer, ...]:
    return read_buffers(EXECUTORCH / f"{network}.csv").buffers


def hard(percent: int = 80) -> PackingProblem:
    """Return an instance that stays unproven for long."""
    return PackingProblem(read_buffers(MINIMALLOC / "A.1048576.csv").buffers, 1048576 * percent // 100)


@HALVES
@settings(max_examples=80, deadline=None)
@given(problem=problems())
def test_it_agrees_with_trying_every_choice(half: int, problem: PackingProblem) -> None:
    assert is_optimal(problem, least_overflow(problem, Run()))


def brimful_problems(seeds: int) -> list[PackingProblem]:
    return [problem for seed in range(seeds) if (problem := brimful(seed)) is not None]


@pytest.mark.slow
def test_it_agrees_where_addresses_cost_bytes() -> None:
    problems = brimful_problems(1200)
    by_bytes_alone = [model_of(problem).solve(Run()).objective_value for problem in problems]

    results = [least_overflow(problem, Run()) for problem in problems]

    assert all(is_optimal(problem, result) for problem, result in zip(problems, results, strict=True))
    dearer = [r for r, bytes_alone in zip(results, by_bytes_alone, strict=True) if r.objective_value != bytes_alone]
    assert len(dearer) >= 10


def test_it_agrees_where_no_reason_is_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    set_aside: list[int] = []
    set_one_aside = MemoryModel.set_aside

    def counting(model: MemoryModel, indices: list[int], memory: int) -> None:
        set_aside.append(memory)
        set_one_aside(model, indices, memory)

    monkeypatch.setattr(pools, "STEP", StepParams(plan_nodes=1))
    monkeypatch.setattr(Attempt, "unpackable_stretches", lambda attempt: [])
    monkeypatch.setattr(MemorySearch, "_orders", lambda search, first=(): iter(()))
    monkeypatch.setattr(MemoryModel, "set_aside", counting)
    problems = brimful_problems(400)

    results = [least_overflow(problem, Run()) for problem in problems]

    assert all(is_optimal(problem, result) for problem, result in zip(problems, results, strict=True))
    assert len(set_aside) >= 10


@settings(max_examples=40, deadline=None)
@given(problem=problems())
def test_the_bounds_are_below_the_least(problem: PackingProblem) -> None:
    by_bytes_alone = model_of(problem).solve(Run()).objective_value

    assert by_bytes_alone is not None
    assert bytes_surely_outside(problem) <= by_bytes_alone <= oracle_outside_bytes(problem)


def test_a_conflict_forbids_all_that_are_alike_or_larger() -> None:
    """Any two of the three large ones are too much, once that is known of parts of two; the small one is not."""
    buffers = (Buffer(0, 4, 3), Buffer(0, 5, 3), Buffer(1, 4, 4), Buffer(9, 10, 1), Buffer(0, 4, 2))
    model = model_of(PackingProblem(buffers, 10))

    model.forbid(Conflict(range(2, 4), (0, 1)), 0)

    result = model.solve(Run())
    assert (result.answer, result.objective_value) == ((1, 1, 0, 0, 0), 6)


def test_what_ends_within_the_last_partial_unit_may_be_kept() -> None:
    problem = PackingProblem((Buffer(0, 1, 4), Buffer(0, 1, 3)), 7, alignment_bytes=4)

    assert least_overflow(problem, Run()).objective_value == 0
    assert least_overflow(replace(problem, capacity_bytes=6), Run()).objective_value == 3


def test_a_buffer_larger_than_the_capacity_is_outside() -> None:
    result = least_overflow(PackingProblem((Buffer(0, 2, 9), Buffer(1, 3, 8)), 8), Run())

    assert (result.answer, result.objective_value) == (Overflow((None, 0)), 9)
    assert least_overflow(PackingProblem((Buffer(0, 2, 9),), 8), Run()).answer == Overflow((None,))


def test_without_buffers_nothing_is_outside() -> None:
    result = least_overflow(PackingProblem((), 1), Run())

    assert (result.status, result.answer, result.objective_value) == (Status.OPTIMAL, Overflow(()), 0)


def test_steps_and_capacities_may_be_huge() -> None:
    buffers = (Buffer(0, 2**62, 2**49), Buffer(2**61, 2**62, 2**48), Buffer(2**62 - 1, 2**62, 2**48 + 1))

    assert least_overflow(PackingProblem(buffers, 2**49 + 2**48), Run()).objective_value == 2**48 + 1
    assert least_overflow(PackingProblem(buffers, 2**49 + 2**48 - 1), Run()).objective_value == 2**49
    assert least_overflow(PackingProblem(buffers, 2**63 - 1), Run()).objective_value == 0


def test_the_same_question_has_the_same_answer() -> None:
    problem = PackingProblem(executorch("googlenet"), 3_211_264, 16)

    assert least_overflow(problem, Run()).answer == least_overflow(problem, Run()).answer


# Shares of all bytes at 25, 50 and 75 % of the most that lives at once; BankedGreedy is ExecuTorch 1.5.1's own planner.
LIVENESS_BOUND_BYTES = {"resnet50": 9_633_792, "googlenet": 6_422_528, "densenet121": 8_429_568}
KNOWN_OPTIMA = {
    "resnet50": (0.491, 0.216, 0.111), "googlenet": (0.446, 0.233, 0.061), "densenet121": (0.355, 0.094, 0.044),
}  # fmt: skip
BANKED_GREEDY = {
    "resnet50": (0.522, 0.258, 0.131), "googlenet": (0.546, 0.354, 0.143), "densenet121": (0.397, 0.178, 0.075),
}  # fmt: skip


@pytest.mark.parametrize("quarters", [1, 2, 3])
@pytest.mark.parametrize("network", LIVENESS_BOUND_BYTES)
def test_networks_are_proven_at_the_optima_known_before(network: str, quarters: int) -> None:
    buffers, bound = executorch(network), LIVENESS_BOUND_BYTES[network]
    problem = PackingProblem(buffers, bound * quarters // 4, 16)
    assert least_arena_bytes(problem) == bound

    result = least_overflow(problem, Run())

    assert result.status is Status.OPTIMAL
    assert is_legal(problem, result)
    share = (result.objective_value or 0) / sum(buffer.size_bytes for buffer in buffers)
    assert round(share, 3) == KNOWN_OPTIMA[network][quarters - 1] < BANKED_GREEDY[network][quarters - 1]


@pytest.mark.slow
def test_a_time_limit_leaves_an_answer_and_a_bound() -> None:
    progress: list[Progress] = []

    result = least_overflow(hard(), Run(Limits(time_limit_seconds=2.0), progress.append))

    assert (result.status, result.stopped_by) == (Status.FEASIBLE, Stop.TIME_LIMIT)
    assert is_legal(hard(), result)
    assert 0 < result.lower_bound < (result.objective_value or 0)
    bests = [each.best or 0 for each in progress]
    assert bests == sorted(bests, reverse=True)
    assert progress[-1].best == result.objective_value


def test_without_any_time_there_is_still_an_answer() -> None:
    result = least_overflow(hard(), Run(Limits(time_limit_seconds=0.0)))

    assert result.stopped_by is Stop.TIME_LIMIT
    assert is_legal(hard(), result)


@pytest.mark.slow
def test_a_node_limit_ends_it() -> None:
    result = least_overflow(hard(), Run(Limits(node_limit=2_000)))

    assert (result.status, result.stopped_by) == (Status.FEASIBLE, Stop.NODE_LIMIT)
    assert is_legal(hard(), result)


@pytest.mark.slow
def test_an_interruption_leaves_the_best_so_far() -> None:
    run = Run()
    threading.Timer(1.0, run.interrupt.set).start()

    result = least_overflow(hard(), run)

    assert (result.status, result.stopped_by) == (Status.FEASIBLE, Stop.INTERRUPTED)
    assert is_legal(hard(), result)


def test_no_row_of_the_model_is_added_after_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    monkeypatch.setattr(MemoryModel, "_a_section_holds", lambda model, part, indices, memory: rows.append(memory))

    model_of(hard(), Run(Limits(time_limit_seconds=0.0)))
    late = len(rows)
    model_of(hard())

    assert late == 0 < len(rows)


def test_more_pairs_than_fit_in_memory_leave_a_greedy_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sections, "STEP", StepParams(listed_pairs=10))

    result = least_overflow(hard(), Run())

    assert (result.status, result.stopped_by) == (Status.FEASIBLE, Stop.MEMORY_LIMIT)
    assert is_legal(hard(), result)
