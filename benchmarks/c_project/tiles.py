"""Plans in tiles as C projects and in TFLite Micro: equal outputs, and the arenas that were promised.

    PYTHONPATH=benchmarks:tests python -m c_project.tiles MODEL... [--share 0.7] [--json RESULTS.json]

MODEL is a .tflite file; eight models of `tests/support/micro_models.py` are added. Each is planned (`--tiles auto
--alignment 16`) for a scratchpad of a share of the arena that TFLite Micro takes for the whole operators. The plan is
exported as a C project, which is compiled with -O2 and run, and as a model of tiles, which TFLite Micro runs twice on
random inputs. Ends with 1 where outputs differ in a bit or an arena is not the one promised.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

from shared.results import write_results

from onchip.answer.document import Reading
from onchip.answer.operator_tiles import TilesOption
from onchip.answer.program import residencies_of
from onchip.api.kernels import RunValues
from onchip.api.plan import Request, plan_network
from onchip.api.target import Target
from onchip.backends.c.exports import export_project
from onchip.backends.tflm.export_arena import export_arena
from onchip.errors import NetworkWarning, OnchipError
from onchip.formats.own.plan_json import plan_to_json
from onchip.search.budget.limits import Limits
from support.c_projects import array_sizes, made_and_run
from support.micro_models import models_to_tile
from support.micro_runtime import MicroRefusalError, run_on_micro

TIME_LIMIT_SECONDS = 20.0
ALIGNMENT_BYTES = 16


@dataclass(frozen=True, slots=True)
class TiledRow:
    """One model: arenas in bytes, of the plan, in the object file, and in TFLite Micro as promised and as taken."""

    model: str
    whole_bytes: int
    scratchpad_bytes: int
    operators: int
    tiles: int
    planned_bytes: int
    c_bytes: int
    c_is_equal: bool
    promised_bytes: int
    head_bytes: int
    micro_is_equal: bool

    @property
    def is_right(self) -> bool:
        """Return True if all outputs are equal, and both arenas are those promised."""
        arenas = self.c_bytes == self.planned_bytes and self.head_bytes == self.promised_bytes
        return self.c_is_equal and self.micro_is_equal and arenas


def row(model: Path, folder: Path, share: float) -> TiledRow:
    """Plan, export and run one model both ways; raises OnchipError, MicroRefusalError."""
    before = run_on_micro(model.read_bytes())
    sram = int(before.head_bytes * share) // ALIGNMENT_BYTES * ALIGNMENT_BYTES
    target = Target(sram=sram, alignment_bytes=ALIGNMENT_BYTES)
    limits = Limits(time_limit_seconds=TIME_LIMIT_SECONDS)
    outcome = plan_network(Request(str(model), Reading(), target, tiles=TilesOption.AUTO, limits=limits))
    if outcome.document is None:
        raise OnchipError("no plan was found in time", file=str(model))
    plan, tiled = folder / f"{model.stem}.json", folder / f"{model.stem}.tiles.tflite"
    plan.write_text(plan_to_json(outcome.document))
    project = export_project(plan, str(model), folder / model.stem, RunValues()).project
    assert project is not None
    _, code = made_and_run(folder / model.stem)
    _, export = export_arena(plan, str(model), tiled)
    assert export is not None
    after = run_on_micro(tiled.read_bytes())
    graph = outcome.problem.graph
    return TiledRow(
        model.stem,
        before.head_bytes,
        sram,
        len({one.tile.operator if one.tile else one.name for one in graph.operators}),
        len(graph.operators),
        max(one.end_bytes for one in residencies_of(outcome.document.answer, graph)),
        array_sizes(folder / model.stem)["arena_sram"],
        code == 0,
        export.arena_bytes,
        after.head_bytes,
        after.has_outputs_of(before),
    )


def main() -> None:
    """Print a row for each model, and why there is none."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="*")
    parser.add_argument("--share", type=float, default=0.7)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", NetworkWarning)
    rows: list[TiledRow] = []
    print(
        "| model | operators | in tiles | whole in TFLM | scratchpad | plan = C array | tiles in TFLM | as promised |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        made = [one.write(Path(folder) / f"{name}.tflite") for name, one in models_to_tile().items()]
        for model in (*asked.models, *made):
            try:
                one = row(model, Path(folder), asked.share)
            except (OnchipError, MicroRefusalError, subprocess.CalledProcessError) as error:
                print(f"{model.stem}: {error}"[:200], flush=True)
                continue
            rows.append(one)
            print(
                f"| {one.model} | {one.operators} | {one.tiles} | {one.whole_bytes:,} | {one.scratchpad_bytes:,} "
                f"| {one.c_bytes:,} | {one.head_bytes:,} | {'yes' if one.is_right else 'NO'} |",
                flush=True,
            )
    if asked.json is not None:
        write_results(asked.json, [asdict(one) for one in rows])
    sys.exit(0 if rows and all(one.is_right for one in rows) else 1)


if __name__ == "__main__":
    main()
