"""Whole schedules of real networks: energy, latency, traffic, gap, and the share priced without a loop nest.

    python benchmarks/schedule.py [--networks NAME ...] [--accelerators NAME ...] [--objective energy] [--seconds 60]
                                  [--run] [--wheels FOLDER] [--results FILE.json]

Nine light models of the onnx package, bundled networks, and models in wheels, if they are in FOLDER (`pip download
--no-deps -d FOLDER magika==1.0.3 rapidocr-onnxruntime==1.4.4 silero-vad==6.2.3`), each on five bundled accelerators
with 8 bits per element, and once more layer by layer. `unet` is a U-Net of 512 x 512 pixels (O. Ronneberger et al.,
MICCAI 2015), whose largest feature map has 32 MiB. Each row is made by commands of onchip. With `--run` each schedule
is executed on real bytes, and its values are compared with those of the network.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from argparse import Namespace
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from scale.convolutions import published_u_net
from shared.runner import ROOT, Row, asked_of, onchip, options_of, report

from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.formats.own.graph_json import write_graph

sys.path.insert(0, str(ROOT / "examples"))
from light_model import light_models

ACCELERATORS: Final = ("simba", "meta-prototype-df", "tpu-like-df", "edge-tpu-like", "eyeriss-like")
BUNDLED: Final = ("transformer", "vit_b_16", "lenet5", "fsrcnn-defines", "mobilenetv1")
FROM_WHEELS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "magika": ("magika/models/standard_v3_3/model.onnx", ("unk__214=1",)),
    "ocr-detector": (
        "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        tuple(f"p2o.DynamicDimension.{at}={size}" for at, size in enumerate((1, 320, 320))),
    ),
    "silero-vad": ("silero_vad/data/silero_vad_16k_sequence.onnx", ("sequence_length=1",)),
}
"""File of each model in its wheel, and the sizes of its open dimensions."""
FIGURES: Final = (
    "status", "objective_value", "lower_bound", "gap", "energy_pj", "latency_cycles", "tile_operators", "without_nest",
    "error",
)  # fmt: skip


def networks(wheels: Path | None, folder: Path) -> dict[str, tuple[str, ...]]:
    """Return the source of each available network with its options; models in wheels are unpacked to the folder."""
    found: dict[str, tuple[str, ...]] = {name: (str(path),) for name, path in light_models().items()}
    found |= {name: (name,) for name in BUNDLED}
    archives = [zipfile.ZipFile(path) for path in sorted(wheels.glob("*.whl"))] if wheels is not None else []
    for name, (inside, dims) in FROM_WHEELS.items():
        for archive in archives:
            if inside in archive.namelist():
                found[name] = (archive.extract(inside, folder), *(word for dim in dims for word in ("--dim", dim)))
    write_graph(published_u_net(), folder / "unet.json")
    return found | {"unet": (str(folder / "unet.json"),)}


def rows(asked: Namespace) -> Iterator[Row]:
    """Yield a row for each network and accelerator; `layers_value` is the objective layer by layer."""
    with tempfile.TemporaryDirectory() as name:
        found, output = networks(asked.wheels, Path(name)), Path(name) / "schedule.json.gz"
        for network in asked.networks or found:
            for accelerator in asked.accelerators:
                limits = ("--bits", 8, "--time-limit", asked.seconds, "--no-cache", "--json")
                options = ("--accelerator", accelerator, "--objective", asked.objective, *limits)
                ended = onchip("schedule", *found[network], *options, "-o", output)
                layers = onchip("schedule", *found[network], *options, "--groups", "layers")
                row = {"network": network, "accelerator": accelerator}
                row |= {key: ended.answer.get(key) for key in FIGURES} | {
                    "stacks": len(ended.answer.get("stacks") or ())
                }
                row |= {"layers_value": layers.answer.get("objective_value"), "cpu_seconds": ended.cpu_seconds}
                if asked.run:
                    row["values_equal"] = onchip("run", output, found[network][0]).code == 0
                yield row


def is_met(row: Row) -> bool:
    """Return True if there is a schedule that is no worse than layer by layer, with the right values."""
    value, layers = row["objective_value"], row["layers_value"]
    return value is not None and value <= (layers or value) and row.get("values_equal", True)


def main() -> int:
    """Print the table; return 1 if a row is not met."""
    parser = options_of(__doc__)
    parser.add_argument("--networks", nargs="+", metavar="NAME", help="these alone")
    parser.add_argument("--accelerators", nargs="+", metavar="NAME", default=list(ACCELERATORS))
    parser.add_argument("--objective", choices=[*ScheduleObjective], default="energy")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each schedule")
    parser.add_argument("--run", action="store_true", help="execute each schedule on real bytes")
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="where wheels with models are")
    asked = asked_of(parser)
    return int(not all(map(is_met, report(asked, {"schedules": partial(rows, asked)})["schedules"])))


if __name__ == "__main__":
    raise SystemExit(main())
