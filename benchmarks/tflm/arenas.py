"""Arenas of TFLite Micro, by its own planner and with our plan in the model, as the runtime itself takes them.

    PYTHONPATH=benchmarks:tests python -m tflm.arenas [--tiles] MODEL... [--results FILE.json]

MODEL is a .tflite file, or a folder of them. Needs `pip install --pre tflite_micro`. Each is planned (`--runtime
tflite-micro --objective peak`), exported, run by the runtime twice with the same random inputs as without a plan, and
the heads are what it prints. `linear` is the sum of all, as the runtime's linear planner has it. With --tiles, plans
may have tiles, and eight random models of maps are added. Ends with 1 where a head is greater than without a plan, or
not the arena of the plan, or outputs differ in one bit.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random

from shared.runner import Row, asked_of, options_of, report

from onchip.answer.document import Reading, Runtime
from onchip.answer.operator_tiles import TilesOption
from onchip.answer.options.verb_options import PlanOptions
from onchip.answer.problem import Objective
from onchip.answer.program import residencies_of
from onchip.api.inputs import plan_request
from onchip.api.plan import plan_network
from onchip.api.target import Target
from onchip.backends.tflm.export_arena import export_arena
from onchip.errors import NetworkWarning, OnchipError
from onchip.formats.networks import read_tflite_network
from onchip.formats.own.plan_json import plan_to_json
from onchip.formats.tflite.arena import ALIGNMENT_BYTES, arena_contents
from onchip.search.budget.limits import Limits
from support.micro_models import random_maps
from support.micro_runtime import MicroRefusalError, run_on_micro

TIME_LIMIT_SECONDS = 60.0
RANDOM_MODELS = 8


def row(model: Path, folder: Path, tiles: TilesOption) -> Row:
    """Plan, export and run one model; raises OnchipError, MicroRefusalError."""
    before = run_on_micro(model.read_bytes())
    limits, options = Limits(time_limit_seconds=TIME_LIMIT_SECONDS), PlanOptions(runtime=Runtime.MICRO, tiles=tiles)
    outcome = plan_network(plan_request(str(model), Reading(), Target(sram=2**30), Objective.PEAK, options, limits))
    if outcome.document is None:
        raise OnchipError("no plan was found in time", file=str(model))
    plan, output = folder / "plan.json", folder / "planned.tflite"
    plan.write_text(plan_to_json(outcome.document))
    _, export = export_arena(plan, str(model), output)
    assert export is not None
    after = run_on_micro(output.read_bytes())
    graph, head = outcome.problem.graph, after.head_bytes
    end_bytes = max(one.end_bytes for one in residencies_of(outcome.document.answer, graph))
    planned_bytes = -(-end_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    return {
        "model": model.stem,
        "operators": len(read_tflite_network(model).network.operators),
        "planned_operators": len(graph.operators),
        "linear_bytes": linear_bytes(model),
        "greedy_bytes": before.head_bytes,
        "planned_bytes": planned_bytes,
        "head_bytes": head,
        "tail_bytes": after.tail_bytes,
        "scratch_bytes": export.most_scratch_bytes,
        "moved_operators": export.moved_operators,
        "status": str(export.status),
        "is_right": after.has_outputs_of(before) and head == planned_bytes <= before.head_bytes,
    }


def linear_bytes(model: Path) -> int:
    """Return the bytes of all tensors and scratch buffers side by side."""
    read = read_tflite_network(model)
    contents = arena_contents(read, range(len(read.network.operators)), views_apart=True)
    buffers = [*contents.buffers, *(one for scratch in contents.scratch for one in scratch)]
    return sum(-(-one.size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES for one in buffers)


def rows(models: Sequence[Path], tiles: TilesOption) -> Iterator[Row]:
    """Yield a row for each model, and print why there is none."""
    warnings.simplefilter("ignore", NetworkWarning)
    with tempfile.TemporaryDirectory() as folder:
        found = [one for path in models for one in (sorted(path.glob("*.tflite")) or [path])]
        if tiles is TilesOption.AUTO:
            made = ((f"maps{seed}", random_maps(Random(seed), 48)) for seed in range(RANDOM_MODELS))
            found += [model.write(Path(folder) / f"{name}.tflite") for name, model in made]
        for model in found:
            try:
                yield row(model, Path(folder), tiles)
            except (OnchipError, MicroRefusalError) as error:
                print(f"{model.stem}: {error}"[:200], flush=True)


def main() -> int:
    """Print the rows; return 1 if a head is too large or outputs differ."""
    parser = options_of(__doc__)
    parser.add_argument("models", type=Path, nargs="*")
    parser.add_argument("--tiles", action="store_const", const=TilesOption.AUTO, default=TilesOption.NEVER)
    asked = asked_of(parser)
    found = report(asked, {"arenas": partial(rows, asked.models, asked.tiles)})["arenas"]
    return int(not found or not all(one["is_right"] for one in found))


if __name__ == "__main__":
    raise SystemExit(main())
