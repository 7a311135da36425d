"""Mappings found ahead by workers equal those of one process, are requested once, and may stay unanswered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from onchip.answer.layer_problem import LayerProblem
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.schedule_options import ScheduleOptions
from onchip.answer.schedule import Homes
from onchip.errors import InputError
from onchip.ir.layer import Layer
from onchip.scheduling.mappings.nest_mapper import BestMapper, MappedAhead, NestSearch
from onchip.scheduling.program.composition import ScheduleQuestion
from onchip.scheduling.program.runs import NestPlace
from onchip.scheduling.search.solve import solve_schedule
from onchip.search.budget.limits import Limits, Run
from onchip.search.strategy.pool import AnswerT, LocalPool, Pending, QuestionT, threads
from support.small_schedules import PRECISION, skip_chip, skip_network

CHIP = skip_chip(400, 4000)
ROOM = {"near": 400, "far": 4000}
LAYER = Layer(k=2, c=2, p=4, q=4, r=3, s=3, partial_bits=16)
NESTS = [NestPlace(0, LAYER, Homes(input=home), weight_is_an_input=False) for home in (None, "near", "far")]
SEARCH = NestSearch(uses_cache=False)


@dataclass(slots=True)
class CountingPool:
    """Hands on to threads, and remembers what is asked."""

    threads: LocalPool
    is_here: bool = False
    room: int = 2
    asked: list[object] = field(default_factory=list)

    def submit(self, answer: Callable[[QuestionT], AnswerT], question: QuestionT) -> Pending[AnswerT]:
        self.asked.append(question)
        return self.threads.submit(answer, question)


class SilentPending:
    """An answer that never comes."""

    def ready(self) -> bool:
        return False

    def wait(self, seconds: float, /) -> None:
        """Nobody answers."""

    def get(self) -> object:
        raise AssertionError


@dataclass(slots=True)
class SilentPool:
    """Nobody answers."""

    is_here: bool = False
    room: int = 2

    def submit(self, answer: Callable[[QuestionT], AnswerT], question: QuestionT) -> Pending[AnswerT]:
        return SilentPending()  # type: ignore[return-value]


@pytest.mark.parametrize("objective", MappingObjective)
def test_what_workers_find_ahead_is_what_is_found_here(objective: MappingObjective) -> None:
    asked = [(nest, ROOM) for nest in NESTS]
    here = BestMapper(CHIP, objective, Run())
    with threads(2) as pool:
        counting = CountingPool(pool)
        there = BestMapper(CHIP, objective, Run(), ahead=MappedAhead(counting, SEARCH))
        there.expect([*asked, *asked])
        assert len(counting.asked) == len(NESTS)
        assert [there(*one) for one in asked] == [here(*one) for one in asked]
        others = [list(mapper.otherwise(NESTS[0], ROOM, 1.0)) for mapper in (here, there)]
        assert others[0] == others[1]
        assert len(counting.asked) == len(NESTS)


def test_an_answer_is_handed_out_once_and_forgotten_with_the_next_question() -> None:
    first, second = (LayerProblem(LAYER, CHIP, nest.homes, ROOM) for nest in NESTS[:2])
    energy, latency = MappingObjective.ENERGY, MappingObjective.LATENCY
    with threads(1) as pool:
        ahead = MappedAhead(pool, SEARCH)
        ahead.ask([(first, energy), (second, energy)], Run(), 0.0)
        assert ahead.taken((first, energy)) is not None
        assert ahead.taken((first, energy)) is None
        assert ahead.taken((second, latency)) is None
        ahead.ask([(first, latency)], Run(), 0.0)
        assert ahead.taken((second, energy)) is None
        assert ahead.taken((first, latency)) is None


def test_what_a_worker_refuses_is_refused_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise InputError("it is refused")

    monkeypatch.setattr("onchip.scheduling.mappings.nest_mapper.best_mapping_at", refuse)
    questions = [(LayerProblem(LAYER, CHIP, nest.homes, ROOM), MappingObjective.ENERGY) for nest in NESTS]
    with threads(2) as pool:
        ahead = MappedAhead(pool, SEARCH)
        ahead.ask(questions, Run(), 0.0)
    for one in questions:
        with pytest.raises(InputError, match="it is refused"):
            ahead.taken(one)


@pytest.mark.slow
def test_where_no_worker_answers_in_time_nests_are_mapped_here() -> None:
    mapper = BestMapper(CHIP, MappingObjective.ENERGY, Run(Limits(0.3)), ahead=MappedAhead(SilentPool(), SEARCH))
    mapper.expect([(nest, ROOM) for nest in NESTS])
    assert mapper.run.stop is not None
    assert all(mapper(nest, ROOM) is not None for nest in NESTS)


@pytest.mark.parametrize(
    ("stacks", "objective"),
    [
        ("layers", ScheduleObjective.ENERGY),
        pytest.param("optimal", ScheduleObjective.EDP, marks=pytest.mark.slow),
    ],
)
def test_a_schedule_with_workers_is_that_of_one_process(stacks: str, objective: ScheduleObjective) -> None:
    question = ScheduleQuestion(skip_network(2, 2), skip_chip(), PRECISION, objective, uses_cache=False)
    alone = solve_schedule(question, ScheduleOptions(stacks), Run())
    with threads(2) as pool:
        counting = CountingPool(pool)
        helped = solve_schedule(question, ScheduleOptions(stacks), Run(), pool=counting)
    assert counting.asked
    assert helped.objective_value == alone.objective_value
    assert helped.answer is not None
    assert alone.answer is not None
    assert helped.answer.composition.schedule == alone.answer.composition.schedule
