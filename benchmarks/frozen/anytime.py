"""Values and bounds of forty open questions after 1, 5, 20 and 120 processor seconds, ten for each of four verbs.

    PYTHONPATH=benchmarks python -m frozen.anytime run RESULTS.json [--only NAME ...] [--seconds 120]
    PYTHONPATH=benchmarks python -m frozen.anytime compare EARLIER.json LATER.json

`run` asks each question once, in a process of its own with one worker, and keeps every row as soon as it is known; it
goes on where it ended. Marks before the last are the values that the search told by then. `compare` prints each value
and bound that is more than 1 % worse, and ends with 1 if there is any.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from typing import Any, Final

from frozen.rows import Row, read_rows
from scale.convolutions import chain, detector, u_net
from scale.diffusion import diffusion_unet
from scale.random_graphs import layered, windowed
from scale.vision import resnet50_training
from shared.results import write_results
from shared.runner import count_processor_seconds, run
from soma.dense import dense_net

from onchip.answer.document import Reading
from onchip.answer.options.fusion_objective import FusionObjective
from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import FusionOptions, MapOptions, ScheduleOptions
from onchip.answer.problem import Count, Objective, Order
from onchip.answer.result import SearchResult
from onchip.api.fuse import FusionRequest, fuse_network
from onchip.api.map import MappingRequest, map_layers
from onchip.api.plan import Request, plan_network
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.api.target import Target
from onchip.formats.own.graph_json import write_graph
from onchip.ir.graph import Graph
from onchip.search.budget.clock import Deadline
from onchip.search.budget.limits import Limits, Progress, Run

SECONDS: Final = 120
MARKS: Final = (1, 5, 20, SECONDS)
WORSE: Final = 0.01
GENERATED: Final[Mapping[str, Callable[[], Graph]]] = {
    "resnet50-training": resnet50_training,
    "stable-diffusion-unet": diffusion_unet,
    "windowed-1000-0": lambda: windowed(1_000, 0),
    "windowed-1000-7": lambda: windowed(1_000, 7),
    "windowed-10000-0": lambda: windowed(10_000, 0),
    "layered-100-10-0": lambda: layered(100, 10, 0),
    "layered-100-10-1": lambda: layered(100, 10, 1),
    "layered-30-6-3": lambda: layered(30, 6, 3),
    "densenet121-bands": lambda: dense_net("densenet121"),
    "chain-50": lambda: chain(50),
    "chain-100": lambda: chain(100),
    "u-net": u_net,
    "detector": detector,
}
"""Networks that the benchmarks make; all other sources are bundled."""
QUESTIONS: Final = (
    "plan windowed-1000-0 m_r traffic",
    "map cosa:resnet50:_outputs_input.2 simba energy",
    "fuse resnet18 meta-prototype-df energy",
    "schedule mobilenetv1 simba energy",
    "plan windowed-1000-7 m_r traffic",
    "map cosa:resnet50:_outputs_input.2 simba edp",
    "fuse mobilenetv1 meta-prototype-df latency",
    "schedule mobilenetv1 meta-prototype-df latency",
    "plan layered-100-10-0 m_r traffic",
    "map cosa:resnet50:_outputs_input.40 simba energy",
    "fuse resnet18 edge-tpu-like-df latency",
    "schedule fsrcnn-defines meta-prototype-df energy",
    "plan layered-30-6-3 m_r traffic",
    "map cosa:resnet50:_outputs_input.40 simba latency",
    "fuse fsrcnn tpu-like-df edp",
    "schedule mc-cnn-defines meta-prototype-df latency",
    "plan resnet50-training m_r traffic",
    "map cosa:resnext50:_outputs_input.12 simba edp",
    "fuse u-net meta-prototype-df edp",
    "schedule transformer simba latency",
    "plan stable-diffusion-unet m_r traffic",
    "map cosa:resnext50:_outputs_input.73 simba energy",
    "fuse dmcnn-vd edge-tpu-like-df energy",
    "schedule resnet50 edge-tpu-like traffic",
    "plan windowed-10000-0 m_r traffic-given",
    "map cosa:deepbench-ocr:07_OCR simba edp",
    "fuse detector meta-prototype-df energy",
    "schedule resnet50 meta-prototype-df energy",
    "plan layered-100-10-0 m_r traffic-given",
    "map cosa:deepbench-face-recognition:11_Face_Recognition simba edp",
    "fuse chain-50 meta-prototype-df energy",
    "schedule densenet121 simba energy",
    "plan layered-100-10-1 64GiB peak",
    "map gemm:m512n11008k4096 meta-prototype-df energy",
    "fuse resnet50 meta-prototype-df energy",
    "schedule resnet18 tpu-like-df edp",
    "plan densenet121-bands soma-edge@1MiB latency",
    "map conv:n1k64c64p56q56r3s3:pad1 simba edp",
    "fuse chain-100 meta-prototype-df energy",
    "schedule vit_b_16 eyeriss-like energy",
)
"""Verb, network or layer, accelerator or size of the scratchpad, and objective; verbs take turns."""


@dataclass(slots=True)
class Recorder:
    """Starts runs, and keeps the best value and bound that they tell, with the processor seconds at each change."""

    began: float = field(default_factory=time.process_time)
    value: int | None = None
    lower_bound: int = 0
    told: list[tuple[float, int | None, int]] = field(default_factory=list)

    @contextmanager
    def start(self, limits: Limits, deadline: Deadline) -> Iterator[Run]:
        """Start a run that is recorded."""
        yield Run(limits, self.hear, deadline=deadline)

    def hear(self, progress: Progress) -> None:
        """Keep an improvement."""
        value = min((one for one in (self.value, progress.best) if one is not None), default=None)
        lower_bound = max(self.lower_bound, progress.lower_bound)
        if (value, lower_bound) != (self.value, self.lower_bound):
            self.value, self.lower_bound = value, lower_bound
            self.told.append((time.process_time() - self.began, value, lower_bound))

    def at(self, seconds: float) -> tuple[int | None, int]:
        """Return the value and the bound that were known then."""
        return next(((value, bound) for when, value, bound in reversed(self.told) if when <= seconds), (None, 0))


def asked(question: str, seconds: float) -> Row:
    """Ask one question here and now; processor seconds are counted from now on."""
    verb, source, machine, objective = question.split()
    limits = Limits(seconds)
    count_processor_seconds()
    _leave_cp_sat_to_its_watcher()
    with tempfile.TemporaryDirectory() as folder:
        if source in GENERATED:
            path = Path(folder) / f"{source}.json"
            write_graph(GENERATED[source](), path)
            source = str(path)
        recorder = Recorder()
        result = SOLVERS[verb](source, machine, objective, limits, recorder)
    marks: dict[str, object] = {str(mark): recorder.at(mark) for mark in MARKS if mark < seconds}
    marks[f"{seconds:g}"] = result.objective_value, result.lower_bound
    return Row(question, _command(question), {"status": str(result.status), "seed": limits.seed, **marks})


def _command(question: str) -> str:
    return f"python -m frozen.anytime ask '{question}'"


def _leave_cp_sat_to_its_watcher() -> None:
    """Drop CP-SAT's own limit, which counts the wall clock: the thread that watches it ends it by processor seconds."""
    from ortools.sat.python.cp_model import CpSolver

    solve = CpSolver.solve

    def unlimited(solver: CpSolver, *given: Any) -> Any:  # noqa: ANN401
        solver.parameters.max_time_in_seconds = inf
        return solve(solver, *given)

    CpSolver.solve = unlimited  # type: ignore[assignment, method-assign]


