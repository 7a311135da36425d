"""Outcomes of mutants: recorded when they are found, so that an interrupted run continues."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

from mutation.equivalent import explanation
from support.mutants import Mutant


@dataclass(frozen=True, slots=True)
class Outcome:
    """The test that killed a mutant, None if it survived, for the sources and tests with that digest."""

    module: str
    key: str
    killer: str | None
    digest: str


class Outcomes:
    """The last outcome of each mutant, in a file with one per line."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._last: dict[tuple[str, str], Outcome] = {}
        if file.exists():
            for line in file.read_text(encoding="utf-8").splitlines():
                outcome = Outcome(**json.loads(line))
                self._last[outcome.module, outcome.key] = outcome

    def of(self, mutant: Mutant) -> Outcome | None:
        return self._last.get((mutant.module, mutant.key))

    def add(self, outcome: Outcome) -> None:
        self._last[outcome.module, outcome.key] = outcome
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(outcome)) + "\n")


@dataclass(slots=True)
class Tally:
    """Number of mutants of a module, and outcomes of those that were tried."""

    mutants: int = 0
    killed: int = 0
    explained: int = 0
    survivors: int = 0

    def __str__(self) -> str:
        return f"{self.mutants} mutants, {self.killed} killed, {self.explained} explained, {self.survivors} survive"

    def count(self, mutant: Mutant, killer: str | None) -> None:
        self.mutants += 1
        if killer is not None:
            self.killed += 1
        elif explanation(mutant) is not None:
            self.explained += 1
        else:
            self.survivors += 1


def table(tallies: Mapping[str, Tally]) -> str:
    """Return a Markdown table with a line for each module and one for all."""
    rows = [(module, *astuple(tally)) for module, tally in tallies.items()]
    total = ("all", *(sum(column) for column in list(zip(*rows, strict=True))[1:]))
    head = "| module | mutants | killed | explained | survivors |\n|---|---|---|---|---|"
    return "\n".join([head, *("| " + " | ".join(map(str, row)) + " |" for row in (*rows, total))])
