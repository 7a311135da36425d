"""Nothing is lost: verbs are killed while they write, or write where the disk is full, over an answer that is there.

    python benchmarks/kills.py [--json] [--tries N]

Each verb writes over the answer of an earlier run, and is sent SIGKILL or SIGTERM at a random moment of its life, or
its file may not grow beyond a random size (a limit of the process), or the file system of its file has too little
room (a tmpfs, where one may be mounted). An answer is lost where the file afterwards is neither the earlier answer
nor the whole of a later one: a search that SIGTERM ends may write another than the last. What else lies in the folder
afterwards is litter.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

TRIES = 200
VERBS = {
    "answer.json": "plan resnet18 --sram m_r -o",
    "answer.json.gz": "plan resnet50 --sram m_r --method belady --order given -o",
    "answer.yaml": "map gemm:m8n16k16 --accelerator simba -o",
    "answer.csv": "pack buffers.csv --minimize -o",
    "answer.html": "plan lenet5 --sram m_r --report",
    "answer.trace": "export plan.json lenet5 --to trace -o",
}
BUFFERS = 2000


@dataclass(frozen=True, slots=True)
class Row:
    """What was done to the verbs, and how often the answer was lost; `cut_off` is how often no answer was written."""

    what: str
    tries: int = 0
    cut_off: int = 0
    lost: int = 0
    litter: int = 0


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb in its folder; `answer` is the file it writes, the same bytes each time, after `seconds`."""

    command: tuple[str, ...]
    answer: Path
    content: bytes
    seconds: float

    @classmethod
    def tried(cls, folder: Path, name: str, words: str) -> Verb:
        """Run it to its end, twice: the second time everything is warm."""
        answer = folder / name
        command = (sys.executable, "-m", "onchip", *words.split(), str(answer))
        for _ in range(2):
            started = time.perf_counter()
            subprocess.run(command, cwd=folder.parent, check=True, stdout=subprocess.DEVNULL)
            seconds = time.perf_counter() - started
        content = answer.read_bytes()
        answer.unlink()
        return cls(command, answer, content, seconds)

    def start(self, limit: Callable[[], None] | None = None) -> subprocess.Popen[bytes]:
        """Over an earlier answer, which differs from the later one."""
        self.answer.write_bytes(self.earlier)
        return subprocess.Popen(
            self.command,
            cwd=self.answer.parent.parent,
            preexec_fn=limit,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @property
    def earlier(self) -> bytes:
        """Bytes of an answer that was there."""
        return b"earlier " + self.content[: 2**12]

    def counted(self, row: Row) -> Row:
        """The row with one more try; the folder is left empty."""
        is_there = self.answer.exists()
        content = self.answer.read_bytes() if is_there else b""
        others = [path for path in self.answer.parent.iterdir() if path != self.answer]
        for path in (*others, *[self.answer] * is_there):
            path.unlink()
        is_whole = content == self.earlier or self.is_later(content)
        return replace(
            row,
            tries=row.tries + 1,
            cut_off=row.cut_off + (content == self.earlier),
            lost=row.lost + (not is_whole),
            litter=row.litter + len(others),
        )

    def is_later(self, content: bytes) -> bool:
        """Whether all of an answer is there, the same or another one.

        A page tells how many seconds were spent: its length says whether it is whole, to a few digits. A search of the
        least arena that SIGTERM ends writes the best it has: as many buffers, each with an offset.
        """
        if self.answer.suffix == ".csv":
            lines, expected = content.splitlines(), self.content.splitlines()
            return len(lines) == len(expected) and all(line[-1:].isdigit() for line in lines[1:])
        if self.answer.suffix == ".html":
            return content.rstrip().endswith(b"</html>") and abs(len(content) - len(self.content)) < 100
        return content == self.content


def kill(verb: Verb, choices: random.Random, row: Row) -> Row:
    """Half of the moments lie in the last tenth of its life, when it writes."""
    moment = choices.uniform(0.9, 1.05) if choices.random() < 0.5 else choices.uniform(0, 1)
    process = verb.start()
    time.sleep(verb.seconds * moment)
    process.send_signal(choices.choice((signal.SIGKILL, signal.SIGTERM)))
    process.wait()
    return verb.counted(row)


def fill(verb: Verb, choices: random.Random, row: Row) -> Row:
    """A file of that size is as large as a file may be."""
    size = choices.randrange(len(verb.content))
    verb.start(partial(resource.setrlimit, resource.RLIMIT_FSIZE, (size, size))).wait()
    return verb.counted(row)


def fill_small_disk(verb: Verb, choices: random.Random, row: Row) -> Row:
    """The rest of the disk is filled up, to a random part of what is written; the earlier answer has its room."""
    filler = verb.answer.parent / "filler"
    verb.answer.write_bytes(verb.earlier)
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pages = choices.randrange(-(-len(verb.content) // 4096))
            file.truncate(max(0, filler.stat().st_size - 4096 * pages))
    verb.start().wait()
    filler.unlink()
    return verb.counted(row)


def measured(what: str, verbs: Sequence[Verb], tries: int, treat: Callable[[Verb, random.Random, Row], Row]) -> Row:
    """Treat the verbs in turn."""
    choices, row = random.Random(0), Row(what)
    for at in range(tries):
        row = treat(verbs[at % len(verbs)], choices, row)
    return row


def rows_in(folder: Path, tries: int) -> list[Row]:
    """Measure kills and limits below the folder, and on a small disk if one can be mounted there."""
    choices = random.Random(0)
    lives = ((start, start + choices.randrange(1, 40)) for start in (choices.randrange(2000) for _ in range(BUFFERS)))
    lines = [f"b{at},{start},{stop},{choices.randrange(1, 999)}" for at, (start, stop) in enumerate(lives)]
    (folder / "buffers.csv").write_text("\n".join(["id,lower,upper,size", *lines]) + "\n")
    plan = (sys.executable, "-m", "onchip", "plan", "lenet5", "--sram", "m_r", "-o", "plan.json")
    subprocess.run(plan, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    answers, disk = folder / "answers", folder / "disk"
    for place in (answers, disk):
        place.mkdir()
    verbs = [Verb.tried(answers, name, words) for name, words in VERBS.items()]
    rows = [
        measured("SIGKILL or SIGTERM at a random moment", verbs, tries, kill),
        measured("a limit on the size of a file", verbs, tries, fill),
    ]
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "onchip-kills", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        print("no file system can be mounted here: full disks are left out", file=sys.stderr)
        return rows
    try:
        moved = [replace(one, command=(*one.command[:-1], str(disk / one.answer.name))) for one in verbs]
        there = [replace(one, answer=disk / one.answer.name) for one in moved]
        return [*rows, measured("a full disk", there, tries, fill_small_disk)]
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def main() -> None:
    """Print the table, or the rows as JSON; exit 1 where an answer was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--tries", type=int, default=TRIES)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        rows = rows_in(Path(name), given.tries)
    if given.json:
        print(json.dumps([asdict(row) for row in rows], indent=1))
    else:
        print(f"{'what':40} {'tries':>6} {'cut off':>8} {'lost':>5} {'litter':>7}")
        for row in rows:
            print(f"{row.what:40} {row.tries:6} {row.cut_off:8} {row.lost:5} {row.litter:7}")
    sys.exit(any(row.lost for row in rows))


if __name__ == "__main__":
    main()