def _plan(source: str, machine: str, objective: str, limits: Limits, recorder: Recorder) -> SearchResult[object]:
    """A size is that of one scratchpad; `-given` after the objective asks for the network's own order."""
    order = Order.GIVEN if objective.endswith("-given") else None
    wanted = Objective(objective.removesuffix("-given"))
    is_size = machine.startswith("m_") or machine[0].isdigit()
    target = Target.of_text(machine, None, None) if is_size else Target.of_text(None, machine, None)
    reading, method = (Reading(count=Count.ALL), "timed") if wanted is Objective.LATENCY else (Reading(), "exact")
    request = Request(source, reading, target, wanted, order, method, limits=limits)
    return plan_network(request, recorder.start).result


def _map(source: str, machine: str, objective: str, limits: Limits, recorder: Recorder) -> SearchResult[object]:
    request = MappingRequest(
        source,
        machine,
        MappingObjective(objective),
        MapOptions(uses_cache=False),
        reading=Reading(bits=8),
        limits=limits,
    )
    (layer,) = map_layers(request, recorder.start).mapped
    return layer.result


def _fuse(source: str, machine: str, objective: str, limits: Limits, recorder: Recorder) -> SearchResult[object]:
    request = FusionRequest(
        source,
        machine,
        FusionObjective(objective),
        FusionOptions(uses_cache=False),
        reading=Reading(bits=8),
        limits=limits,
    )
    return fuse_network(request, recorder.start).result


