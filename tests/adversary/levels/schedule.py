"""`onchip schedule`: the whole answer, against every schedule of tiny networks; figures counted again by execution."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Final
from unittest.mock import patch

from adversary.frame import Ended, Facts, Program, Verdict
from adversary.fusing import random_scheduling_machine, random_scheduling_network, schedule_graph_file
from onchip.answer.layer_problem import leaves_something_out
from onchip.answer.schedule import Schedule
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml
from onchip.formats.own.graph_json import graph_from_json
from onchip.formats.own.schedule_json import read_schedule
from onchip.ops.layers_of import Precision
from onchip.reports.shared.output import ProgressLine
from onchip.search.budget.limits import Progress
from oracles.mapspace_members import has_uneven_tiles
from oracles.packing import TooLargeError
from oracles.schedule import Least, LeastSchedule
from oracles.schedule_costs import Toy
from oracles.schedule_programs import recounted, schedule_of

OBJECTIVES: Final = ("energy", "energy", "energy", "traffic", "traffic", "latency", "edp")
COUNTED: Final = ("energy", "traffic")
"""Objectives that add up over instructions, so that the oracle knows their least value."""
LAYERS: Final = ("--groups", "layers")


@dataclass(frozen=True, slots=True)
class ScheduleLevel:
    """Networks of two to five operators over a few elements, on machines whose memories are a few bytes."""

    name: str = "schedule"
    weight: float = 3.0

    def generate(self, chance: random.Random) -> Facts:
        """Return a question for layers alone, which the oracle can answer, and one or two related questions."""
        return {
            **random_scheduling_network(chance),
            "machine": random_scheduling_machine(chance),
            "objective": chance.choice(OBJECTIVES),
            "partial_bits": chance.choice((None, None, 8, 24)),
            "also": chance.sample(list(_QUESTIONS), chance.choice((1, 2))),
        }

    def judge(self, facts: Facts, program: Program) -> Verdict:
        """Compare the claims with the oracle, and with the claims of equivalent or related questions."""
        case = ScheduleCase(facts, program)
        ended, schedule = case.ask(*LAYERS)
        if ended.code == 2:
            return Verdict(refused=True)
        fault = case.wrong_layers(ended, schedule)
        proofs, above = int(case.is_known), case.above(ended)
        for question in facts["also"]:
            if fault is None:
                fault = _QUESTIONS[question](case, ended)
                proofs += 1
        return Verdict(proofs, fault, above=above)

    def smaller(self, facts: Facts) -> Iterator[Facts]:
        """Yield the case without a question, its last layer, or a memory."""
        for at in range(len(facts["also"])):
            yield {**facts, "also": [*facts["also"][:at], *facts["also"][at + 1 :]]}
        if len(facts["layers"]) > 1:
            yield {**{key: one for key, one in facts.items() if key != "joined"}, "layers": facts["layers"][:-1]}
        memories = facts["machine"]["memories"]
        for at in range(len(memories) - 1):
            yield {**facts, "machine": {**facts["machine"], "memories": [*memories[:at], *memories[at + 1 :]]}}


@dataclass(slots=True)
class ScheduleCase:
    """A case, with the oracle's results."""

    facts: Facts
    program: Program
    _toy: Toy | None = None
    _least: dict[tuple[str, bool], Least | None] = field(default_factory=dict)
    _told: list[int] = field(default_factory=list)
    """Values that the last search told of on its way."""

    @property
    def objective(self) -> str:
        """Return the objective of the case."""
        return str(self.facts["objective"])

    @property
    def toy(self) -> Toy:
        """Return the network and the machine in the oracle's form."""
        if self._toy is None:
            accelerator = accelerator_from_yaml(json.dumps(self.facts["machine"]), "machine.yaml")
            network = graph_from_json(json.dumps(schedule_graph_file(self.facts)).encode(), "graph.json")
            self._toy = Toy(network, accelerator, Precision(8, self.facts["partial_bits"]).on(accelerator))
        return self._toy

    def ask(self, *more: object, facts: Facts | None = None) -> tuple[Ended, Schedule | None]:
        """Return the end of the command and the schedule that it wrote."""
        facts = facts or self.facts
        graph = self.program.write("graph.json", schedule_graph_file(facts))
        machine = self.program.write("machine.yaml", facts["machine"])
        path = self.program.folder / "schedule.json"
        path.unlink(missing_ok=True)
        partial = () if facts["partial_bits"] is None else ("--partial-bits", facts["partial_bits"])
        options = ("--objective", facts["objective"], "--bits", 8, "--no-cache", "--json", "-o", path)
        self._told.clear()
        with patch.object(ProgressLine, "hear", lambda _, progress: self._hear(progress)):
            ended = self.program.ask("schedule", graph, "--accelerator", machine, *options, *partial, *more)
        return ended, read_schedule(path).answer if path.exists() else None

    def _hear(self, progress: Progress) -> None:
        if progress.best is not None:
            self._told.append(progress.best)

    def least(self, objective: str, *, may_stay: bool = True) -> Least | None:
        """Return the cheapest layer-by-layer schedule; None if there are too many.

        For latency, computing cycles are minimal.
        """
        key = objective, may_stay
        if key not in self._least:
            try:
                added_up = "cycles" if objective == "latency" else objective
                self._least[key] = LeastSchedule(self.toy, added_up, may_stay=may_stay).least()
            except TooLargeError:
                self._least[key] = None
        return self._least[key]

    @property
    def is_known(self) -> bool:
        """Return True if the oracle has a schedule to compare the answer with."""
        return self._a_schedule() is not None

    def above(self, ended: Ended) -> tuple[float, ...]:
        """Return the share by which the answer exceeds the minimum."""
        least, value = self.least(self.objective) if self.objective in COUNTED else None, _value(ended)
        if least is None or value is None or not 0 < least.cost < inf:
            return ()
        return (value / least.cost - 1,)

    def wrong_layers(self, ended: Ended, schedule: Schedule | None) -> str | None:
        """Return a fault of the layer-by-layer answer, or None."""
        if fault := self.wrong_claims(ended):
            return fault
        if schedule is not None and (fault := self._wrong_figures(ended, schedule)):
            return fault
        least = self.least(self.objective) if self.objective in COUNTED else self._a_schedule()
        if least is None:
            return None
        value = _value(ended)
        if value is None:
            return f"finds no schedule: there is one for {least.cost}" if isfinite(least.cost) else None
        if not isfinite(least.cost):
            return f"impossible: {value}, but nothing fits"
        is_below = self.objective in COUNTED and value < least.cost
        if is_below and (schedule is None or not has_uneven_tiles(self.toy.accelerator, schedule)):
            return f"impossible value: {value} below {least.cost}"
        return None

    def wrong_claims(self, ended: Ended) -> str | None:
        """Return a fault if an answer contradicts itself, or a schedule that the oracle knows."""
        if ended.code not in (0, 3, 4):
            return f"ends with {int(ended.code)}: {ended.err[-300:]}"
        answer, value = ended.answer, _value(ended)
        bound, status = answer.get("lower_bound"), answer.get("status")
        if bound is not None and value is not None and (bound > value or (status == "OPTIMAL") != (bound == value)):
            return f"contradiction: {status} {value} with bound {bound}"
        if value is not None and self._told and value > min(self._told):
            return f"worse than told on the way: {value} after {min(self._told)}"
        known = self._a_schedule()
        if known is None or not isfinite(known.cost):
            return None
        if ended.code == 3:
            return f"false infeasible: {known.cost} can be had"
        figures = recounted(self.toy, schedule_of(self.toy, known))
        attained = {
            "energy": figures.energy_fj,
            "traffic": figures.traffic_bytes,
            "latency": figures.latency_cycles,
            "edp": figures.energy_fj * figures.latency_cycles,
        }[self.objective]
        slack = {"energy": figures.computes, "edp": figures.computes * figures.latency_cycles}.get(self.objective, 0)
        is_false = bound is not None and bound > attained + slack
        return f"false bound: {bound} above {attained}" if is_false else None

    def _a_schedule(self) -> Least | None:
        """Return the cheapest schedule by the objective, or by another one that the oracle can add up."""
        return self.least("energy" if self.objective == "edp" else self.objective)

    def _wrong_figures(self, ended: Ended, schedule: Schedule) -> str | None:
        """Return a fault unless the figures match an element-by-element execution.

        Energies are rounded at each Compute.
        """
        counted, answer = recounted(self.toy, schedule), ended.answer
        claimed = (round(answer["energy_pj"] * 1000), answer["traffic"]["total"], answer["latency_cycles"])
        found = (counted.energy_fj, counted.traffic_bytes, counted.latency_cycles)
        is_same = abs(claimed[0] - found[0]) <= counted.computes and claimed[1:] == found[1:]
        return None if is_same else f"false figures: claims fJ, bytes, cycles {claimed}, they are {found}"


