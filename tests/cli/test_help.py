"""Tests of help, completion and the options of a verb."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, get_type_hints

import pytest
import typer
import typer.main

from onchip.cli import app
from onchip.commands.arguments import COMPLETION_VARIABLE, LimitOptions, PackingOptions
from onchip.commands.solve import FuseOptions, MapArguments, PlanArguments
from onchip.commands.verb import add_verb
from onchip.errors import UsageError
from support.diamond import Program

# The help of every verb ends with an example; all examples work, in sequence in one folder


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


# Shell completion of verbs, bundled networks and bundled accelerators


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("onchip sche", ["schedule"]),
        ("onchip plan len", ["lenet5"]),
        ("onchip info mobilenetv1-", ["mobilenetv1-defines"]),
        ("onchip schedule lenet5 --accelerator simba-c", ["simba-cosa"]),
        ("onchip map lenet5 --accelerator simba-c", ["simba-cosa"]),
        ("onchip plan lenet5 --accelerator simba-c", ["simba-cosa"]),
        ("onchip plan there-is-none", []),
    ],
)
def test_a_shell_is_told_what_may_follow(words: str, completed: list[str]) -> None:
    asked = {COMPLETION_VARIABLE: "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    ended = subprocess.run(
        [sys.executable, "-m", "onchip"], env={**os.environ, **asked}, capture_output=True, text=True, check=False
    )
    assert ended.stdout.split() == completed


@dataclass(frozen=True, slots=True, kw_only=True)
class Topping:
    """A group of two options that refuses one value."""

    cheese: Annotated[str, typer.Option(metavar="NAME", help="Which cheese.")] = "brie"
    grams: Annotated[int, typer.Option(min=1, help="How much.")] = 5

    def __post_init__(self) -> None:
        if self.cheese == "none":
            raise UsageError("there is no cheese", place="--cheese", expected="a cheese")


@dataclass(frozen=True, slots=True, kw_only=True)
class FinerTopping(Topping):
    """The same group with one option redefined."""

    cheese: Annotated[str, typer.Option(metavar="NAME", help="Which finer cheese.")] = "comte"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bread:
    """A required option after an argument, a group between others, and the context."""

    context: typer.Context
    flour: Annotated[str, typer.Argument(metavar="FLOUR", help="What it is made of.")]
    topping: FinerTopping
    heat: Annotated[int, typer.Option(help="How hot.")]
    seeds: Annotated[list[str] | None, typer.Option("--seed", help="Repeatable.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatedTwice:
    """Two fields of one name: one in a verb's options, one in a group."""

    grams: Annotated[int, typer.Option(help="How much bread.")] = 1
    topping: Topping


class Baker:
    """A verb that records its options."""

    asked: Bread

    def __call__(self, options: Bread) -> int:
        self.asked = options
        return 7


@pytest.fixture
def baker() -> Baker:
    return Baker()


@pytest.fixture
def bakery(baker: Baker) -> typer.Typer:
    def bake_command(options: Bread) -> int:
        """Bake a bread."""
        return baker(options)

    def toast_command(options: Bread) -> int:
        return baker(options)

    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    add_verb(app, bake_command, "oven bake bread")
    add_verb(app, toast_command, "oven toast bread")
    return app


def bake(app: typer.Typer, *arguments: str) -> int:
    command = typer.main.get_command(app)
    with command.make_context("bakery", list(arguments), obj=arguments) as context:
        code = command.invoke(context)
    assert isinstance(code, int)
    return code


def test_a_verb_gets_one_dataclass_of_what_was_typed(baker: Baker, bakery: typer.Typer) -> None:
    assert bake(bakery, "bake", "rye", "--heat", "9", "--grams", "3", "--seed", "flax", "--seed", "sesame") == 7

    assert baker.asked.topping == FinerTopping(cheese="comte", grams=3)
    assert (baker.asked.flour, baker.asked.heat, baker.asked.seeds) == ("rye", 9, ["flax", "sesame"])


def test_a_field_without_a_value_has_its_default(baker: Baker, bakery: typer.Typer) -> None:
    bake(bakery, "toast", "rye", "--heat", "9")

    assert (baker.asked.topping, baker.asked.seeds) == (FinerTopping(), None)


def test_a_verb_that_asks_for_the_context_gets_it(baker: Baker, bakery: typer.Typer) -> None:
    bake(bakery, "bake", "rye", "--heat", "9")

    assert baker.asked.context.find_root().obj == ("bake", "rye", "--heat", "9")


@pytest.mark.parametrize(
    "arguments", [("rye",), ("--heat", "9"), ("rye", "--heat", "9", "--grams", "0"), ("rye", "--topping", "x")]
)
def test_what_a_field_forbids_is_refused_before_the_verb(bakery: typer.Typer, arguments: tuple[str, ...]) -> None:
    with pytest.raises(typer.TyperException):
        bake(bakery, "bake", *arguments)


def test_a_group_refuses_what_contradicts_itself(bakery: typer.Typer) -> None:
    with pytest.raises(UsageError, match="there is no cheese"):
        bake(bakery, "bake", "rye", "--heat", "9", "--cheese", "none")


def test_help_has_the_docstring_and_the_fields_of_groups_in_their_place(
    bakery: typer.Typer, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit):
        bake(bakery, "bake", "--help")

    told = capsys.readouterr().out
    places = [
        told.index(word) for word in ("Bake a bread", "What it is made of", "--cheese", "--grams", "--heat", "--seed")
    ]
    assert places == sorted(places)
    assert "finer cheese" in told
    assert "--topping" not in told


def test_two_fields_of_one_name_are_refused() -> None:
    def toast_command(options: HeatedTwice) -> int:
        return options.grams

    with pytest.raises(ValueError, match="grams"):
        add_verb(typer.Typer(), toast_command, "oven toast")


@pytest.mark.parametrize("options", [PlanArguments, MapArguments, FuseOptions])
def test_groups_of_a_verb_can_be_made_without_a_command_line(options: type) -> None:
    """Options in groups have a default that suits most users."""
    kinds = get_type_hints(options)
    groups = [kinds[field.name] for field in fields(options) if is_dataclass(kinds[field.name])]
    assert groups
    for group in groups:
        assert group() == group()


def test_a_time_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="--time-limit"):
        LimitOptions(time_limit=0.0).limits()


def test_a_packing_has_one_thing_that_is_least() -> None:
    assert PackingOptions(overflow=True, capacity="1KiB").capacity_bytes == 1024
    with pytest.raises(UsageError, match="--minimize"):
        PackingOptions(overflow=True, minimize=True)
