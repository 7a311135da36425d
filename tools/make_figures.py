"""Draws the pictures of the documentation from answers of onchip, as SVG files for light and dark themes.

    PYTHONPATH=src:tools python tools/make_figures.py [NAME ...]

All pictures take about two minutes of processor time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeAlias

import onchip as oc
from onchip.api.run import findings_of_outcome
from onchip.reports.mapping.outcome import costed_layers, energy_by_operand, roofline
from onchip.reports.program.html import footprint, timeline
from onchip.reports.shared.figures import Json
from onchip.reports.shared.svg import svg
from onchip.reports.stack.html import energy_by_cause, network

FIGURES: Final = Path(__file__).parents[1] / "docs" / "figures"
Figures: TypeAlias = Mapping[str, Json]


def light_model(name: str) -> Path:
    """Return the path of a light model of the onnx package."""
    spec = find_spec("onnx")
    if spec is None or spec.origin is None:
        sys.exit("onnx is not installed")
    return Path(spec.origin).parent / "backend" / "test" / "data" / "light" / f"light_{name}.onnx"


@cache
def shufflenet(order: str) -> oc.PlanResult:
    """Plan ShuffleNet for 686 KiB in any order (`free`), or in that of its file (`given`)."""
    net = oc.load_network(light_model("shufflenet"), bits=8)
    return oc.plan(net, oc.Memory("sram", "686KiB"), options=oc.PlanOptions(order=order), time_limit=60)


@cache
def scheduled() -> oc.ScheduleResult:
    """Schedule LeNet-5 on simba for minimum energy."""
    return oc.schedule(oc.load_network("lenet5", bits=8), "simba", time_limit=30)


@cache
def mapped() -> oc.NetworkMappingResult:
    """Map each layer of ResNet-18 on simba for minimum energy."""
    return oc.map_network(oc.load_network("resnet18", bits=8), "simba", time_limit=60)


@cache
def fused() -> oc.FuseResult:
    """Fuse FSRCNN on DeFiNES' variant of Meta's prototype."""
    return oc.fuse(oc.load_network("fsrcnn", bits=8), "meta-prototype-df", time_limit=60)


@cache
def overlapped() -> Any:  # noqa: ANN401 (the findings of a page)
    """Plan LeNet-5 for minimum latency on a machine like Ethos-U65, parameters included, and time the plan."""
    options = oc.PlanOptions(cost="macs", count="all")
    net = oc.load_network("lenet5", bits=8)
    plan = oc.plan(net, "ethos-u65-like", minimize="latency", options=options, time_limit=30)
    return findings_of_outcome(_details(plan), "ethos-u65-like", "")


def _details(result: oc.Result[Any]) -> Any:  # noqa: ANN401 (each verb has details of its own type)
    assert result.view is not None
    return result.view.details


def _figures(result: oc.Result[Any]) -> Figures:
    assert result.view is not None
    assert result.view.as_figures is not None
    return result.view.as_figures(result.view.details)


def _one(result: oc.Result[Any], first: str, title: str) -> Figures:
    """Return under `title` the figure whose own title begins with `first`."""
    return {title: next(figure for name, figure in _figures(result).items() if name.startswith(first))}


def _map(order: str, words: str) -> Figures:
    (figure,) = _figures(shufflenet(order)).values()
    spilled = (shufflenet(order).traffic_bytes or 0) - (shufflenet(order).compulsory_bytes or 0)
    return {f"ShuffleNet in 686 KiB, {words}: {spilled:,.0f} bytes of spills and reloads": figure}


def _footprint() -> Figures:
    found = findings_of_outcome(_details(shufflenet("free")), None, "")
    return {"ShuffleNet in 686 KiB, any order: bytes in use": footprint(found, found.problem.memories[0])}


def _timeline() -> Figures:
    found = overlapped()
    return {"LeNet-5 on ethos-u65-like: compute with overlapped DMA": timeline(found, found.timeline)}


def _roofline() -> Figures:
    found = _details(mapped())
    return {"Roofline of ResNet-18 on simba": roofline(costed_layers(found), found.accelerator)}


def _energy_by_operand() -> Figures:
    return {"ResNet-18 on simba: energy by operand": energy_by_operand(costed_layers(_details(mapped())))}


def _pareto() -> Figures:
    front = oc.pareto(oc.load_network("lenet5", bits=8), "simba", time_limit=90)
    return {f"Pareto front of LeNet-5 on simba: {name}": figure for name, figure in _figures(front).items()}


def _capacity() -> Figures:
    found = oc.capacity(oc.load_network(light_model("shufflenet"), bits=8), time_limit=60)
    return {"Capacity curve of ShuffleNet": next(iter(_details(found).figures().values()))}


def _packing() -> Figures:
    found = shufflenet("free")
    assert found.answer is not None
    problem = _details(found).problem
    uses: dict[str, list[int]] = {}
    for step, operator in enumerate(problem.graph.operators):
        for name in (*operator.inputs, *operator.outputs):
            uses.setdefault(name, []).append(step)
    sizes = {tensor.name: tensor.size_bytes for tensor in problem.counted_tensors}
    buffers = {n: oc.Buffer(steps[0], steps[-1] + 1, sizes[n]) for n, steps in uses.items() if n in sizes}
    packed = oc.pack(buffers, time_limit=30)
    arena = f"{packed.arena_bytes or 0:,.0f} bytes"
    return {f"Minimum arena of ShuffleNet in the order of its file: {arena}": next(iter(_figures(packed).values()))}


DRAWN: Final[Mapping[str, Callable[[], Figures]]] = {
    "memory_map_before": lambda: _map("given", "order of the file"),
    "memory_map_after": lambda: _map("free", "any order"),
    "footprint": _footprint,
    "timeline": _timeline,
    "schedule_timeline": lambda: _one(scheduled(), "Timeline", "LeNet-5 on simba: timeline of the schedule"),
    "energy_breakdown": lambda: _one(scheduled(), "Energy", "LeNet-5 on simba: energy by memory and cause"),
    "layer_energy": lambda: _one(mapped(), "Energy", "ResNet-18 on simba: energy by memory"),
    "layer_energy_by_operand": _energy_by_operand,
    "layer_cycles": lambda: _one(mapped(), "Cycle", "ResNet-18 on simba: cycle breakdown"),
    "roofline": _roofline,
    "fused_groups": lambda: {"Fused groups of FSRCNN": network(_details(fused()))},
    "fused_energy": lambda: {"FSRCNN on meta-prototype-df: energy by cause": energy_by_cause(_details(fused()))},
    "pareto_front": _pareto,
    "capacity_curve": _capacity,
    "packing": _packing,
}
"""Function that makes each picture, by the name of its file."""


def main() -> None:
    """Draw the named pictures, or all."""
    names = sys.argv[1:] or list(DRAWN)
    unknown = sorted({*names} - {*DRAWN})
    if unknown:
        sys.exit(f"no picture {', '.join(unknown)}; the pictures are {', '.join(DRAWN)}")
    for name in names:
        (FIGURES / f"{name}.svg").write_text(svg(DRAWN[name]()))
        print(FIGURES / f"{name}.svg", flush=True)


if __name__ == "__main__":
    main()
