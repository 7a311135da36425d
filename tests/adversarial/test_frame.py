"""The adversary finds a planted fault, shrinks it, keeps it and reads it again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from adversary.frame import Facts, Level, Program, Verdict
from adversary.levels import LEVELS
from adversary.plant import ROOT, Outcome, Planted, all_planted, outcome_of
from adversary.session import NEVER_ENDS
from adversary.worker import Found, Worker, read_found, smaller_values, weight

SLOW = {"audit", "latency", "map-limits", "mutants", "schedule"}


@dataclass(frozen=True, slots=True)
class WrongAboveTen:
    """Says that any list whose sum is above ten is wrong."""

    name: str = "toy"
    weight: float = 1.0

    def generate(self, chance: random.Random) -> Facts:
        return {"numbers": [chance.randint(0, 9) for _ in range(8)]}

    def judge(self, facts: Facts, program: Program) -> Verdict:
        total = sum(facts["numbers"])
        return Verdict(1, f"too much: {total}" if total > 10 else None)

    def smaller(self, facts: Facts) -> Iterator[Facts]:
        yield from ()


def test_a_fault_is_found_shrunk_and_kept(tmp_path: Path) -> None:
    level: Level = WrongAboveTen()
    worker = Worker([level], "1", tmp_path, tmp_path / "note", tmp_path / "tallies", tmp_path)

    tallies = worker.work(60, stop_at_first=True)

    (path,) = tmp_path.glob("toy-*.json")
    found = read_found(path)
    assert tallies["toy"].faults[0].startswith("too much: ")
    assert sum(found.facts["numbers"]) == 11
    assert len(found.facts["numbers"]) == 2


def test_what_shrinks_leaves_one_entry_out_or_makes_one_number_less() -> None:
    value = {"a": [3, 0], "b": "text"}

    smaller = list(smaller_values(value))

    assert {"b": "text"} in smaller
    assert {"a": [3], "b": "text"} in smaller
    assert {"a": [1, 0], "b": "text"} in smaller
    assert all(weight(one) < weight(value) for one in smaller)


@pytest.mark.parametrize(
    "level", [pytest.param(one, id=one.name, marks=[pytest.mark.slow] if one.name in SLOW else []) for one in LEVELS]
)
def test_a_level_makes_cases_that_the_program_takes(level: Level, tmp_path: Path) -> None:
    verdicts = [level.judge(level.generate(random.Random(f"{seed}")), Program(tmp_path)) for seed in range(6)]

    assert [verdict.fault for verdict in verdicts] == [None] * 6
    assert sum(verdict.refused for verdict in verdicts) < 4
    assert sum(verdict.proofs for verdict in verdicts) > 0


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
def test_the_same_seed_makes_the_same_case(level: Level) -> None:
    assert level.generate(random.Random("7")) == level.generate(random.Random("7"))


@pytest.mark.parametrize("fault", all_planted(), ids=lambda fault: fault.name)
def test_the_text_that_a_planted_fault_replaces_stands_once_in_its_file(fault: Planted) -> None:
    assert (ROOT / fault.file).read_text().count(fault.old) == 1
    assert fault.level in {level.name for level in LEVELS}


@pytest.mark.parametrize(
    ("faults", "outcome"),
    [
        ((), Outcome.MISSED),
        ((f"{NEVER_ENDS}: seed 1",), Outcome.NEVER_ENDS),
        (("false bound: 3 above 2",), Outcome.FOUND),
        ((f"{NEVER_ENDS}: seed 1", "false bound: 3 above 2"), Outcome.FOUND),
    ],
)
def test_a_case_that_never_ends_does_not_count_as_a_fault_found(
    tmp_path: Path, faults: tuple[str, ...], outcome: Outcome
) -> None:
    for number, fault in enumerate(faults):
        Found("toy", fault, {"number": number}).write(tmp_path)
    assert outcome_of(tmp_path)[0] is outcome
