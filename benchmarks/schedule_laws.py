"""Laws that every schedule has to obey, on random networks, on tiny ones with a known optimum, and on real networks.

    PYTHONPATH=benchmarks:tests python benchmarks/schedule_laws.py SECTION... [--only NAME ...] [--count N]
                                  [--seconds 10] [--rows ROWS.jsonl]

`small`: random networks of 2 to 8 operators on random machines. No answer moves more than a plan on the same machine,
and none is worse in its objective than the answer for another objective. `tiny`: 2 to 5 operators, against all
schedules but those with a mapping that cuts a loop short inside the array; seeds that are too large are left out.
`laws`: 12 networks on 4 machines, for energy, traffic and latency, and layer by layer; here answers may differ by 1 %.
`fuse`: 6 networks on 2 machines; the answer for energy is at most 5 % above that of `fuse`.
Seconds are of the processor, for each answer.

Each row is kept in ROWS.jsonl as soon as it is known, and not measured again: an interrupted run goes on. The table
shows every row that breaks a law, and the command ends with 1 if there is one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from typing import Final

from shared.runner import count_processor_seconds, lines_of

from onchip.answer.document import Reading
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import LAYERS, FusionOptions, ScheduleOptions
from onchip.answer.problem import Count, Objective, Order
from onchip.answer.result import Status
from onchip.api.fuse import FusionRequest, fuse_network
from onchip.api.plan import Request, plan_network
from onchip.api.schedule import ScheduleRequest, schedule_network
from onchip.api.target import Target
from onchip.ops.layers_of import Precision
from onchip.search.budget.limits import Limits

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from light_model import light_models

from oracles.every_schedule import EverySchedule
from oracles.packing import TooLargeError
from support.random_schedules import Case, small_case, tiny_case

OBJECTIVES: Final = (ScheduleObjective.ENERGY, ScheduleObjective.TRAFFIC, ScheduleObjective.LATENCY)
NETWORKS: Final = (
    "lenet5", "squeezenet", "mobilenetv1", "shufflenet", "inception_v1", "resnet18", "resnet50", "densenet121",
    "lraspp_mobilenet_v3_large", "fsrcnn", "transformer", "vit_b_16",
)  # fmt: skip
MACHINES: Final = ("simba", "meta-prototype-df", "tpu-like", "eyeriss-like")
FUSED: Final = ("lenet5", "squeezenet", "mobilenetv1", "shufflenet", "resnet50", "fsrcnn-defines")
ABOVE_FUSE: Final = 1.05
"""How many times the energy of the strategy of `fuse` a schedule may need: `fuse` counts bytes, and no addresses."""
TOLERANCE: Final = 0.01
"""How much worse an answer for a real network may be, as a share: its search does not end within the limit."""
FAR: Final = 1.1
"""How many times the optimum no answer for a tiny network may exceed."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The figures of one schedule: energy in fJ, traffic in bytes, latency in cycles."""

    status: str
    lower_bound: int
    energy: int
    traffic: int
    latency: int
    seconds: float


def answer(
    source: str, machine: str, objective: ScheduleObjective, seconds: float, stacks: str = "optimal"
) -> Answer | None:
    """Search for one schedule; return None if there is none."""
    options = ScheduleOptions(stacks) if stacks != "optimal" else ScheduleOptions()
    request = ScheduleRequest(
        source, machine, objective, replace(options, uses_cache=False), reading=Reading(bits=8), limits=Limits(seconds)
    )
    outcome = schedule_network(request)
    found = outcome.figures
    if found is None:
        return None
    return Answer(
        str(outcome.result.status),
        outcome.result.lower_bound,
        found.energy_fj or 0,
        found.traffic_bytes,
        found.latency_cycles,
        round(outcome.result.seconds, 3),
    )


def answers(source: str, machine: str, seconds: float) -> dict[str, object]:
    """Ask for the best schedule by each objective."""
    found = {str(one): answer(source, machine, one, seconds) for one in OBJECTIVES}
    return {name: None if one is None else asdict(one) for name, one in found.items()}


def written(case: Case, folder: Path) -> tuple[str, str]:
    """Write a random case's files; return their paths."""
    network, machine = folder / f"{case.name}.json", folder / f"{case.name}.yaml"
    network.write_text(case.network_text)
    machine.write_text(case.machine_text)
    return str(network), str(machine)


def small(name: str, seconds: float) -> dict[str, object]:
    """Measure a random network: a schedule by each objective, and the traffic of a plan of all tensors."""
    with tempfile.TemporaryDirectory() as folder:
        source, machine = written(small_case(int(name)), Path(folder))
        target, reading = Target(accelerator=machine), Reading(bits=8, count=Count.ALL)
        asked = Request(source, reading, target, Objective.TRAFFIC, Order.FREE, limits=Limits(seconds))
        plan = plan_network(asked)
        traffic = None if plan.figures is None else plan.figures.compulsory + plan.figures.non_compulsory
        return {**answers(source, machine, seconds), "plan": traffic}


def tiny(name: str, seconds: float) -> dict[str, object]:
    """Measure a tiny network, and find the least of all its schedules, None where these are too many."""
    case = tiny_case(int(name))
    every = EverySchedule(case.network, case.machine, Precision(8, None).on(case.machine))
    with tempfile.TemporaryDirectory() as folder:
        found = answers(*written(case, Path(folder)), seconds)
    for objective in OBJECTIVES:
        try:
            least = every.best(str(objective)).cost
        except TooLargeError:
            least = inf
        found[f"least {objective}"] = None if least == inf else round(least)
    return found


