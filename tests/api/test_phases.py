"""Phases of use cases: anything that may take seconds reports a phase to a listener."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from onchip.api.phases import phase, phases_told_to
from onchip.cli import run

BUFFERS = "id,lower,upper,size\na,0,4,1024\nb,2,6,512\n"


class Phases:
    """The names of reported phases, in the order in which they begin."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.lasting: list[str] = []

    @contextmanager
    def listen(self, name: str) -> Iterator[None]:
        self.told.append(name)
        self.lasting.append(name)
        try:
            yield
        finally:
            assert self.lasting.pop() == name


def test_nobody_has_to_listen() -> None:
    with phase("reading"):
        pass


def test_phases_are_told_while_someone_listens() -> None:
    phases = Phases()
    with phases_told_to(phases.listen), phase("planning"), phase("reading"):
        assert phases.lasting == ["planning", "reading"]
    with phase("verifying"):
        pass

    assert phases.told == ["planning", "reading"]
    assert phases.lasting == []


def test_a_phase_that_fails_is_over() -> None:
    @phase("reading")
    def read() -> None:
        raise ValueError("nonsense")

    phases = Phases()
    with phases_told_to(phases.listen), pytest.raises(ValueError, match="nonsense"):
        read()

    assert phases.lasting == []


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an answer of each kind."""
    folder = tmp_path_factory.mktemp("answers")
    (folder / "buffers.csv").write_text(BUFFERS)
    for words in (
        "plan resnet18 --bits 8 --sram m_r -o plan.json",
        "schedule lenet5 --accelerator simba --time-limit 1 -o schedule.json",
        "map lenet5 --accelerator simba --time-limit 1 -o mapping.yaml",
        "fuse lenet5 --accelerator simba --time-limit 1 -o strategy.json",
        "pack buffers.csv --minimize -o packed.csv",
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            assert run(words.split()) == 0, words
    return folder


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "plan resnet18 --bits 8 --sram m_r -o again.json --report x.html",
            "reading searching verifying writing drawing",
        ),
        ("schedule lenet5 --accelerator simba --time-limit 1 -o s.json", "reading searching verifying writing"),
        ("map lenet5 --accelerator simba --time-limit 1 -o m.yaml", "reading searching writing"),
        ("fuse lenet5 --accelerator simba --time-limit 1 -o f.json", "reading searching verifying writing"),
        ("pack buffers.csv --minimize -o p.csv", "reading searching verifying writing"),
        ("pack buffers.csv --capacity 1KiB --overflow", "reading searching verifying"),
        ("info lenet5", "reading searching"),
        ("check plan.json resnet18", "reading verifying"),
        ("check schedule.json lenet5", "reading verifying"),
        ("check mapping.yaml lenet5 --accelerator simba", "reading verifying"),
        ("check strategy.json lenet5", "reading verifying"),
        ("run plan.json resnet18", "reading verifying executing"),
        ("run schedule.json lenet5", "reading verifying executing"),
        ("time plan.json resnet18 --accelerator edge-tpu-like", "reading verifying timing"),
        ("time schedule.json lenet5", "reading verifying pricing"),
        ("explain plan.json resnet18", "reading verifying explaining"),
        ("explain schedule.json lenet5", "reading verifying pricing explaining"),
        ("report plan.json resnet18 -o r.html --compare", "reading verifying drawing"),
        ("report schedule.json lenet5 -o r.html", "reading verifying pricing drawing"),
        ("export plan.json resnet18 --to c -o c.h", "reading verifying writing"),
        ("export schedule.json lenet5 --to c -o c.h", "reading verifying pricing exporting"),
        ("audit plan.json resnet18", "reading verifying auditing"),
        ("audit packed.csv buffers.csv --minimize", "verifying auditing"),
    ],
)
def test_every_verb_tells_its_phases(answers: Path, words: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    phases = Phases()
    monkeypatch.chdir(answers)
    monkeypatch.setattr("onchip.commands.progress.ProgressLine.during", lambda _line, name: phases.listen(name))

    run(words.split())

    assert set(expected.split()) <= set(phases.told)
    assert phases.lasting == []
