"""Savings by shared bytes: M_R and M_P of networks, and the traffic at the M_R without sharing.

    PYTHONPATH=benchmarks python benchmarks/sharing.py [--networks NAME ...] [--seconds 20] [--results FILE.json]

A network is a bundled name, the name of a light model of the onnx wheel, `unet` (256 x 256 pixels), or a file. Elements
have eight bits.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from scale.convolutions import published_u_net
from shared.runner import ROOT, Row, asked_of, options_of, report

sys.path.insert(0, str(ROOT / "examples"))
from light_model import light_models

from onchip.answer.document import Reading
from onchip.answer.problem import Count
from onchip.api.networks import read_network
from onchip.api.plan import plan_problem
from onchip.api.target import roomy_problem
from onchip.arch.memory import Memory
from onchip.arch.sharing import Share, SharedKinds
from onchip.ir.graph import Graph
from onchip.memory.spill.min_peak import min_peak_bytes
from onchip.model.capacity.bounds import greatest_need
from onchip.search.budget.limits import Limits, Run
from onchip.transform.rewrite.activations import fuse
from onchip.transform.rewrite.shared_bytes import SharedBytes

NETWORKS: Final = (
    *("resnet50", "densenet121", "mobilenetv1", "unet", "inception_v1", "inception_v2", "squeezenet", "shufflenet"),
)


def rows(asked: Namespace) -> Iterator[Row]:
    """Yield a row for each network and kind of sharing; capacities of traffic are the M_R without sharing."""
    limits = Limits(asked.seconds)
    for network in asked.networks:
        capacity_bytes = None
        for share in (Share.NONE, Share.IN_PLACE, Share.ALL):
            problem = roomy_problem(network_of(network, share), Count.ACTIVATIONS)
            required = greatest_need(problem).need_bytes
            capacity_bytes = capacity_bytes or required
            peak = min_peak_bytes(problem, Run(limits))
            traffic = plan_problem(replace(problem, memories=(Memory("sram", capacity_bytes),)), "exact", limits)
            yield {
                "network": network,
                "sharing": str(share),
                "required_bytes": required,
                "min_peak_bytes": peak.objective_value,
                "peak_status": str(peak.status),
                "traffic_bytes": traffic.objective_value,
                "traffic_status": str(traffic.status),
            }


def network_of(name: str, share: Share) -> Graph:
    """Return a network, with the tensors that may share bytes."""
    if name == "unet":
        return SharedBytes(SharedKinds.of(share))(fuse(published_u_net(256)))
    return read_network(str(light_models().get(name, name)), Reading(bits=8, sharing=SharedKinds.of(share)))


def main() -> None:
    """Print the table."""
    parser = options_of(__doc__)
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--seconds", type=float, default=20.0)
    asked = asked_of(parser)
    report(asked, {"sharing": partial(rows, asked)})


if __name__ == "__main__":
    main()