def _value(ended: Ended) -> int | None:
    return ended.answer.get("objective_value")


# Equivalent and related questions


def _in_tiles(case: ScheduleCase, layers: Ended) -> str | None:
    """Return a fault if tiled stacks are worse than layers alone, or the bound fails for either."""
    ended, _ = case.ask()
    fault = case.wrong_claims(ended)
    values = _value(ended), _value(layers)
    is_worse = values[1] is not None and (values[0] is None or values[0] > values[1])
    return fault or (f"stacks make it worse: {values}" if is_worse else None)


def _given_tiles(case: ScheduleCase, layers: Ended) -> str | None:
    """Check that given stacks, tiles and modes lead to legal schedules, with the bound of all schedules."""
    options = [
        ("--groups", "one"),
        ("--tile", "1x1"),
        ("--mode", "fully-cached"),
        ("--tile", "2x1", "--mode", "recompute"),
    ]
    for option in options:
        ended, _ = case.ask(*option)
        if ended.code == 2:
            continue
        if fault := case.wrong_claims(ended):
            return f"{fault} ({' '.join(option)})"
        bounds = ended.answer.get("lower_bound"), layers.answer.get("lower_bound")
        if None not in bounds and bounds[0] != bounds[1]:
            return f"the bound depends on what is given: {bounds} with {' '.join(option)}"
    return None


