"""Whole schedules of real networks: energy, latency, traffic, gap, and what of it is priced without a loop nest.

    python benchmarks/schedule.py [--section table fsrcnn] [--networks NAME ...] [--accelerators NAME ...]
                                  [--seconds 60] [--run] [--wheels FOLDER] [--json FILE]

Nine light models of the onnx package, bundled networks, and three models that ordinary wheels carry, if they are in
FOLDER (`pip download --no-deps -d FOLDER magika==1.0.3 rapidocr-onnxruntime==1.4.4 silero-vad==6.2.3`), each on five
bundled accelerators; energy, 8 bits an element, so many seconds each, and once more layer by layer. Each row is a
process of its own, compiled code warm, nothing known of earlier runs. With `--run` each schedule is executed on real
bytes, and its values compared with those of the network. `fsrcnn` is FSRCNN, searched, against what the
model of stacks alone says.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, TypeVar

from onchip.answer.bindings import Bindings
from onchip.answer.document import ScheduleDocument
from onchip.answer.options.fusion_options import LAYERS
from onchip.answer.options.schedule_options import ScheduleOptions
from onchip.api.check_schedule import ScheduleFile
from onchip.api.kernels import RunValues
from onchip.api.run_schedule import run_schedule
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.errors import OnchipError
from onchip.formats.own.schedule_json import write_schedule
from onchip.reports.schedule.outcome import ScheduleOutcome
from onchip.search.budget.limits import Limits

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from light_model import light_models

ACCELERATORS: Final = ("simba", "meta-prototype-df", "tpu-like-df", "edge-tpu-like", "eyeriss-like")
BUNDLED: Final = ("transformer", "vit_b_16", "lenet5", "fsrcnn-defines", "mobilenetv1")
FROM_WHEELS: Final[Mapping[str, tuple[str, Mapping[str, int]]]] = {
    "magika": ("magika/models/standard_v3_3/model.onnx", {"unk__214": 1}),
    "ocr-detector": (
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        {f"p2o.DynamicDimension.{at}": size for at, size in enumerate((1, 320, 320))},
    ),
    "silero-vad": ("silero_vad/data/silero_vad_16k_sequence.onnx", {"sequence_length": 1}),
}
"""File of each model in its wheel, and the sizes of its open dimensions."""
FSRCNN_MODEL_MJ: Final = 1.8163
"""Energy that the model of stacks computes for its best strategy on meta-prototype-df, without addresses."""
GRACE: Final = 3.0
"""A row ends after this multiple of its limit."""
FEMTOJOULES_PER_MILLIJOULE: Final = 10**12
WARMING_SECONDS: Final = 5.0
"""For a small network before the others, so that compiled code is loaded."""
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class NetworkToSchedule:
    """A network by name, the file or bundled name that it is read from, and its open dimensions."""

    name: str
    source: str
    dims: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """One network on one accelerator. `checked` is True if the verifier passed it; `error` is the reason of a failure.

    `values_equal` is True if the executed schedule gave the network's values; None if it was not executed.
    """

    network: str
    accelerator: str
    status: str
    energy_mj: float | None = None
    layers_mj: float | None = None
    latency_cycles: int | None = None
    traffic_bytes: int | None = None
    gap: float | None = None
    operators: int = 0
    tile_operators: int = 0
    stacks: int = 0
    share_of_energy_without_nest: float | None = None
    share_of_operators_without_nest: float | None = None
    solve_seconds: float | None = None
    verify_seconds: float | None = None
    checked: bool = False
    values_equal: bool | None = None
    error: str | None = None


def networks(wheels: Path | None, folder: Path) -> Iterator[NetworkToSchedule]:
    """Yield all available networks; models in wheels are unpacked to the folder."""
    for name, path in light_models().items():
        yield NetworkToSchedule(name, str(path))
    for name in BUNDLED:
        yield NetworkToSchedule(name, name)
    archives = [zipfile.ZipFile(path) for path in sorted(wheels.glob("*.whl"))] if wheels is not None else []
    for name, (inside, dims) in FROM_WHEELS.items():
        for archive in archives:
            if inside in archive.namelist():
                yield NetworkToSchedule(name, archive.extract(inside, folder), dims)


def row_of(network: NetworkToSchedule, accelerator: str, seconds: float, *, runs: bool) -> ScheduleRow:
    """Schedule it freely, execute that if asked to, and layer by layer; whatever fails is in the row."""
    row = ScheduleRow(network.name, accelerator, "refused")
    schedule_network(ScheduleRequest("lenet5", accelerator, limits=Limits(WARMING_SECONDS), uses_cache=False, bits=8))
    request = ScheduleRequest(
        network.source, accelerator, bindings=Bindings(network.dims), limits=Limits(seconds), uses_cache=False, bits=8
    )
    try:
        outcome = schedule_network(request)
        row = _filled(row, outcome)
        if runs and outcome.document is not None:
            row = replace(row, values_equal=_gives_equal_values(outcome.document, network.source))
        layers = schedule_network(replace(request, options=ScheduleOptions(groups=LAYERS)))
    except OnchipError as error:
        return replace(row, error=f"{type(error).__name__}: {error}")
    except Exception as error:  # a defect is a row, too
        return replace(row, status="broken", error=f"{type(error).__name__}: {error}")
    if layers.figures is None:
        return row
    return replace(row, layers_mj=layers.figures.energy_fj / FEMTOJOULES_PER_MILLIJOULE)


def _gives_equal_values(document: ScheduleDocument, source: str) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "schedule.json.gz"
        write_schedule(document, path)
        return run_schedule(ScheduleFile(path, source), RunValues()).is_right


def _filled(row: ScheduleRow, outcome: ScheduleOutcome) -> ScheduleRow:
    result, figures, tiles, document = outcome.result, outcome.figures, outcome.tiles, outcome.document
    row = replace(
        row,
        status=str(result.status),
        operators=len(outcome.network.operators),
        solve_seconds=outcome.seconds.solve,
        verify_seconds=outcome.seconds.verify,
        error=outcome.why_not,
    )
    if figures is None or tiles is None or document is None:
        return row
    without = [name for name, origin in tiles.operators.items() if not origin.nests]
    energy_fj = sum(outcome.compute_costs[name].energy_fj for name in without)
    return replace(
        row,
        energy_mj=figures.energy_fj / FEMTOJOULES_PER_MILLIJOULE,
        latency_cycles=figures.latency_cycles,
        traffic_bytes=figures.traffic_bytes,
        gap=result.gap,
        tile_operators=len(tiles.operators),
        stacks=len(document.answer.stacks),
        share_of_energy_without_nest=energy_fj / figures.energy_fj if figures.energy_fj else 0.0,
        share_of_operators_without_nest=len(without) / len(tiles.operators),
        checked=True,
    )


def in_a_process(network: NetworkToSchedule, accelerator: str, seconds: float, *, runs: bool) -> ScheduleRow:
    """Compute a row in a separate process, so that a failure or an endless run does not affect other rows."""
    found = of_another_process(partial(row_of, network, accelerator, seconds, runs=runs), 2 * GRACE * seconds)
    return ScheduleRow(network.name, accelerator, "broken", error=found) if isinstance(found, str) else found


def of_another_process(work: Callable[[], Row], seconds: float) -> Row | str:
    """Return the result of the work, or the reason for its failure within the given seconds."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_sent, args=(there, work))
    process.start()
    there.close()
    try:
        if here.poll(seconds):
            row: Row = here.recv()
            return row
        return f"not over after {seconds:g} s"
    except EOFError:
        return "the process broke"
    finally:
        process.kill()
        process.join()