def _schedule(source: str, machine: str, objective: str, limits: Limits, recorder: Recorder) -> SearchResult[object]:
    request = ScheduleRequest(
        source,
        machine,
        ScheduleObjective(objective),
        ScheduleOptions(uses_cache=False),
        reading=Reading(bits=8),
        limits=limits,
    )
    return schedule_network(request, recorder.start).result


SOLVERS: Final = {"plan": _plan, "map": _map, "fuse": _fuse, "schedule": _schedule}


def worse(earlier: Row, later: Row) -> Iterator[str]:
    """Yield a line for each value or bound of the later row that is more than 1 % worse."""
    for mark, before in earlier.values.items():
        if mark not in later.values or not isinstance(before, list):
            continue
        (value, bound), (own_value, own_bound) = before, later.values[mark]
        if value is not None and (own_value is None or own_value > value * (1 + WORSE)):
            yield f"{earlier.name}: after {mark} s the value is {own_value}, and was {value}"
        if own_bound < bound * (1 - WORSE):
            yield f"{earlier.name}: after {mark} s the lower bound is {own_bound}, and was {bound}"


def _in_a_process(question: str, seconds: float) -> Row:
    """Answer a question in a separate process, so that a failure does not end other questions."""
    with tempfile.TemporaryDirectory() as cache:
        command = (sys.executable, "-m", "frozen.anytime", "ask", question, "--seconds", str(seconds))
        ended = run(command, environment={"XDG_CACHE_HOME": cache})
    if ended.code:
        return Row(question, _command(question), {"status": f"broken: {ended.errors.strip().splitlines()[-1:]}"})
    return Row(**ended.answer)


def main() -> int:
    """Run the questions, or compare two runs."""
    parser = ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    asking = verbs.add_parser("ask")
    asking.add_argument("question")
    running = verbs.add_parser("run")
    running.add_argument("results", type=Path)
    running.add_argument("--only", nargs="+", default=QUESTIONS)
    for one in (asking, running):
        one.add_argument("--seconds", type=float, default=SECONDS)
    comparing = verbs.add_parser("compare")
    comparing.add_argument("files", nargs=2, type=Path)
    given = parser.parse_args()
    if given.verb == "ask":
        print(json.dumps(asdict(asked(given.question, given.seconds))))
        return 0
    if given.verb == "run":
        rows = read_rows(given.results) if given.results.exists() else []
        for question in [one for one in given.only if one not in {row.name for row in rows}]:
            rows.append(_in_a_process(question, given.seconds))
            print(rows[-1], flush=True)
            write_results(given.results, [asdict(row) for row in rows])
        return 0
    earlier, later = ({row.name: row for row in read_rows(path)} for path in given.files)
    lines = [line for name, row in earlier.items() if name in later for line in worse(row, later[name])]
    print("\n".join(lines) or "nothing is more than 1 % worse")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
