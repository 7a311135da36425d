"""Least latency on the networks and the edge machine of SoMa (HPCA 2025), beside what SoMa itself finds.

    PYTHONPATH=benchmarks python -m soma.latency FOLDER [--seconds S] [--processor] [--only TEXT] [--soma PROGRAM]
                                                 [--seed N] [--results FILE.json]

FOLDER holds SoMa's networks as graph files, whose operators state cycles and splits. PROGRAM is SoMa's own program
(github.com/SET-Scheduling-Project/SoMa-HPCA2025 at 6e80836, AGPL-3.0, built with `make release`); it runs in the same
minute, with one thread, because with several its workers always use a buffer of 8 MiB. Without it, rows have the cycles
that it once found. These cycles are printed, never used.
"""

from __future__ import annotations

import re
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from shared.runner import Row, asked_of, options_of, report, run
from soma.dense import SHAPES, dense_net

from onchip.answer.document import Reading
from onchip.answer.problem import Count, Objective
from onchip.api.plan import Request, plan_network
from onchip.api.target import Target
from onchip.errors import UsageError
from onchip.formats.own.accelerator_yaml import accelerator_to_yaml, load_accelerator
from onchip.formats.own.graph_json import write_graph
from onchip.search.budget.limits import Limits

NUMBERS: Final = {"resnet": 2, "goog": 3, "unet": 17, "randwire_small": 18, "GPT_2_small_prefill": 108}
"""SoMa's number of a network, by the start of the name of its graph file."""
TERA_PER_SECOND: Final = 16
"""Operations of SoMa's edge machine at 1 GHz, in tera per second; this many bytes per cycle are a bandwidth of 1."""
EDGE_ARRAY: Final = ("4", "256", "512")
"""Cores along an edge, bytes of the buffer per cycle, multiply-accumulates of a core."""


class Question(NamedTuple):
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


def machine_of(question: Question, folder: Path) -> str:
    """Write SoMa's edge machine with the question's buffer and DRAM; return the path."""
    machine = load_accelerator(f"soma-edge@{question.mebibytes}MiB")
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


def rows(asked: Namespace) -> Iterator[Row]:
    """Plan each network; every plan has passed the verifier."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        for question in QUESTIONS:
            if asked.only in question.network:
                yield question._asdict() | soma_of(question, asked, scratch) | answer(question, asked, scratch)


def answer(question: Question, asked: Namespace, scratch: Path) -> Row:
    """Plan a network."""
    request = Request(
        network_of(question, asked.folder, scratch),
        Reading(count=Count.ALL),
        Target(accelerator=machine_of(question, scratch)),
        Objective.LATENCY,
        method="timed",
        limits=Limits(asked.seconds),
    )
    cpu_before = time.process_time()
    try:
        outcome = plan_network(request)
    except UsageError as error:
        return {"status": f"not planned: {error}"}
    result = outcome.result
    return {
        "cycles": result.objective_value,
        "lower_bound": result.lower_bound,
        "gap": result.gap,
        "status": str(result.status),
        "pieces": len(outcome.problem.graph.operators),
        "non_compulsory_bytes": outcome.figures and outcome.figures.non_compulsory,
        "seconds": round(outcome.seconds.solve, 1),
        "cpu_seconds": round(time.process_time() - cpu_before, 1),
    }


def soma_of(question: Question, asked: Namespace, scratch: Path) -> Row:
    """Return SoMa's result from a run of its program if there is one, else its earlier result."""
    if asked.soma is None or question.network in SHAPES:
        return {"soma_cycles": question.soma_cycles}
    folder = Path(tempfile.mkdtemp(dir=scratch))
    for part in ("log", "enc", "json"):
        (folder / part).mkdir()
    ended = run([asked.soma.resolve(), *_arguments(question, asked.seed), folder], environment={"OMP_NUM_THREADS": "1"})
    written = "".join(path.read_text() for path in (folder / "log").iterdir())
    found = re.search(r"Total Costs:\s+Time: (\d+)", written)
    why_not = "" if found else "; ".join(written.splitlines()[-3:]) or "it wrote nothing"
    cycles = int(found[1]) if found else None
    return {"soma_cycles": cycles, "soma_why_not": why_not, "soma_cpu_seconds": ended.cpu_seconds}


def _arguments(question: Question, seed: int) -> tuple[str, ...]:
    """Return SoMa's arguments after the folder: network, mode, sequence, segments, MiB, batch, bandwidth, array, seed.

    SoMa's bandwidth is a multiple of TERA_PER_SECOND bytes per cycle.
    """
    named = re.fullmatch(r"(\w+)_b(\d+)_s(\d+)", question.network)
    assert named is not None
    ratio = question.bytes_per_cycle // TERA_PER_SECOND
    sizes = (named[3], "1", str(int(question.mebibytes)), named[2], str(ratio))
    return (str(NUMBERS[named[1]]), "2", *sizes, *EDGE_ARRAY, str(seed))


def main() -> None:
    """Print a row for each requested network."""
    parser = options_of(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--only", default="", metavar="TEXT", help="networks with this in their names")
    parser.add_argument("--soma", type=Path, metavar="PROGRAM")
    parser.add_argument("--seed", type=int, default=1, help="of SoMa's annealing")
    asked = asked_of(parser)
    report(asked, {"latency": partial(rows, asked)})


if __name__ == "__main__":
    main()
