"""Arenas of TFLite Micro, by its own planner and with our plan in the model, as the runtime itself takes them.

    PYTHONPATH=benchmarks:tests python -m tflm.arenas MODEL... [--json RESULTS.json]

MODEL is a .tflite file, or a folder of them. Needs `pip install --pre tflite_micro`. Each is planned (`--objective
peak --granularity raw --alignment 16`), exported, run by the runtime twice with the same random inputs as without a
plan, and the heads are what it prints. `linear` is the sum of all, as the runtime's linear planner has it. Ends with 1
where a head is greater than without a plan or than promised, or outputs differ in one bit.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from shared.results import write_results

from onchip.answer.document import Granularity, Reading
from onchip.answer.problem import Objective
from onchip.api.plan import Request, plan_network
from onchip.api.target import Target
from onchip.backends.tflm.export_arena import export_arena
from onchip.errors import NetworkWarning, OnchipError
from onchip.formats.networks import read_tflite_network
from onchip.formats.own.plan_json import plan_to_json
from onchip.formats.tflite.arena import ALIGNMENT_BYTES, arena_contents
from onchip.search.budget.limits import Limits
from support.micro_runtime import MicroRefusalError, run_on_micro

TIME_LIMIT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Row:
    """One model: heads and tail in bytes. `scratch_bytes` is the largest scratch of one kernel."""

    model: str
    operators: int
    linear_bytes: int
    greedy_bytes: int
    promised_bytes: int
    head_bytes: int
    tail_bytes: int
    scratch_bytes: int
    moved_operators: int
    status: str
    is_equal: bool
    changes: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Return True if outputs are equal, and the head is no larger than promised and than without a plan."""
        return self.is_equal and self.head_bytes <= min(self.promised_bytes, self.greedy_bytes)


def row(model: Path, folder: Path) -> Row:
    """Plan, export and run one model; raises OnchipError, MicroRefusalError."""
    before = run_on_micro(model.read_bytes())
    request = Request(
        str(model),
        Reading(granularity=Granularity.RAW),
        Target(sram=2**30, alignment_bytes=ALIGNMENT_BYTES),
        Objective.PEAK,
        limits=Limits(time_limit_seconds=TIME_LIMIT_SECONDS),
    )
    outcome = plan_network(request)
    if outcome.document is None:
        raise OnchipError("no plan was found in time", file=str(model))
    plan, output = folder / "plan.json", folder / "planned.tflite"
    plan.write_text(plan_to_json(outcome.document))
    _, export = export_arena(plan, str(model), output, may_replan=True)
    assert export is not None
    after = run_on_micro(output.read_bytes())
    return Row(
        model.stem,
        len(outcome.problem.graph.operators),
        linear_bytes(model),
        before.head_bytes,
        export.arena_bytes,
        after.head_bytes,
        after.tail_bytes,
        export.most_scratch_bytes,
        export.moved_operators,
        str(export.status),
        after.has_outputs_of(before),
        export.changes,
    )


def linear_bytes(model: Path) -> int:
    """Return the bytes of all tensors and scratch buffers side by side."""
    read = read_tflite_network(model)
    contents = arena_contents(read, range(len(read.network.operators)), views_apart=True)
    buffers = [*contents.buffers, *(one for scratch in contents.scratch for one in scratch)]
    return sum(-(-one.size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES for one in buffers)


def models(asked: list[Path]) -> Iterator[Path]:
    """Yield the named files, and those in named folders by name."""
    for path in asked:
        yield from sorted(path.glob("*.tflite")) if path.is_dir() else (path,)


def main() -> None:
    """Print a row for each model, and why there is none."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", NetworkWarning)
    rows: list[Row] = []
    print(f"{'model':34} operators     linear     greedy       ours  saved    scratch    tail  moved  status    equal")
    with tempfile.TemporaryDirectory() as folder:
        for model in models(asked.models):
            try:
                one = row(model, Path(folder))
            except (OnchipError, MicroRefusalError) as error:
                print(f"{model.stem[:34]:34} {error}"[:150], flush=True)
                continue
            rows.append(one)
            saved = 1 - one.head_bytes / one.greedy_bytes
            print(
                f"{one.model[:34]:34} {one.operators:9} {one.linear_bytes:10,} {one.greedy_bytes:10,} "
                f"{one.head_bytes:10,} "
                f"{saved:6.1%} {one.scratch_bytes:10,} {one.tail_bytes:7,} {one.moved_operators:6}  {one.status:8}  "
                f"{'yes' if one.is_right else 'NO'}",
                flush=True,
            )
    if asked.json is not None:
        write_results(asked.json, [asdict(one) for one in rows])
    sys.exit(0 if rows and all(one.is_right for one in rows) else 1)


if __name__ == "__main__":
    main()
