"""Arenas of TFLite Micro, by its own planner and with our plan in the model, as the runtime itself takes them.

    PYTHONPATH=benchmarks:tests python -m tflm.arenas MODEL... [--results FILE.json]

MODEL is a .tflite file, or a folder of them. Needs `pip install --pre tflite_micro`. Each is planned (`--objective
peak --granularity raw --alignment 16`), exported, run by the runtime twice with the same random inputs as without a
plan, and the heads are what it prints. `linear` is the sum of all, as the runtime's linear planner has it. Ends with 1
where a head is greater than without a plan or than promised, or outputs differ in one bit.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from shared.runner import Row, asked_of, options_of, report

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
    head, least = after.head_bytes, min(export.arena_bytes, before.head_bytes)
    return {
        "model": model.stem,
        "operators": len(outcome.problem.graph.operators),
        "linear_bytes": linear_bytes(model),
        "greedy_bytes": before.head_bytes,
        "promised_bytes": export.arena_bytes,
        "head_bytes": head,
        "tail_bytes": after.tail_bytes,
        "scratch_bytes": export.most_scratch_bytes,
        "moved_operators": export.moved_operators,
        "status": str(export.status),
        "is_right": after.has_outputs_of(before) and head <= least,
        "changes": export.changes,
    }


def linear_bytes(model: Path) -> int:
    """Return the bytes of all tensors and scratch buffers side by side."""
    read = read_tflite_network(model)
    contents = arena_contents(read, range(len(read.network.operators)), views_apart=True)
    buffers = [*contents.buffers, *(one for scratch in contents.scratch for one in scratch)]
    return sum(-(-one.size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES for one in buffers)


def rows(models: Sequence[Path]) -> Iterator[Row]:
    """Yield a row for each model, and print why there is none."""
    warnings.simplefilter("ignore", NetworkWarning)
    with tempfile.TemporaryDirectory() as folder:
        for model in (one for path in models for one in (sorted(path.glob("*.tflite")) or [path])):
            try:
                yield row(model, Path(folder))
            except (OnchipError, MicroRefusalError) as error:
                print(f"{model.stem}: {error}"[:200], flush=True)


def main() -> int:
    """Print the rows; return 1 if a head is too large or outputs differ."""
    parser = options_of(__doc__)
    parser.add_argument("models", type=Path, nargs="+")
    asked = asked_of(parser)
    found = report(asked, {"arenas": partial(rows, asked.models)})["arenas"]
    return int(not found or not all(one["is_right"] for one in found))


if __name__ == "__main__":
    raise SystemExit(main())