def _sent(there: Connection, work: Callable[[], object]) -> None:
    there.send(work())


TITLES: Final = (
    "network", "accelerator", "status", "energy mJ", "layer by layer", "cycles", "traffic MB", "gap", "stacks", "tiles",
    "energy, operators without a nest", "solve s", "verify s", "checked", "values equal",
)  # fmt: skip


def table_line(row: ScheduleRow) -> str:
    """Return a row as a line of a table."""
    shares = row.share_of_energy_without_nest, row.share_of_operators_without_nest
    cells = (
        row.network,
        row.accelerator,
        row.status,
        _number(row.energy_mj, ".4g"),
        _number(row.layers_mj, ".4g"),
        _number(row.latency_cycles, ","),
        _number(None if row.traffic_bytes is None else row.traffic_bytes / 1e6, ".3f"),
        _number(row.gap, ".1%"),
        str(row.stacks or "-"),
        str(row.tile_operators or "-"),
        ", ".join(_number(share, ".1%") for share in shares),
        _number(row.solve_seconds, ".1f"),
        _number(row.verify_seconds, ".2f"),
        "yes" if row.checked else row.error or "no",
        {None: "-", True: "yes", False: "no"}[row.values_equal],
    )
    return f"| {' | '.join(cells)} |"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def main() -> int:
    """Print tables; return 1 if a schedule is missing, worse than layer by layer, or gives other values."""
    asked = _arguments()
    rows: list[ScheduleRow] = []
    with tempfile.TemporaryDirectory() as folder:
        found = {one.name: one for one in networks(asked.wheels, Path(folder))}
        if "table" in asked.section:
            print(f"| {' | '.join(TITLES)} |\n{'|---' * len(TITLES)}|", flush=True)
            for name in asked.networks or found:
                for accelerator in asked.accelerators:
                    rows.append(in_a_process(found[name], accelerator, asked.seconds, runs=asked.run))
                    _shown(rows[-1], asked.json)
        if "fsrcnn" in asked.section:
            rows.append(in_a_process(found["fsrcnn-defines"], "meta-prototype-df", asked.seconds, runs=asked.run))
            _shown(rows[-1], asked.json)
            above = None if rows[-1].energy_mj is None else rows[-1].energy_mj / FSRCNN_MODEL_MJ - 1
            print(f"fsrcnn: {_number(above, '+.2%')} of the {FSRCNN_MODEL_MJ} mJ of the model of stacks alone")
    return int(any(not row.checked or _is_worse_than_layers(row) or row.values_equal is False for row in rows))


def _is_worse_than_layers(row: ScheduleRow) -> bool:
    return row.energy_mj is not None and row.layers_mj is not None and row.energy_mj > row.layers_mj


def _shown(row: ScheduleRow, path: Path | None) -> None:
    print(table_line(row), flush=True)
    if path is not None:
        with path.open("a") as file:
            file.write(json.dumps(asdict(row)) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--section", nargs="+", choices=["table", "fsrcnn"], default=["table", "fsrcnn"])
    parser.add_argument("--networks", nargs="+", metavar="NAME", help="these alone")
    parser.add_argument("--accelerators", nargs="+", metavar="NAME", default=list(ACCELERATORS))
    parser.add_argument("--seconds", type=float, default=60.0, help="for each schedule")
    parser.add_argument("--run", action="store_true", help="execute each schedule on real bytes")
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="where wheels with models are")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append each row as a line")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
