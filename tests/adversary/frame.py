"""The interface of the adversary's levels, which generate cases and judge the program's answers."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from onchip.cli import run

Json: TypeAlias = Any
"""A value as JSON has it."""
Facts: TypeAlias = dict[str, Json]
"""The content of a case as JSON: graphs, accelerators, buffers and options."""


def write_new(path: Path, text: str) -> None:
    """Write a file in place of another: ext4 flushes a file that is truncated to the disk, which takes 5 ms."""
    path.unlink(missing_ok=True)
    path.write_text(text)


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a command: exit code, output and errors."""

    code: int
    out: str
    err: str

    @property
    def answer(self) -> Facts:
        """Return the printed JSON object; an empty one if none was printed."""
        try:
            value = json.loads(self.out)
        except json.JSONDecodeError:
            return {}
        return value if isinstance(value, dict) else {}


@dataclass(frozen=True, slots=True)
class Program:
    """The program, run in this process on files in `folder`."""

    folder: Path

    def write(self, name: str, content: object) -> Path:
        """Write a file: text unchanged, anything else as JSON, which YAML readers take too."""
        path = self.folder / name
        write_new(path, content if isinstance(content, str) else json.dumps(content))
        return path

    def ask(self, *arguments: object) -> Ended:
        """Run one command, such as `ask("plan", path, "--sram", 64, "--json")`."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = run([str(argument) for argument in arguments])
        return Ended(code, out.getvalue(), err.getvalue())


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of a case.

    `proofs` counts claims that were compared with an oracle (OPTIMAL, INFEASIBLE, a bound). `fault` describes the fault
    (None: no fault). It begins with a few words that stay the same while the case is reduced, then a colon. A case that
    the program rejects as bad input is `refused` and counts for nothing. `above` holds, for methods that claim no
    optimum, the share by which each answer exceeds the minimum: a figure, not a fault.
    """

    proofs: int = 0
    fault: str | None = None
    refused: bool = False
    above: tuple[float, ...] = ()

    @property
    def kind(self) -> str | None:
        """Return the fault without its figures."""
        return None if self.fault is None else self.fault.partition(":")[0]


class Level(Protocol):
    """A level of the adversary: it generates cases, judges answers and states its share of the time."""

    @property
    def name(self) -> str:
        """Return the name of the level."""

    @property
    def weight(self) -> float:
        """Return the level's share of the time, relative to the other levels."""

    def generate(self, chance: random.Random) -> Facts:
        """Return a new case, odd on purpose."""

    def judge(self, facts: Facts, program: Program) -> Verdict:
        """Ask the program and hold its answers against an oracle. The same facts give the same verdict."""

    def smaller(self, facts: Facts) -> Iterator[Facts]:
        """Yield smaller cases by rules of the level; the session tries the general reductions, too."""
