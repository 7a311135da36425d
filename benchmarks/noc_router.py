"""The routers of the network on a chip beside BookSim2's: mean latencies of packets, and flit-hops a CPU second.

    python benchmarks/noc_router.py [--booksim PROGRAM] [--columns N ...] [--cycles N] [--results FILE]

PROGRAM is BookSim2's (github.com/booksim/booksim2, `make` in src, with flex and bison). Both have a square mesh, X-Y
routing, one virtual channel, packets of five flits, eight flits of buffer; BookSim2's router is its input-queued one
with speculation, so that a head is routed, given its channel and passed in one cycle. Its crossbars are three cycles
apart, and three more pass until a freed place is filled again (both measured: latency by distance, and a long packet
through two to six flits of buffer). Packets are made at random, at a load in flits a cycle and node; a packet's
latency is from then to its tail. Without PROGRAM our latencies alone.
"""

from __future__ import annotations

import re
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import fmean
from time import process_time

import numpy as np
from cosa.mesh import MeshEndpoint, MeshNetwork, TaskKind, TrafficTask, run_tasks
from numpy.random import Generator
from numpy.typing import NDArray
from shared.runner import Row, asked_of, options_of, report, run

LOADS = {
    4: {
        "uniform": (0.08, 0.16, 0.24, 0.32, 0.40),
        "transpose": (0.06, 0.12, 0.18, 0.24, 0.30),
        "hotspot": (0.04, 0.08, 0.12, 0.16, 0.20),
    },
    8: {
        "uniform": (0.05, 0.10, 0.15, 0.20, 0.23),
        "transpose": (0.03, 0.06, 0.09, 0.11, 0.13),
        "hotspot": (0.01, 0.02, 0.04, 0.06, 0.08),
    },
}
"""Loads by columns; the last one is near saturation."""
HOT, HEAT = 5, 5
"""A hot node, and how many times as many packets go to it as to any other."""
PACKET_FLITS = 5
BOOKSIM = {
    "topology": "mesh",
    "n": 2,
    "routing_function": "dor",
    "num_vcs": 1,
    "vc_buf_size": 8,
    "wait_for_tail_credit": 0,
    "vc_allocator": "islip",
    "sw_allocator": "islip",
    "speculative": 1,
    "credit_delay": 1,
    "routing_delay": 0,
    "vc_alloc_delay": 1,
    "sw_alloc_delay": 1,
    "st_final_delay": 1,
    "internal_speedup": "1.0",
    "packet_size": PACKET_FLITS,
    "injection_rate_uses_flits": 1,
    "sim_type": "latency",
    "warmup_periods": 3,
    "sample_period": 10000,
    "latency_thres": "2000.0",
}


def network(columns: int) -> MeshNetwork:
    """Return BookSim2's mesh as ours."""
    return MeshNetwork(
        columns=columns,
        rows=columns,
        endpoints=tuple(MeshEndpoint(router) for router in range(columns * columns)),
        packet_flits=PACKET_FLITS,
        buffer_flits=8,
        hop_cycles=3,
        credit_cycles=3,
        injection_flits=8,
        injection_cycles=2,
        ejection_cycles=3,
    )


def rows(asked: Namespace) -> Iterator[Row]:
    """Yield the mean latencies of each load."""
    for columns in asked.columns:
        for pattern, loads in LOADS[columns].items():
            for load in loads:
                yield _row(columns, pattern, load, asked)


def _row(columns: int, pattern: str, load: float, asked: Namespace) -> Row:
    latencies, hops, seconds = [], 0, 0.0
    for seed in range(asked.seeds):
        tasks = list(packets(columns, pattern, load, asked.cycles, seed))
        start = process_time()
        simulated = run_tasks(network(columns), tasks)
        seconds += process_time() - start
        assert simulated is not None
        hops += simulated.flit_hops
        pairs = zip(tasks, simulated.ends, strict=True)
        latencies.append(fmean(end - task.earliest for task, end in pairs if task.earliest > asked.cycles // 5))
    row: Row = {"columns": columns, "traffic": pattern, "load": load, "ours": round(fmean(latencies), 2)}
    if asked.booksim is not None:
        theirs = fmean(booksim(asked.booksim, columns, pattern, load, seed) for seed in range(1, 3))
        row |= {"booksim2": round(theirs, 2), "difference": round(fmean(latencies) / theirs - 1, 4)}
    return row | {"mega_flit_hops_per_cpu_second": round(hops / seconds / 1e6, 2)}


def packets(columns: int, pattern: str, load: float, cycles: int, seed: int) -> Iterator[TrafficTask]:
    """Make packets of a traffic pattern, by the cycle in which they are made."""
    random = np.random.default_rng(seed)
    nodes = columns * columns
    when, sources = np.nonzero(random.random((cycles, nodes)) < load / PACKET_FLITS)
    for cycle, source, target in zip(when, sources, _targets(pattern, columns, sources, random), strict=True):
        yield TrafficTask(TaskKind.SEND, int(source), 1, (int(target),), earliest=int(cycle))


def _targets(pattern: str, columns: int, sources: NDArray[np.int64], random: Generator) -> NDArray[np.int64]:
    """Return the target of each packet; a node may be its own target, as in BookSim2."""
    nodes = columns * columns
    if pattern == "transpose":
        return sources % columns * columns + sources // columns
    if pattern == "uniform":
        return random.integers(nodes, size=len(sources))
    drawn = random.integers(nodes - 1 + HEAT, size=len(sources))
    return np.where(drawn < nodes, drawn, HOT)


def booksim(program: Path, columns: int, pattern: str, load: float, seed: int) -> float:
    """Return the mean latency that BookSim2 gives; raises RuntimeError where it gives none."""
    nodes = columns * columns
    heats = ",".join(str(HEAT if node == HOT else 1) for node in range(nodes))
    hot = f"hotspot({{{{{','.join(map(str, range(nodes)))}}},{{{heats}}}}})"
    settings = BOOKSIM | {
        "k": columns,
        "traffic": hot if pattern == "hotspot" else pattern,
        "injection_rate": load,
        "seed": seed,
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mesh"
        file.write_text("".join(f"{name} = {value};\n" for name, value in settings.items()))
        said = run([program, file]).output
    overall = said.rpartition("Overall Traffic Statistics")[2]
    latency = re.search(r"Packet latency average = ([\d.]+)", overall)
    if "Overall Traffic Statistics" not in said or latency is None:
        raise RuntimeError(f"BookSim2 has no latency of {pattern} at {load}: {said[-200:]}")
    return float(latency[1])


def main() -> int:
    """Print a row for each load; return 1 if a mean latency is more than 5 % from BookSim2's."""
    parser = options_of(__doc__)
    parser.add_argument("--booksim", type=Path, help="the program")
    parser.add_argument("--columns", type=int, nargs="+", choices=list(LOADS), default=list(LOADS))
    parser.add_argument("--cycles", type=int, default=40_000, help="in which packets are made; a fifth is not counted")
    parser.add_argument("--seeds", type=int, default=4, help="runs of ours, of which the mean is taken")
    asked = asked_of(parser)
    found = report(asked, {"rows": partial(rows, asked)})["rows"]
    return int(any(abs(row.get("difference", 0.0)) > 0.05 for row in found))


if __name__ == "__main__":
    raise SystemExit(main())
