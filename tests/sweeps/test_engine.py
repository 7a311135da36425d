"""The engine of sweeps, with budgets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import pytest

from onchip.answer.document import Reading
from onchip.answer.problem import Count
from onchip.api.networks import network_to_plan
from onchip.api.target import budgets_of, roomy_problem
from onchip.errors import UsageError
from onchip.search.budget.limits import Limits
from onchip.sweeps.point import NeighbourAnswers, PointAnswer, PointStatus, SweepPoint
from onchip.sweeps.store import Store
from onchip.sweeps.study import Study, study_of, study_of_value
from onchip.sweeps.sweep import Bisection, PointResolver, Sweep, SweepProgress
from support.swept_points import point_of

# The sweep engine with workers that know every answer: the points that it asks for, keeps and counts


@dataclass
class KnowingWorkers:
    """Workers that answer the latest point first."""

    answers: Mapping[str, PointAnswer]
    asked: list[str] = field(default_factory=list)
    waiting: list[SweepPoint] = field(default_factory=list)
    told: list[SweepPoint] = field(default_factory=list)
    is_closed: bool = False

    @property
    def room(self) -> int:
        return 3 - len(self.waiting)

    def begin(self, points: int) -> None:
        """Do nothing: the workers are ready."""

    def submit(self, point: SweepPoint) -> None:
        self.asked.append(point.key)
        self.told.append(point)
        self.waiting.append(point)

    def finished(self, seconds: float) -> Iterator[tuple[SweepPoint, PointAnswer]]:
        point = self.waiting.pop()
        yield point, self.answers[point.key]

    def close(self) -> None:
        self.is_closed = True


def found(value: int, bound: int) -> PointAnswer:
    return PointAnswer(PointStatus.OPTIMAL if value == bound else PointStatus.FEASIBLE, value, bound)


ANSWERS = {
    "a": found(9, 9),
    "b": found(8, 5),
    "c": found(9, 6),
    "d": found(6, 6),
    "e": found(6, 6),
    "f": PointAnswer(PointStatus.FAILED, reason="it broke"),
}
POINTS = {key: point_of(key, {"size": at}) for at, key in enumerate(ANSWERS)}


def sweep(path: Path, chains: list[list[str]], most: int = 100) -> tuple[bool, KnowingWorkers, SweepProgress]:
    """Run until `most` points have been asked for; an existing store is continued."""
    workers = KnowingWorkers(ANSWERS)
    with Store.for_writing(path) as store:
        store.add_study("engine", [*POINTS.values()])
        known = store.known(POINTS)
        progress = SweepProgress(len(POINTS), kept_before=len(known))
        chained = [Bisection(keys) for keys in chains]
        run = Sweep(store, workers, POINTS, chained, progress, lambda _: None, lambda: len(workers.asked) >= most)
        return run.run(known), workers, progress


def kept(path: Path) -> dict[str, tuple[str, object, object]]:
    with Store.for_reading(path) as store:
        known = store.known(POINTS)
    return {key: (str(one.status), one.objective_value, one.lower_bound) for key, one in known.items()}


def test_what_points_prove_of_each_other_is_kept(tmp_path: Path) -> None:
    is_over, workers, progress = sweep(tmp_path / "points.db", [["a", "b", "c", "d", "e"], ["f"]])

    assert is_over
    assert workers.is_closed
    assert sorted(workers.asked) == ["a", "b", "c", "d", "e", "f"]
    assert (progress.computed, progress.failed, progress.tightened, progress.done) == (5, 1, 2, 6)
    known = kept(tmp_path / "points.db")
    assert known["b"] == ("FEASIBLE", 8, 6)
    assert known["c"] == ("FEASIBLE", 8, 6)
    assert known["d"] == ("OPTIMAL", 6, 6)
    assert known["f"][0] == "FAILED"


def test_a_sweep_that_was_stopped_goes_on_with_what_is_kept(tmp_path: Path) -> None:
    chains = [[key] for key in ANSWERS]
    is_over, first, _ = sweep(tmp_path / "points.db", chains, most=3)
    assert (is_over, len(first.asked)) == (False, 3)
    done = set(kept(tmp_path / "points.db"))

    is_over, second, progress = sweep(tmp_path / "points.db", chains)

    assert is_over
    assert set(second.asked) == set(ANSWERS) - done
    assert progress.kept_before == len(done)
    assert progress.done == 6
    whole = tmp_path / "whole.db"
    sweep(whole, chains)
    assert kept(tmp_path / "points.db") == kept(whole)


def test_a_point_between_two_is_told_what_these_say(tmp_path: Path) -> None:
    _, workers, _ = sweep(tmp_path / "told.db", [["a", "b", "d"]])
    told = {point.key: point.neighbours for point in workers.told}
    assert (told["a"], told["d"]) == (None, None)
    assert told["b"] == NeighbourAnswers(None, 9, 6)


# Sizes of a study that depend on its networks


NETWORKS = ("densenet121", "lenet5")


def study(sram: object, **more: object) -> Study:
    fields = {"networks": [*NETWORKS], "parameters": {"sram": sram}, "options": {"bits": 8}, **more}
    return study_of(study_of_value(fields), "budgets")


def sizes(of: Study) -> dict[str, list[object]]:
    questions = PointResolver(of).questions()
    return {name: [one.parameters["sram"] for one in questions if one.network == name] for name in NETWORKS}


@pytest.mark.parametrize("count", Count)
def test_budgets_are_those_of_each_network_as_it_is_read(count: Count) -> None:
    found = sizes(study({"values": ["m_r", "M_H", "m_p"]}, options={"bits": 8, "count": str(count)}))
    for name in NETWORKS:
        graph = network_to_plan(name, replace(Reading(), bits=8, count=count))
        budgets = budgets_of(roomy_problem(graph, count), Limits())
        assert budgets.min_peak_bytes is not None
        middle = (budgets.required_bytes + budgets.min_peak_bytes) // 2
        assert found[name] == list(dict.fromkeys([budgets.required_bytes, middle, budgets.min_peak_bytes]))


def test_a_range_between_budgets_is_cut_evenly_for_each_network() -> None:
    found = sizes(study({"range": "m_r..m_p", "steps": 9}))
    densenet = [int(str(size)) for size in found["densenet121"]]
    assert (densenet[0], densenet[-1], len(densenet)) == (1_605_632, 2_107_392, 9)
    steps = [later - before for before, later in pairwise(densenet)]
    assert max(steps) - min(steps) <= 1
    assert found["lenet5"] == [40_064]


def test_a_range_may_end_at_a_size() -> None:
    found = sizes(study({"range": "m_r..4MiB", "steps": 2}))
    assert found == {"densenet121": [1_605_632, 4 * 2**20], "lenet5": [40_064, 4 * 2**20]}


def test_constraints_and_costs_see_sizes() -> None:
    asked = study({"range": "m_r..m_p", "steps": 3}, constraints=["sram > 1MiB"], costs={"area": "2 * sram"})
    questions = PointResolver(asked).questions()
    assert {one.network for one in questions} == {"densenet121"}
    assert all(one.costs["area"] == 2 * int(str(one.parameters["sram"])) for one in questions)


@pytest.mark.parametrize(
    ("sram", "said"),
    [
        ({"range": "m_p..1KiB", "steps": 3}, "parameters.sram of densenet121: the range from m_p to 1KiB is empty"),
        ({"range": "m_r..m_p", "doubling": True}, "an end of the range is a budget"),
        ({"range": "m_r..m_q"}, "'m_q' is neither a number nor a size"),
    ],
)
def test_what_no_network_has_is_said(sram: object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        sizes(study(sram))


def test_fields_of_machines_have_no_budgets() -> None:
    capacity = {"memories.global_buffer.capacity": {"values": ["m_r"]}}
    fields: dict[str, object] = {"networks": ["lenet5"], "accelerators": ["simba"], "parameters": capacity}
    with pytest.raises(UsageError, match="'m_r' is neither a number nor a size"):
        study_of(study_of_value(fields), "budgets")