def laws(name: str, seconds: float) -> dict[str, object]:
    """Measure a real network on a machine: a schedule by each objective, in groups and layer by layer."""
    network, machine = name.split(" on ")
    source = str(light_models()[network]) if network in light_models() else network
    alone = {f"layers {one}": answer(source, machine, one, seconds, LAYERS) for one in OBJECTIVES}
    layers = {key: None if one is None else asdict(one) for key, one in alone.items()}
    return {**answers(source, machine, seconds), **layers}


def fuse(name: str, seconds: float) -> dict[str, object]:
    """Measure a real network on a machine: schedules, and the strategy of `fuse` with least energy."""
    network, machine = name.split(" on ")
    source = str(light_models()[network]) if network in light_models() else network
    found = fuse_network(
        FusionRequest(
            source, machine, options=FusionOptions(uses_cache=False), reading=Reading(bits=8), limits=Limits(seconds)
        )
    )
    return {**answers(source, machine, seconds), "fuse": found.result.objective_value}


def broken(section: str, row: Mapping[str, object]) -> Iterator[str]:
    """Yield in words each law that a row breaks."""
    tolerance = 1 + (TOLERANCE if section in ("laws", "fuse") else 0)
    for objective in map(str, OBJECTIVES):
        own = row[objective]
        if not isinstance(own, dict):
            continue
        value = own[objective]
        others = {name: one[objective] for name, one in row.items() if isinstance(one, dict) and name != objective}
        yield from (
            f"{objective} {value:,}; the answer for {name} has {other:,}"
            for name, other in others.items()
            if value > other * tolerance
        )
        least = row.get(f"least {objective}")
        if isinstance(least, int):
            if own["lower_bound"] > least:
                yield f"{objective}: bound {own['lower_bound']:,} above {least:,}, which a schedule has"
            if value > FAR * least:
                yield f"{objective} {value:,}; the least is {least:,}"
    fused, own = row.get("fuse"), row["energy"]
    value = own["energy"] if isinstance(own, dict) else inf
    if isinstance(fused, int) and value > ABOVE_FUSE * fused:
        yield f"energy {value:,}; fuse needs {fused:,}"
    plan, own = row.get("plan"), row["traffic"]
    if isinstance(plan, int) and not isinstance(own, dict):
        yield f"no answer for traffic; plan moves {plan:,}"
    elif isinstance(plan, int) and isinstance(own, dict) and own["traffic"] > plan and own["status"] != Status.OPTIMAL:
        yield f"traffic {own['traffic']:,}; plan moves {plan:,}"


SECTIONS: Final[Mapping[str, tuple[Callable[[str, float], dict[str, object]], tuple[str, ...]]]] = {
    "small": (small, tuple(map(str, range(500)))),
    "tiny": (tiny, tuple(map(str, range(300)))),
    "fuse": (fuse, tuple(f"{network} on {machine}" for network in FUSED for machine in MACHINES[:2])),
    "laws": (laws, tuple(f"{network} on {machine}" for network in NETWORKS for machine in MACHINES)),
}
"""The function that measures a row, and the names of all rows, by section."""


def kept(path: Path) -> dict[tuple[str, str], Mapping[str, object]]:
    """Return the rows of a file, by section and name."""
    return {(one["section"], one["name"]): one["row"] for one in lines_of(path)}


def summary(section: str, rows: Mapping[str, Mapping[str, object]]) -> str:
    """Return a line on the rows of a section: how many, how many at their optimum, and how many break a law."""
    wrong = sum(any(broken(section, row)) for row in rows.values())
    words = f"{section}: {len(rows)} rows, {wrong} break a law"
    known = [
        (own[objective], least)
        for row in rows.values()
        for objective in map(str, OBJECTIVES)
        if isinstance(own := row[objective], dict) and isinstance(least := row.get(f"least {objective}"), int)
    ]
    if known:
        over = [value / max(least, 1) for value, least in known]
        optimal = sum(value <= least for value, least in known)
        words += f"; {optimal} of {len(known)} answers at the optimum, at most {max(over):.3f} times it"
        words += f", {sum(value < least for value, least in known)} below what the oracle tries"
    gaps = [
        1 - own["lower_bound"] / own[objective]
        for row in rows.values()
        for objective in map(str, OBJECTIVES)
        if isinstance(own := row[objective], dict) and own[objective]
    ]
    return f"{words}; gap median {statistics.median(gaps):.1%}, greatest {max(gaps):.1%}" if gaps else words


def main() -> int:
    """Measure the rows that are not kept yet, and print those that break a law."""
    parser = argparse.ArgumentParser(prog="schedule_laws", description=__doc__)
    parser.add_argument("sections", nargs="+", choices=[*SECTIONS])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="measure these rows only")
    parser.add_argument("--count", type=int, help="measure so many rows of each section at most")
    parser.add_argument("--seconds", type=float, default=10.0, help="of the processor, for each answer")
    parser.add_argument("--rows", type=Path, default=Path("schedule_laws.jsonl"))
    asked = parser.parse_args()
    count_processor_seconds()
    is_right = True
    for section in asked.sections:
        measure, names = SECTIONS[section]
        names = tuple(name for name in names[: asked.count] if asked.only is None or name in asked.only)
        for name in names:
            if (section, name) in kept(asked.rows):
                continue
            row = measure(name, asked.seconds)
            with asked.rows.open("a") as file:
                file.write(json.dumps({"section": section, "name": name, "row": row}) + "\n")
            for words in broken(section, row):
                print(f"{section} {name}: {words}", flush=True)
        rows = {name: row for (own, name), row in kept(asked.rows).items() if own == section and name in names}
        print(summary(section, rows), flush=True)
        is_right &= not any(any(broken(section, row)) for row in rows.values())
    return int(not is_right)


if __name__ == "__main__":
    sys.exit(main())
