"""The help of every verb ends with an example; all examples work, in sequence in one folder."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import typer
import typer.main

from onchip.cli import app
from support.diamond import Program

BUFFERS = "id,lower,upper,size\na,0,4,1024\nb,2,6,512\nc,5,9,768\n"
VERBS = sorted(command.name or "" for command in app.registered_commands)
FIRST = ("plan", "schedule")
"""Examples write files that other examples read."""
SECONDS = ("--time-limit", "1")
"""The time limit that replaces the one of an example; any answer is good enough."""


def example_of(onchip: Program, verb: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the words of the last line of a verb's help."""
    monkeypatch.setenv("COLUMNS", "60")  # no line of an example is wrapped
    *_, title, line = onchip(verb, "--help").out.rstrip().splitlines()

    assert title.strip() == "Example:"
    return shlex.split(line)


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_ends_with_an_example_that_it_understands(
    onchip: Program, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, named, *arguments = example_of(onchip, verb, monkeypatch)

    assert (program, named) == ("onchip", verb)
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    with group.make_context("onchip", [verb, *arguments]) as context:
        command = group.get_command(context, verb)
        assert command is not None
        command.make_context(verb, arguments).close()


@pytest.mark.slow
def test_all_examples_work(onchip: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    examples = {verb: example_of(onchip, verb, monkeypatch) for verb in VERBS}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ONCHIP_CACHE", str(tmp_path / "kept"))
    Path("buffers.csv").write_text(BUFFERS)

    for verb in (*FIRST, *(verb for verb in VERBS if verb not in FIRST)):
        words = examples[verb][1:]
        if SECONDS[0] in words:
            words[words.index(SECONDS[0]) + 1] = SECONDS[1]
        ended = onchip(*words)
        assert (ended.code, ended.err) == (0, ""), examples[verb]
        assert ended.out
