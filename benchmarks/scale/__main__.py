"""Plans, peaks and fused groups at scale: whole commands on generated networks.

    PYTHONPATH=benchmarks python -m scale [given] [free] [peaks] [fusion] [--workers 1] [--results FILE.json]

`given` and `free` plan for the least traffic at M_R in the given and in any order, `peaks` for the least arena;
`fusion` groups layers by energy. The command that makes an answer also verifies it. Seconds include the start.
"""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from scale.convolutions import chain, detector, u_net
from scale.diffusion import DEEP_UNET, LARGE_UNET, diffusion_unet
from scale.language import BERT, GPT2, GPT2_HEADS_APART, training_of
from scale.random_graphs import layered, nas_cells, windowed
from scale.vision import resnet50_training
from shared.runner import Row, asked_of, onchip, options_of, report

from onchip.formats.own.graph_json import write_graph
from onchip.ir.graph import Graph

TRAINING: Final[tuple[Callable[[], Graph], ...]] = (
    resnet50_training,
    lambda: training_of(GPT2),
    lambda: training_of(BERT, 512, 4),
    lambda: training_of(GPT2_HEADS_APART),
)
GIVEN: Final[tuple[tuple[Callable[[], Graph], int], ...]] = (
    *((make, 10) for make in TRAINING),
    (lambda: windowed(1_000), 30),
    (lambda: layered(100, 10), 30),
    (lambda: windowed(10_000), 60),
    (lambda: windowed(100_000), 60),
)
"""Networks, each with its time limit in seconds."""
FREE: Final[tuple[Callable[[], Graph], ...]] = (
    *TRAINING[:3],
    diffusion_unet,
    lambda: diffusion_unet(LARGE_UNET),
    lambda: diffusion_unet(DEEP_UNET),
    lambda: nas_cells(40),
    lambda: windowed(1_000),
    lambda: layered(100, 10),
)
PEAKS: Final[tuple[Callable[[], Graph], ...]] = (
    *TRAINING,
    lambda: windowed(1_000),
    lambda: windowed(10_000),
    lambda: windowed(10_000, 1),
    lambda: layered(100, 10),
    lambda: layered(100, 10, 1),
    lambda: layered(1_000, 10),
    lambda: layered(1_000, 10, 1),
    lambda: windowed(100_000),
)
FUSED: Final = ("fsrcnn", "dmcnn-vd", "mobilenetv1", "resnet18", "resnet50")
FUSED_GENERATED: Final[tuple[Callable[[], Graph], ...]] = (lambda: chain(50), lambda: chain(100), u_net, detector)
FUSED_ON: Final = ("meta-prototype-df", "edge-tpu-like-df", "tpu-like-df")
ROOM: Final = "64GiB"
SECONDS, SECONDS_TO_FUSE = 60, 40


def planned(graph: Graph, *options: object, limit: int, workers: int = 1) -> Row:
    """Plan a network with the given options within a time limit in seconds."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_graph(graph, folder / "network.json")
        limits = ("--time-limit", limit, "--workers", workers)
        ended = onchip("plan", "network.json", *options, *limits, "--json", "-o", "plan.json", folder=folder)
    figures = {key: ended.answer.get(key) for key in ("status", "objective_value", "lower_bound", "gap", "peak_bytes")}
    again = (ended.answer.get("recomputation") or {}).get("runs_again")
    row = {"network": graph.name, "operators": len(graph.operators), **figures, "runs_again": again}
    return row | ended.resources


def given(workers: int) -> Iterator[Row]:
    """Yield the plans in the given order."""
    for make, limit in GIVEN:
        yield planned(make(), "--order", "given", "--sram", "m_r", limit=limit, workers=workers)


def free(workers: int) -> Iterator[Row]:
    """Yield the plans in any order."""
    for make in FREE:
        yield planned(make(), "--order", "free", "--sram", "m_r", limit=SECONDS, workers=workers)


def peaks(workers: int) -> Iterator[Row]:
    """Yield the least arenas."""
    for make in PEAKS:
        yield planned(make(), "--objective", "peak", "--sram", ROOM, limit=SECONDS, workers=workers)


def fusion(workers: int) -> Iterator[Row]:
    """Yield the energies of fused groups, with the bound for the listed tiles."""
    with tempfile.TemporaryDirectory() as folder:
        sources = {name: name for name in FUSED}
        for graph in (make() for make in FUSED_GENERATED):
            sources[graph.name] = str(Path(folder) / f"{graph.name}.json")
            write_graph(graph, Path(sources[graph.name]))
        limits = ("--time-limit", SECONDS_TO_FUSE, "--workers", workers, "--no-cache", "--json")
        for machine in FUSED_ON:
            for name, source in sources.items():
                ended = onchip("fuse", source, "--bits", 8, "--accelerator", machine, *limits)
                keys = ("status", "objective_value", "bound_among", "gap_among", "optimal_among")
                figures = {key: ended.answer.get(key) for key in keys}
                yield {"machine": machine, "network": name, **figures} | ended.resources


SECTIONS: Final = {"given": given, "free": free, "peaks": peaks, "fusion": fusion}


def main() -> None:
    """Print the rows of the sections."""
    parser = options_of(__doc__)
    parser.add_argument("sections", nargs="*", metavar="SECTION", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--workers", type=int, default=1)
    asked: Namespace = asked_of(parser)
    report(asked, {name: partial(SECTIONS[name], asked.workers) for name in asked.sections})


if __name__ == "__main__":
    main()
