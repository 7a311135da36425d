"""Networks as C projects: exported, compiled without a warning, run under checks of memory, and compared.

    PYTHONPATH=benchmarks python -m c_project.networks MODEL... [--results FILE.json]

MODEL is an .onnx or a .tflite file, or a folder of them. Each is planned (`--objective peak --alignment 16`), exported
(models with `light_` before their name with random weights, as their own are constants), compiled with -std=c11 -Wall
-Wextra -Werror twice, with -O2 and with -fsanitize=address,undefined, and run; its main compares all outputs with those
of the model's own runtime. Ends with 1 where one differs, or an arena is not what the plan says.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from shared.runner import Row, asked_of, options_of, report

from onchip.answer.document import Reading
from onchip.answer.problem import Objective
from onchip.api.plan import Request, plan_network
from onchip.api.run import RunValues
from onchip.api.target import Target
from onchip.backends.c.exports import export_project
from onchip.errors import NetworkWarning, OnchipError
from onchip.formats.own.plan_json import plan_to_json
from onchip.search.budget.limits import Limits

TIME_LIMIT_SECONDS = 10.0
SANITIZED = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"


def row(model: Path, folder: Path) -> Row:
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
    _, written = export_project(
        plan, str(model), project, RunValues(random_weights=7 if "light_" in model.name else None)
    )
    exported = time.perf_counter()
    assert written is not None
    _make(project, "-O2")
    compiled = time.perf_counter()
    ran = subprocess.run([project / "network"], capture_output=True, text=True, check=False)
    ended = time.perf_counter()
    arena = _object_arena_bytes(project)
    _make(project, SANITIZED)
    checked = subprocess.run([project / "network"], capture_output=True, text=True, check=False)
    compared, relative, differing = _compared(ran.stdout)
    planned, is_right = sum(written.arenas.values()), ran.returncode == 0
    is_right_sanitized = checked.returncode == 0 and not checked.stderr
    return {
        "model": model.stem,
        "operators": len(outcome.problem.graph.operators),
        "arena_bytes": planned,
        "object_arena_bytes": arena,
        "dram_bytes": written.dram_bytes,
        "constant_bytes": written.constant_bytes,
        "status": str(outcome.document.claim.status) if outcome.document.claim else "",
        "compared": compared,
        "greatest_relative": relative,
        "differing_bytes": differing,
        "export_seconds": exported - started,
        "compile_seconds": compiled - exported,
        "run_seconds": ended - compiled,
        "is_as_planned": is_right and is_right_sanitized and planned == arena,
    }


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


def rows(models: Sequence[Path]) -> Iterator[Row]:
    """Yield a row for each model, and print why there is none."""
    warnings.simplefilter("ignore", NetworkWarning)
    with tempfile.TemporaryDirectory() as folder:
        for path in models:
            inside = [one for one in sorted(path.glob("*")) if one.suffix in (".onnx", ".tflite")] or [path]
            for model in inside:
                try:
                    yield row(model, Path(folder))
                except (OnchipError, subprocess.CalledProcessError) as error:
                    print(f"{model.stem}: {error}"[:200], flush=True)


def main() -> int:
    """Print the rows; return 1 if outputs or an arena differ."""
    parser = options_of(__doc__)
    parser.add_argument("models", type=Path, nargs="+")
    asked = asked_of(parser)
    found = report(asked, {"networks": partial(rows, asked.models)})["networks"]
    return int(not found or not all(one["is_as_planned"] for one in found))


if __name__ == "__main__":
    raise SystemExit(main())
