"""Networks as C projects: exported, compiled without a warning, run under checks of memory, and compared.

    PYTHONPATH=benchmarks python -m c_project.networks MODEL... [--json RESULTS.json]

MODEL is an .onnx or a .tflite file, or a folder of them. Each is planned (`--objective peak --alignment 16`), exported
(models with `light_` before their name with random weights, as their own are constants), compiled with -std=c11 -Wall
-Wextra -Werror twice, with -O2 and with -fsanitize=address,undefined, and run; its main compares all outputs with those
of the model's own runtime. Ends with 1 where one differs, or an arena is not what the plan says.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from shared.results import write_results

from onchip.answer.document import Reading
from onchip.answer.problem import Objective
from onchip.api.kernels import RunValues
from onchip.api.plan import Request, plan_network
from onchip.api.target import Target
from onchip.backends.c.exports import export_project
from onchip.errors import NetworkWarning, OnchipError
from onchip.formats.own.plan_json import plan_to_json
from onchip.search.budget.limits import Limits

TIME_LIMIT_SECONDS = 10.0
SANITIZED = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"


@dataclass(frozen=True, slots=True)
class NetworkRow:
    """One model: bytes as planned and in the object file, differences of outputs, and seconds."""

    model: str
    operators: int
    arena_bytes: int
    object_arena_bytes: int
    dram_bytes: int
    constant_bytes: int
    status: str
    compared: str
    greatest_relative: float
    differing_bytes: int
    is_right: bool
    export_seconds: float
    compile_seconds: float
    run_seconds: float
    sanitized_is_right: bool

    @property
    def is_as_planned(self) -> bool:
        """Return True if outputs are equal, also under sanitizers, and the arena is the plan's."""
        return self.is_right and self.sanitized_is_right and self.arena_bytes == self.object_arena_bytes


def row(model: Path, folder: Path) -> NetworkRow:
    """Plan, export, compile and run one model. Raises OnchipError, and CalledProcessError if compilation fails."""
    request = Request(
        str(model),
        Reading(),
        Target(sram=2**30, alignment_bytes=16),
        Objective.PEAK,
        limits=Limits(time_limit_seconds=TIME_LIMIT_SECONDS),
    )
    outcome = plan_network(request)
    if outcome.document is None:
        raise OnchipError("no plan was found in time", file=str(model))
    plan, project = folder / f"{model.stem}.json", folder / model.stem
    plan.write_text(plan_to_json(outcome.document))
    started = time.perf_counter()
    export = export_project(plan, str(model), project, RunValues(random_weights=7 if "light_" in model.name else None))
    exported = time.perf_counter()
    assert export.project is not None
    _make(project, "-O2")
    compiled = time.perf_counter()
    ran = subprocess.run([project / "network"], capture_output=True, text=True, check=False)
    ended = time.perf_counter()
    arena = _object_arena_bytes(project)
    _make(project, SANITIZED)
    checked = subprocess.run([project / "network"], capture_output=True, text=True, check=False)
    compared, relative, differing = _compared(ran.stdout)
    return NetworkRow(
        model.stem,
        len(outcome.problem.graph.operators),
        sum(export.project.arenas.values()),
        arena,
        export.project.dram_bytes,
        export.project.constant_bytes,
        str(outcome.document.claim.status) if outcome.document.claim else "",
        compared,
        relative,
        differing,
        ran.returncode == 0,
        exported - started,
        compiled - exported,
        ended - compiled,
        checked.returncode == 0 and not checked.stderr,
    )


def _make(project: Path, flags: str) -> None:
    """Build with these flags; constants keep their first build, because no sanitizer checks them."""
    for built in (*project.glob("*.o"), *project.glob("kernels/*.o"), *project.glob("network")):
        built.unlink()
    subprocess.run(["make", "-s", "-C", project, "network", f"CFLAGS={flags}"], check=True, capture_output=True)


def _object_arena_bytes(project: Path) -> int:
    """Return the bytes of the static arrays of the network's object file, except DRAM, as `nm` prints them."""
    said = subprocess.run(["nm", "-S", project / "network.o"], capture_output=True, text=True, check=True).stdout
    return sum(int(size, 16) for size, _ in re.findall(r"^\w+ (\w+) b (\w+)$", said, re.MULTILINE))


def _compared(said: str) -> tuple[str, float, int]:
    """Return the number of compared values, the largest relative difference of floats, and the unequal bytes."""
    floats = re.findall(r": (\d+) floats, greatest (\S+), at most (\S+) apart", said)
    parts = re.findall(r": (\d+) bytes, (\d+) differ", said)
    relative = max((float(apart) / max(float(most), 1e-30) for _, most, apart in floats), default=0.0)
    count = sum(int(number) for number, *_ in floats), sum(int(number) for number, _ in parts)
    words = [f"{number:,} {word}" for number, word in zip(count, ("floats", "bytes"), strict=True) if number]
    return " and ".join(words), relative, sum(int(differing) for _, differing in parts)


def models(asked: list[Path]) -> Iterator[Path]:
    """Yield the named files, and those in named folders by name."""
    for path in asked:
        inside = (one for one in sorted(path.iterdir()) if one.suffix in (".onnx", ".tflite")) if path.is_dir() else ()
        yield from inside if path.is_dir() else (path,)


def main() -> None:
    """Print a row for each model, and why there is none."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", NetworkWarning)
    rows: list[NetworkRow] = []
    print(
        "| model | operators | arena | of constants | compared | apart | run, s | as planned |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        for model in models(asked.models):
            try:
                one = row(model, Path(folder))
            except (OnchipError, subprocess.CalledProcessError) as error:
                print(f"{model.stem}: {error}"[:200], flush=True)
                continue
            rows.append(one)
            apart = f"{one.greatest_relative:.1e}" if "floats" in one.compared else f"{one.differing_bytes} bytes"
            print(
                f"| {one.model} | {one.operators} | {one.arena_bytes:,} | {one.constant_bytes:,} | {one.compared} "
                f"| {apart} | {one.run_seconds:.2f} | {'yes' if one.is_as_planned else 'NO'} |",
                flush=True,
            )
    if asked.json is not None:
        write_results(asked.json, [asdict(one) for one in rows])
    sys.exit(0 if rows and all(one.is_as_planned for one in rows) else 1)


if __name__ == "__main__":
    main()
