"""What becomes of models that nobody here wrote: read, planned, run, mapped, fused, split, scheduled.

    python benchmarks/corpus.py [--folder FOLDER] [--only NAME ...] [--again NAME ...] [--seconds 30] [--without-levels]
                                [--json FILE] [--page FILE]

Each model goes through the commands that a user would type, each a process of its own: `info`, once more with what its
one error asks for; `plan` at M_R, `check`, `run`; `map`, `fuse`, `plan --tiles auto` at 256 KiB, `schedule` on two
accelerators. What is refused stands in the row with its line. Models in wheels are fetched into FOLDER, once; what has
a row in FILE is not measured again, but for levels that it lacks.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from corpus_models import CorpusModel, corpus
from corpus_rows import CorpusRow, page, read_rows, summary, write_rows

SPLIT_AT: Final = "256KiB"
FUSED_ON: Final = "meta-prototype-df"
SCHEDULED_ON: Final = ("simba", "meta-prototype-df")
SECONDS_OF_A_LEVEL: Final = 5.0
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
    """Go through the commands one after the other, but for those of the levels."""
    row, path = CorpusRow(model.name, model.source, model.licence), str(model.path)
    said = command(("info", path))
    if "command" in said.found:
        row.asked = list(bindings_in(str(said.found["command"])))
        said = command(("info", path, *row.asked))
    row.read = said.word
    if said.code != 0:
        return row
    row.operators = _integer(said.found.get("operators"))
    row.required_bytes = _integer(said.found.get("required_bytes"))
    row.map_bytes = _bytes_of_maps(said.found.get("tensors"))
    _plan(row, (path, *row.asked), seconds, folder)
    return row


def _bytes_of_maps(tensors: object) -> int | None:
    """All tensors but the parameters."""
    if not isinstance(tensors, dict):
        return None
    return sum(int(told["bytes"]) for role, told in tensors.items() if role != "parameter")


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
    told = ran.found.get("run")
    difference = told.get("relative_difference") if isinstance(told, dict) else None
    row.relative_difference = difference if isinstance(difference, float | int) else None


LEVELS: Final[Mapping[str, tuple[str, ...]]] = {
    "split": ("plan", "--sram", SPLIT_AT, "--tiles", "auto"),
    "map": ("map", "--bits", "8", "--accelerator", SCHEDULED_ON[0]),
    "fuse": ("fuse", "--bits", "8", "--accelerator", FUSED_ON),
    **{f"schedule {each}": ("schedule", "--bits", "8", "--accelerator", each) for each in SCHEDULED_ON},
}


def _levels(row: CorpusRow, network: Sequence[str]) -> None:
    """Measure the levels that the row lacks; one that has not ended in time stays open."""
    found = dict(row.levels)
    for level, (verb, *options) in LEVELS.items():
        if level not in found:
            ended = command((verb, *network, *options, "--time-limit", str(SECONDS_OF_A_LEVEL)))
            found |= {} if ended.code is None else {level: ended.word}
    row.levels = {level: found[level] for level in LEVELS if level in found}


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) else None


def measure(asked: argparse.Namespace) -> dict[str, CorpusRow]:
    """Rows of all models by their names, those that are kept as they are; each is kept as soon as it is whole."""
    rows, shown = read_rows(asked.json), dict[str, CorpusRow]()
    for model in corpus(asked.folder):
        if asked.only is not None and not any(one in model.name for one in asked.only):
            continue
        is_known = model.name in rows and not any(one in model.name for one in asked.again)
        if not is_known:
            with TemporaryDirectory() as scratch:
                rows[model.name] = row_of(model, asked.seconds, Path(scratch))
        row = shown[model.name] = rows[model.name]
        if row.read == "ok" and not row.levels.keys() >= LEVELS.keys() and not asked.without_levels:
            _levels(row, (str(model.path), *row.asked))
            is_known = False
        if not is_known:
            write_rows(asked.json, rows)
            print(f"{row.name}: {row.refusals or row.status} {row.relative_difference}", flush=True)
    return shown


def main() -> None:
    """Print a line for each model that is measured, and how many of all pass each step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("corpus"))
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--again", nargs="+", metavar="NAME", default=())
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--without-levels", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--page", type=Path, metavar="FILE")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    rows = list(measure(asked).values())
    print("\n".join(summary(rows)))
    if asked.page is not None:
        asked.page.write_text(page(rows))


if __name__ == "__main__":
    main()
