"""Savings by shared bytes: M_R and M_P of networks, and the traffic at the M_R without sharing.

    python benchmarks/sharing.py [--networks NAME ...] [--seconds 20]

A network is a bundled name, the name of a light model of the onnx wheel, `unet` (Ronneberger et al. 2015, with padded
convolutions, over 256 x 256 pixels), or a file. Eight bits an element.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from light_model import light_models

from onchip.answer.document import Reading
from onchip.answer.problem import Count
from onchip.answer.result import Status
from onchip.api.budgets import roomy_problem
from onchip.api.networks import read_network
from onchip.api.plan import plan_problem
from onchip.arch.memory import Memory
from onchip.arch.sharing import Share, SharedKinds
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator
from onchip.ir.tensor import Role, Tensor
from onchip.memory.spill.min_peak import min_peak_bytes
from onchip.model.capacity.bounds import greatest_need
from onchip.search.budget.limits import Limits, Run
from onchip.transform.rewrite.activations import fuse
from onchip.transform.rewrite.shared_bytes import SharedBytes

NETWORKS: Final = (
    *("resnet50", "densenet121", "mobilenetv1", "unet", "inception_v1", "inception_v2", "squeezenet", "shufflenet"),
)
UNET_SIDE: Final = 256
UNET_CHANNELS: Final = (64, 128, 256, 512, 1024)


def row(network: str, seconds: float) -> str:
    """Return one line: M_R, M_P, and traffic at the M_R without sharing, for each kind of sharing.

    A star marks a value that is not proven.
    """
    fields = [network]
    capacity_bytes = None
    for share in (Share.NONE, Share.IN_PLACE, Share.ALL):
        graph = network_of(network, share)
        problem = roomy_problem(graph, Count.ACTIVATIONS)
        required = greatest_need(problem).need_bytes
        capacity_bytes = capacity_bytes or required
        peak = min_peak_bytes(problem, Run(Limits(seconds)))
        star = "" if peak.status is Status.OPTIMAL else "*"
        fields += [f"{required:,}", f"{peak.objective_value:,}{star}", traffic(graph, capacity_bytes, seconds)]
    return f"| {' | '.join(fields)} |"


def network_of(name: str, share: Share) -> Graph:
    """Return a network with what may share bytes."""
    if name == "unet":
        return SharedBytes(SharedKinds.of(share))(fuse(unet()))
    return read_network(str(light_models().get(name, name)), Reading(bits=8, sharing=SharedKinds.of(share)))


def unet() -> Graph:
    """Return U-Net.

    Each level has two convolutions. The way down has pools, the way up transposed convolutions and skip connections.
    """
    tensors = [Tensor.of_shape("image", (1, 1, UNET_SIDE, UNET_SIDE), 8, Role.INPUT)]
    operators: list[Operator] = []

    def run(kind: str, inputs: tuple[str, ...], channels: int, side: int) -> str:
        name = f"{kind.lower()}{len(operators)}"
        tensors.append(Tensor.of_shape(name, (1, channels, side, side), 8, Role.ACTIVATION))
        operators.append(Operator(f"{name}.op", kind, inputs, (name,), (), {"axis": 1} if kind == "Concat" else {}))
        return name

    def twice(name: str, channels: int, side: int) -> str:
        for _ in range(2):
            name = run("Relu", (run("Conv", (name,), channels, side),), channels, side)
        return name

    name, side, kept = "image", UNET_SIDE, []
    for channels in UNET_CHANNELS[:-1]:
        name = twice(name, channels, side)
        kept.append(name)
        side //= 2
        name = run("MaxPool", (name,), channels, side)
    name = twice(name, UNET_CHANNELS[-1], side)
    for channels in reversed(UNET_CHANNELS[:-1]):
        side *= 2
        name = run("ConvTranspose", (name,), channels, side)
        name = twice(run("Concat", (kept.pop(), name), 2 * channels, side), channels, side)
    run("Conv", (name,), 2, side)
    tensors[-1] = replace(tensors[-1], role=Role.OUTPUT)
    return Graph("unet", tuple(tensors), tuple(operators))


def traffic(graph: Graph, capacity_bytes: int, seconds: float) -> str:
    """Return the least non-compulsory bytes in a scratchpad of that size."""
    problem = replace(roomy_problem(graph, Count.ACTIVATIONS), memories=(Memory("sram", capacity_bytes),))
    result = plan_problem(problem, "exact", Limits(seconds))
    return f"{result.objective_value:,}" + ("" if result.status is Status.OPTIMAL else "*")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args(arguments)
    ways = [f"{name}, {share}" for share in ("none", "in place", "all") for name in ("M_R", "M_P", "traffic")]
    print(f"| network | {' | '.join(ways)} |")
    print(f"|---|{'---|' * len(ways)}")
    for network in options.networks:
        print(row(network, options.seconds), flush=True)


if __name__ == "__main__":
    main()
