"""Least latency on the networks and the edge machine of SoMa (HPCA 2025), beside what SoMa itself finds.

`PYTHONPATH=benchmarks python -m soma.latency FOLDER [--seconds S] [--processor] [--only TEXT] [--scratchpads N]
[--soma PROGRAM] [--seed N]`: FOLDER holds SoMa's networks as graph files, whose operators state cycles and splits. With
several scratchpads the buffer is cut into so many of equal size, each as fast as the whole. With SoMa's own program
(commit 6e80836, built with `make release`) it runs in the same minute, with one thread and one seed, and a row says
what it found; without it the cycles that it once found. They are printed, never used.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from shared.processor import count_processor_seconds
from shared.results import write_results
from soma.dense import SHAPES, dense_net
from soma.program import run_soma

from onchip.answer.document import Reading
from onchip.answer.problem import Count, Objective
from onchip.api.plan import Request, plan_network
from onchip.api.target import Target
from onchip.arch.accelerator import Accelerator
from onchip.errors import UsageError
from onchip.formats.own.accelerator_yaml import accelerator_to_yaml, load_accelerator
from onchip.formats.own.graph_json import write_graph
from onchip.search.budget.limits import Limits


@dataclass(frozen=True)
class Question:
    """A network, its buffer in MiB, and DRAM in bytes per cycle; SoMa's cycles, or None if unknown."""

    network: str
    mebibytes: float
    bytes_per_cycle: int
    soma_cycles: int | None


QUESTIONS = (
    Question("resnet_b1_s512", 8, 16, 1_624_151),
    Question("resnet_b1_s512", 8, 128, 564_307),
    Question("resnet_b1_s512", 4, 16, 1_673_380),
    Question("GPT_2_small_prefill_b1_s512", 8, 16, 656_448),
    Question("randwire_small_b1_s512", 8, 16, 487_638),
    Question("goog_b1_s512", 8, 16, 456_737),
    Question("goog_b1_s512", 4, 16, 456_639),
    Question("resnet_b4_s512", 8, 16, 2_647_578),
    Question("resnet_b1_s512", 2, 16, None),
    Question("resnet_b1_s512", 1, 16, None),
    Question("goog_b1_s512", 2, 16, None),
    Question("goog_b1_s512", 1, 16, None),
    Question("randwire_small_b1_s512", 1, 16, None),
    Question("GPT_2_small_prefill_b1_s512", 4, 16, None),
    Question("unet_b1_s512", 8, 16, None),
    Question("densenet121", 4, 16, None),
    Question("densenet121", 2.5, 16, None),
    Question("densenet121", 1.5, 16, None),
    Question("densenet121", 1, 16, None),
    Question("densenet169", 2, 16, None),
    Question("densenet169", 1, 16, None),
    Question("densenet201", 2, 16, None),
    Question("densenet201", 1, 16, None),
)


def cut_buffer(machine: Accelerator, count: int) -> Accelerator:
    """Return the machine with several scratchpads of equal size in place of one."""
    (buffer,) = (level for level in machine.levels if level.is_scratchpad)
    capacity_bytes = buffer.memory.capacity_bytes // count
    names = [f"{buffer.memory.name}_{number}" for number in range(count)]
    cut = [replace(buffer.memory, name=name, capacity_bytes=capacity_bytes) for name in names]
    levels = [
        part
        for level in machine.levels
        for part in ([replace(level, memory=one) for one in cut] if level is buffer else [level])
    ]
    return replace(machine, scratchpads=tuple(cut), levels=tuple(levels))


def machine_of(question: Question, scratchpads: int, folder: Path) -> str:
    """Write SoMa's edge machine with the question's buffer, scratchpads and DRAM; return the path."""
    machine = load_accelerator(f"soma-edge@{question.mebibytes}MiB")
    machine = machine if scratchpads == 1 else cut_buffer(machine, scratchpads)
    assert machine.dram is not None
    ports = tuple(replace(port, bits_per_cycle=8 * question.bytes_per_cycle) for port in machine.dram.ports)
    path = folder / f"soma-{question.mebibytes}-{question.bytes_per_cycle}.yaml"
    path.write_text(accelerator_to_yaml(replace(machine, dram=replace(machine.dram, ports=ports))))
    return str(path)


