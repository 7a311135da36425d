"""Vela's allocations, verified, with what they take beside our plan of the same network.

    PYTHONPATH=benchmarks python -m vela.allocations VELA MODEL... [--accelerator ethos-u55-128] [--json RESULTS.json]

VELA is the program (`pip install ethos-u-vela`), MODEL a .tflite file or a folder of them. Each is compiled for
`--optimise Size` and for `Performance`; SRAM, off-chip bytes and cycles are Vela's own figures. `ours` is the least
arena of whole operators (`plan --objective peak --alignment 16`): Vela also runs operators in stripes, pads channels to
16, compresses weights and stages them in SRAM. Ends with 1 where an allocation is illegal.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from shared.results import write_results

from onchip.answer.problem import Objective
from onchip.api.answer_check import AnswerCheck
from onchip.api.check import CheckRequest, check_file
from onchip.api.plan import Request, plan_network
from onchip.api.target import Target
from onchip.backends.vela.check_vela import ALIGNMENT_BYTES
from onchip.errors import NetworkWarning, OnchipError
from onchip.ir.tensor import Role
from onchip.search.budget.limits import Limits

STRATEGIES = ("Size", "Performance")
TIME_LIMIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Row:
    """One model by one strategy; `ours_bytes` and `parameter_bytes` are equal in both rows of a model."""

    model: str
    strategy: str
    is_legal: bool
    tensors: int
    sram_bytes: int
    most_live_bytes: int
    off_chip_bytes: int
    cycles: int
    ours_bytes: int
    parameter_bytes: int


def rows(vela: Path, accelerator: str, model: Path) -> Iterator[Row]:
    """Compile, check and plan one model; raises OnchipError, CalledProcessError where Vela refuses it."""
    ours_bytes, parameter_bytes = planned(model)
    for strategy in STRATEGIES:
        with tempfile.TemporaryDirectory() as folder:
            check, summary = compiled(vela, accelerator, strategy, model, Path(folder))
        for violation in check.violations:
            print(f"{model.stem}: {violation}")
        sram = next(one for one in check.recomputed if str(one["names"]).startswith("Sram"))
        kinds = ("dram_total_bytes", "off_chip_flash_total_bytes")
        yield Row(
            model.stem,
            strategy,
            check.is_legal,
            sum(_number(one["tensors"]) for one in check.recomputed),
            _number(sram["arena_bytes"]),
            _number(sram["most_live_bytes"]),
            sum(int(float(summary[kind])) for kind in kinds),
            int(float(summary["cycles_total"])),
            ours_bytes,
            parameter_bytes,
        )


def compiled(
    vela: Path, accelerator: str, strategy: str, model: Path, folder: Path
) -> tuple[AnswerCheck, dict[str, str]]:
    """Return onchip's verdict on Vela's allocation, and Vela's own summary."""
    options = ("--accelerator-config", accelerator, "--optimise", strategy, "--verbose-allocation")
    command = (str(vela), str(model), *options, "--output-dir", str(folder))
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    report = folder / "vela.txt"
    report.write_text(ended.stdout)
    check = check_file(CheckRequest(report, str(model)))
    assert isinstance(check, AnswerCheck)
    (summary,) = folder.glob("*summary*.csv")
    with summary.open(newline="") as file:
        return check, next(csv.DictReader(file))


def planned(model: Path) -> tuple[int, int]:
    """Our least arena of whole operators, and the bytes of all parameters."""
    target = Target(sram=2**30, alignment_bytes=ALIGNMENT_BYTES)
    limits = Limits(time_limit_seconds=TIME_LIMIT_SECONDS)
    outcome = plan_network(Request(str(model), target=target, objective=Objective.PEAK, limits=limits))
    if outcome.figures is None:
        raise OnchipError("no plan was found in time", file=str(model))
    parameters = outcome.problem.graph.with_role(Role.PARAMETER)
    return outcome.figures.arena_bytes, sum(tensor.size_bytes for tensor in parameters)


def _number(figure: object) -> int:
    assert isinstance(figure, int)
    return figure


def models(asked: list[Path]) -> Iterator[Path]:
    """Yield the named files, and those in named folders by name."""
    for path in asked:
        yield from sorted(path.glob("*.tflite")) if path.is_dir() else (path,)


def main() -> None:
    """Print two rows for each model, and why there are none."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vela", type=Path)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--accelerator", default="ethos-u55-128")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", NetworkWarning)
    found: list[Row] = []
    print(f"{'model':34} strategy    legal tensors       SRAM       live   off chip     cycles       ours parameters")
    for model in models(asked.models):
        try:
            for row in rows(asked.vela, asked.accelerator, model):
                found.append(row)
                print(
                    f"{row.model[:34]:34} {row.strategy:11} {'yes' if row.is_legal else 'NO':5} {row.tensors:7} "
                    f"{row.sram_bytes:10,} {row.most_live_bytes:10,} {row.off_chip_bytes:10,} {row.cycles:10,} "
                    f"{row.ours_bytes:10,} {row.parameter_bytes:10,}",
                    flush=True,
                )
        except subprocess.CalledProcessError as error:
            lines = [line for line in f"{error.stdout}\n{error.stderr}".splitlines() if line.strip()]
            print(f"{model.stem[:34]:34} Vela refuses it: {lines[-1] if lines else error}"[:150], flush=True)
        except (OnchipError, StopIteration) as error:
            print(f"{model.stem[:34]:34} {error}"[:150], flush=True)
    if asked.json is not None:
        write_results(asked.json, [asdict(one) for one in found])
    sys.exit(0 if found and all(one.is_legal for one in found) else 1)


if __name__ == "__main__":
    main()