def _from_dram(case: ScheduleCase, layers: Ended) -> str | None:
    """Check that `--placements dram` finds the best streamed schedule, and none better than with maps on chip."""
    ended, streamed = case.ask(*LAYERS, "--placements", "dram")
    fault = case.wrong_claims(ended)
    value, free = _value(ended), _value(layers)
    if fault is None and value is not None and (free is None or free > value):
        return f"freedom of homes is worse: {free} where all is streamed {value}"
    least = case.least(case.objective, may_stay=False) if case.objective in COUNTED else None
    if fault is None and least is not None and case.objective == "energy":
        truth = least.cost if isfinite(least.cost) else None
        is_better = truth is not None and value is not None and value < truth
        if is_better and streamed is not None and has_uneven_tiles(case.toy.accelerator, streamed):
            return None
        return None if value == truth else f"streamed layers are not the best: {value} for {truth}"
    return fault


def _on_a_better_machine(case: ScheduleCase, layers: Ended) -> str | None:
    """Check that the bound does not rise with more capacity, or cheaper or faster DRAM.

    Machines with a memory that cannot hold an element are skipped: with more capacity it has to hold one.
    """
    nests = [nest for one in case.toy.operators for nest in one.nests]
    if any(leaves_something_out(case.toy.accelerator.levels, nest) for nest in nests):
        return None
    chance = random.Random(json.dumps(case.facts["machine"]))
    machine: Facts = deepcopy(case.facts["machine"])
    for memory in machine["memories"]:
        memory["capacity"] *= chance.choice((1, 1, 2, 3))
    for key in ("read_energy_pj", "write_energy_pj"):
        machine["dram"][key] *= chance.choice((0, 0.5, 1))
    for port in machine["dram"].get("ports", ()):
        port["bits_per_cycle"] *= chance.choice((1, 2))
    partial = max((nest.partial_bits for nest in nests), default=8)
    ended, _ = case.ask(*LAYERS, facts={**case.facts, "machine": machine, "partial_bits": partial})
    if ended.code not in (0, 4):
        return f"a better machine ends with {int(ended.code)}: {ended.err[-300:]}"
    bound, before = ended.answer["lower_bound"], layers.answer["lower_bound"]
    return f"a better machine's bound is higher: {bound} after {before}" if bound > before else None


def _with_little_time(case: ScheduleCase, layers: Ended) -> str | None:
    """Check the claims of a run with a tiny time limit, which need not find a schedule."""
    ended, _ = case.ask("--time-limit", "0.02")
    fault = case.wrong_claims(ended)
    bounds = ended.answer.get("lower_bound"), layers.answer.get("lower_bound")
    return fault or (f"in no time the bound is another: {bounds}" if bounds[0] != bounds[1] else None)


def _renamed(case: ScheduleCase, layers: Ended) -> str | None:
    """Return a fault if other names of tensors, operators and memories change the claims."""
    names = [f"{chr(ord('z') - at)}{at}" for at in range(len(case.facts["layers"]) + 1)]
    machine: Facts = deepcopy(case.facts["machine"])
    for at, memory in enumerate(machine["memories"]):
        memory["name"] = f"{'zya'[at % 3]}{at}"
    ended, _ = case.ask(*LAYERS, facts={**case.facts, "names": names, "machine": machine})
    keys = ("status", "objective_value", "lower_bound")
    found = [[one.answer.get(key) for key in keys] for one in (layers, ended)]
    return None if found[0] == found[1] else f"names matter: {found}"


def _checked(case: ScheduleCase, layers: Ended) -> str | None:
    """Check that `onchip check` accepts the written file, and no other."""
    del layers
    ended, schedule = case.ask()
    if schedule is None:
        return None
    path, graph = case.program.folder / "schedule.json", case.program.folder / "graph.json"
    checked = case.program.ask("check", path, graph, "--json")
    if checked.code != 0:
        return f"check disagrees: {int(checked.code)} {checked.out[-300:]}{checked.err[-300:]}"
    fields = json.loads(path.read_text())
    fields["result"]["objective_value"] -= 1
    lying = case.program.write("lying.json", fields)
    code = case.program.ask("check", lying, graph, "--json").code
    return None if code == 1 else f"check believes a lie: {int(code)} for {_value(ended)} less one"


_QUESTIONS: Final = {
    "in tiles": _in_tiles,
    "given tiles": _given_tiles,
    "from dram": _from_dram,
    "better machine": _on_a_better_machine,
    "little time": _with_little_time,
    "renamed": _renamed,
    "checked": _checked,
}