def network_of(question: Question, networks: Path, scratch: Path) -> str:
    """Return a file of the network: SoMa's, or our DenseNet, which re-reads feature maps if the buffer is small."""
    if question.network not in SHAPES:
        return str(networks / f"{question.network}.json.gz")
    path = scratch / f"{question.network}.json"
    write_graph(dense_net(question.network), path)
    return str(path)


def answer(question: Question, asked: argparse.Namespace, scratch: Path) -> dict[str, object]:
    """Plan a network, and say what came of it; every plan has passed the verifier."""
    request = Request(
        network_of(question, asked.folder, scratch),
        Reading(count=Count.ALL),
        Target(accelerator=machine_of(question, asked.scratchpads, scratch)),
        Objective.LATENCY,
        method="timed",
        limits=Limits(asked.seconds),
    )
    cpu_before = time.process_time()
    try:
        outcome = plan_network(request)
    except UsageError as error:
        print(f"{question.network} in {question.mebibytes} MiB: {error}", file=sys.stderr)
        sizes = {"mebibytes": question.mebibytes, "bytes_per_cycle": question.bytes_per_cycle}
        return {"network": question.network, **sizes, "status": "not planned"}
    cpu_seconds = time.process_time() - cpu_before
    result = outcome.result
    return {
        "network": question.network,
        "mebibytes": question.mebibytes,
        "bytes_per_cycle": question.bytes_per_cycle,
        **soma_of(question, asked, scratch),
        "cycles": result.objective_value,
        "lower_bound": result.lower_bound,
        "gap": result.gap,
        "status": str(result.status),
        "pieces": len(outcome.problem.graph.operators),
        "non_compulsory_bytes": outcome.figures and outcome.figures.non_compulsory,
        "seconds": round(outcome.seconds.solve, 1),
        "cpu_seconds": round(cpu_seconds, 1),
    }


def soma_of(question: Question, asked: argparse.Namespace, scratch: Path) -> dict[str, object]:
    """Return SoMa's result from a run of its program if there is one, else its earlier result."""
    if asked.soma is None or question.network in SHAPES:
        return {"soma_cycles": question.soma_cycles}
    sizes = int(question.mebibytes), question.bytes_per_cycle
    run = run_soma(asked.soma, question.network, *sizes, asked.seed, scratch)
    if run.cycles is None:
        print(f"SoMa has no answer to {question.network} in {question.mebibytes} MiB: {run.why_not}", file=sys.stderr)
    return {"soma_cycles": run.cycles, "soma_why_not": run.why_not, "soma_cpu_seconds": round(run.cpu_seconds, 1)}


HEADS = {
    "network": "network",
    "mebibytes": "MiB",
    "bytes_per_cycle": "bytes a cycle",
    "soma_cycles": "SoMa",
    "soma_cpu_seconds": "its CPU s",
    "cycles": "cycles",
    "lower_bound": "bound",
    "gap": "gap",
    "status": "status",
    "pieces": "pieces",
    "cpu_seconds": "CPU s",
    "seconds": "s",
}
"""Column heads of the table, by figure of a row."""


def shown(figure: object) -> str:
    """Return the text of a figure in the table; None is a dash."""
    if figure is None:
        return "-"
    if isinstance(figure, int):
        return f"{figure:,}"
    return str(figure)


def main() -> int:
    """Plan each requested network, and print its row at once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--processor", action="store_true", help="limits are seconds of the processor")
    parser.add_argument("--only", default="", metavar="TEXT", help="networks with this in their names")
    parser.add_argument("--scratchpads", type=int, default=1, metavar="N", help="into which the buffer is cut")
    parser.add_argument("--soma", type=Path, metavar="PROGRAM", help="SoMa's own program, to be run beside")
    parser.add_argument("--seed", type=int, default=1, help="of SoMa's annealing")
    parser.add_argument("--json", type=Path, metavar="RESULTS.json")
    asked = parser.parse_args()
    if asked.processor:
        count_processor_seconds()
    rows = []
    print("| " + " | ".join(HEADS.values()) + " |\n" + "|---" * len(HEADS) + "|")
    with tempfile.TemporaryDirectory() as scratch:
        for question in QUESTIONS:
            if asked.only not in question.network:
                continue
            row = answer(question, asked, Path(scratch))
            rows.append(row)
            gap = row.get("gap")
            told = {**row, "gap": f"{gap:.3%}" if isinstance(gap, float) else None}
            print("| " + " | ".join(shown(told.get(name)) for name in HEADS) + " |", flush=True)
    if asked.json is not None:
        write_results(asked.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
