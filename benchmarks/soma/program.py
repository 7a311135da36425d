"""Runs of SoMa's own program: its cycles, or the reason for its failure, and its seconds.

It is github.com/SET-Scheduling-Project/SoMa-HPCA2025 at 6e80836 (AGPL-3.0), built with `make release`. It runs with one
thread, because with several its workers always use a buffer of 8 MiB.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from shared.processor import cpu_seconds_of_programs

from onchip.search.budget.clock import Stopwatch

NUMBERS: Final = {
    "resnet": 2,
    "goog": 3,
    "unet": 17,
    "randwire_small": 18,
    "GPT_2_small_prefill": 108,
}
"""SoMa's number of a network, by what the names of its graph files begin with."""
NAME: Final = re.compile(r"(?P<network>\w+)_b(?P<batch>\d+)_s(?P<length>\d+)")
TERA_PER_SECOND: Final = 16
"""Operations of SoMa's edge machine at 1 GHz, in tera per second. Bandwidths are relative: this many bytes per cycle
are 1.
"""
EDGE_ARRAY: Final = ("4", "256", "512")
"""Cores along an edge, bytes of the buffer a cycle, multiply-accumulates of a core."""
ALL_SEGMENTS: Final = re.compile(r"Total Costs:\s+Time: (\d+)")
REASON_LINES: Final = 3


@dataclass(frozen=True)
class SomaRun:
    """The end of one run of SoMa: cycles, None with a reason if it failed, and seconds of CPU and wall clock."""

    cycles: int | None
    why_not: str
    cpu_seconds: float
    seconds: float


def run_soma(program: Path, network: str, mebibytes: int, bytes_per_cycle: int, seed: int, scratch: Path) -> SomaRun:
    """Run it on one of its networks, named as in the graph files.

    Raises ValueError for a network that it does not have, or a bandwidth that it cannot be told.
    """
    arguments = _arguments(network, mebibytes, bytes_per_cycle, seed)
    folder = Path(tempfile.mkdtemp(dir=scratch))
    for part in ("log", "enc", "json"):
        (folder / part).mkdir()
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    before, watch = cpu_seconds_of_programs(), Stopwatch()
    subprocess.run([program.resolve(), *arguments, folder], env=environment, capture_output=True, check=False)
    written = "".join(path.read_text() for path in (folder / "log").iterdir())
    found = ALL_SEGMENTS.search(written)
    return SomaRun(
        int(found[1]) if found else None,
        "" if found else "; ".join(written.splitlines()[-REASON_LINES:]) or "it wrote nothing",
        cpu_seconds_of_programs() - before,
        watch.seconds,
    )


def _arguments(network: str, mebibytes: int, bytes_per_cycle: int, seed: int) -> tuple[str, ...]:
    """Return SoMa's arguments after the folder: network, mode, sequence, segments, MiB, batch, bandwidth, array, seed.

    Raises ValueError for a network or bandwidth that SoMa does not support.
    """
    named = NAME.fullmatch(network)
    number = NUMBERS.get(named["network"]) if named else None
    if named is None or number is None:
        raise ValueError(f"SoMa has no network {network!r}")
    if bytes_per_cycle % TERA_PER_SECOND:
        raise ValueError(f"SoMa's bandwidth is a multiple of {TERA_PER_SECOND} bytes a cycle, not {bytes_per_cycle}")
    ratio = bytes_per_cycle // TERA_PER_SECOND
    sizes = (named["length"], "1", str(mebibytes), named["batch"], str(ratio))
    return (str(number), "2", *sizes, *EDGE_ARRAY, str(seed))
