"""What becomes of models that nobody here wrote: read, planned, run, mapped, fused, split, scheduled.

    python benchmarks/corpus.py [--folder FOLDER] [--only NAME ...] [--seconds 30] [--json FILE]

Each model goes through the commands that a user would type, each a process of its own: `info`, once more with what its
one error asks for; `plan` at M_R, `check`, `run`; `map`, `fuse`, `plan --split auto` at 256 KiB, `schedule` on two
accelerators. What is refused stands in the row with its line. Models in wheels are fetched into FOLDER, once.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from corpus_models import CorpusModel, corpus

SPLIT_AT: Final = "256KiB"
FUSED_ON: Final = "meta-prototype-df"
SCHEDULED_ON: Final = ("simba", "meta-prototype-df")
SECONDS_OF_A_LEVEL: Final = 10.0
GRACE_SECONDS: Final = 120.0
INFEASIBLE: Final = 3


@dataclass(frozen=True, slots=True)
class Ended:
    """How one command ended: its exit code (None: killed), its JSON object, seconds."""

    code: int | None
    found: Mapping[str, object]
    seconds: float

    @property
    def word(self) -> str:
        """Return `ok`, or the line with which it was refused."""
        if self.code == 0:
            return "ok"
        if self.code is None:
            return "killed"
        if self.found.get("status") == "INFEASIBLE":
            return f"infeasible: {self.found.get('operator')}"
        return str(self.found.get("error") or f"exit {self.code}")


@dataclass(slots=True)
class CorpusRow:
    """One model; a column is `ok`, empty where it was not come to, or why not."""

    name: str
    source: str
    questions: int = 0
    read: str = ""
    operators: int | None = None
    map_bytes: int | None = None
    required_bytes: int | None = None
    plan: str = ""
    status: str = ""
    gap: float | None = None
    seconds: float | None = None
    check: str = ""
    run: str = ""
    relative_difference: float | None = None
    levels: dict[str, str] = field(default_factory=dict)


def command(arguments: Sequence[str], seconds: float = GRACE_SECONDS) -> Ended:
    """Run one command of onchip."""
    began = time.perf_counter()
    try:
        asked = [sys.executable, "-m", "onchip", *arguments, "--json"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        return Ended(None, {}, seconds)
    try:
        found = json.loads(done.stdout)
    except json.JSONDecodeError:
        found = {"error": done.stderr.strip()[-300:]}
    return Ended(done.returncode, found, time.perf_counter() - began)


def row_of(model: CorpusModel, seconds: float, folder: Path) -> CorpusRow:
    """Go through the commands one after the other."""
    row, path = CorpusRow(model.name, model.source), str(model.path)
    asked: tuple[str, ...] = ()
    said = command(("info", path))
    if "command" in said.found:
        row.questions, asked = 1, bindings_in(str(said.found["command"]))
        said = command(("info", path, *asked))
    row.read = said.word
    if said.code != 0:
        return row
    row.operators = _integer(said.found.get("operators"))
    row.required_bytes = _integer(said.found.get("required_bytes"))
    _plan(row, (path, *asked), seconds, folder)
    _levels(row, (path, *asked))
    return row


def bindings_in(suggested: str) -> tuple[str, ...]:
    """What a suggested command says of open dimensions and values."""
    words = shlex.split(suggested)
    named = [at for at, word in enumerate(words) if word in ("--dim", "--shape", "--value")]
    return tuple(word for at in named for word in words[at : at + 2])


def _plan(row: CorpusRow, network: Sequence[str], seconds: float, folder: Path) -> None:
    file = str(folder / "plan.json")
    planned = command(("plan", *network, "--sram", "m_r", "--time-limit", str(seconds), "-o", file))
    row.plan, row.status, row.seconds = planned.word, str(planned.found.get("status")), planned.seconds
    gap = planned.found.get("gap")
    row.gap = gap if isinstance(gap, float | int) else None
    if planned.code != 0:
        return
    row.check = command(("check", file, network[0])).word
    ran = command(("run", file, network[0]))
    row.run = ran.word
    difference = ran.found.get("relative_difference")
    row.relative_difference = difference if isinstance(difference, float | int) else None


def _levels(row: CorpusRow, network: Sequence[str]) -> None:
    limited = (*network, "--time-limit", str(SECONDS_OF_A_LEVEL))
    row.levels["split"] = command(("plan", *limited, "--sram", SPLIT_AT, "--split", "auto")).word
    row.levels["map"] = command(("map", *limited, "--accelerator", SCHEDULED_ON[0])).word
    row.levels["fuse"] = command(("fuse", *limited, "--accelerator", FUSED_ON)).word
    for accelerator in SCHEDULED_ON:
        row.levels[f"schedule {accelerator}"] = command(("schedule", *limited, "--accelerator", accelerator)).word


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) else None


def rows(folder: Path, only: Sequence[str] | None, seconds: float) -> Iterator[CorpusRow]:
    """A row for each model whose name has one of `only` in it."""
    for model in corpus(folder):
        if only is None or any(one in model.name for one in only):
            with TemporaryDirectory() as scratch:
                yield row_of(model, seconds, Path(scratch))


def line_of(row: CorpusRow) -> str:
    """The row as a line of the table in the documentation."""
    plan = row.status if row.plan == "ok" else row.plan
    cells = (row.name, row.questions, row.read, row.operators, row.required_bytes, plan)
    more = (_shown(row.gap, ".1%"), _shown(row.seconds, ".1f"), row.run, _shown(row.relative_difference, ".1e"))
    return "| " + " | ".join("" if one is None else str(one) for one in (*cells, *more, *row.levels.values())) + " |"


def _shown(value: float | None, how: str) -> str:
    return "" if value is None else format(value, how)


def main() -> None:
    """Print a line for each model, and how many of them pass each step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("corpus"))
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--json", type=Path, metavar="FILE")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    found = []
    for row in rows(asked.folder, asked.only, asked.seconds):
        found.append(row)
        print(line_of(row), flush=True)
    steps = ("read", "plan", "check", "run")
    for step in steps:
        print(f"{step}: {sum(getattr(row, step) == 'ok' for row in found)} of {len(found)}")
    for level in dict.fromkeys(level for row in found for level in row.levels):
        print(f"{level}: {sum(row.levels.get(level) == 'ok' for row in found)} of {len(found)}")
    if asked.json is not None:
        asked.json.write_text(json.dumps([asdict(row) for row in found], indent=2))


if __name__ == "__main__":
    main()
