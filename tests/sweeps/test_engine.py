"""The sweep engine with workers that know every answer: the points that it asks for, keeps and counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from onchip.sweeps.point import NeighbourAnswers, PointAnswer, PointStatus, SweepPoint
from onchip.sweeps.store import Store
from onchip.sweeps.sweep import Bisection, Sweep, SweepProgress
from support.swept_points import point_of


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
