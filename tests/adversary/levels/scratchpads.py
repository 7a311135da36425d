"""`onchip plan` with one to three scratchpads: every objective, order, placement and method that plans for several."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Final

from adversary.frame import Ended, Facts, Program, Verdict
from adversary.levels.scratchpads_cases import all_fit, new_case
from oracles.instructions import Programs, TooManyStatesError
from oracles.machine import Machine, Net
from oracles.replay import IllegalError, Replayed, replayed

BASELINES_OF_SEVERAL = ("pinning", "naive", "onsram", "colouring")
OF_STATIC = ("exact", "naive", "onsram", "colouring")


@dataclass(frozen=True, slots=True)
class Case:
    """The facts, as the oracles read them."""

    facts: Facts
    net: Net
    machine: Machine

    @classmethod
    def of(cls, facts: Facts) -> Case:
        """Read the facts."""
        net = Net.of_graph(facts["graph"], facts["count"])
        return cls(facts, net, Machine.of_accelerator(facts["accelerator"], net, facts["objective"]))

    def least(self, order: tuple[int, ...] | None, below: int | None = None) -> int | None:
        """Return the true optimum, if it is below; raises TooManyStatesError."""
        is_static, is_peak = self.facts["placement"] == "static", self.facts["objective"] == "peak"
        return Programs(self.net, self.machine, order, is_static=is_static, is_peak=is_peak).least(below)

    def replayed(self, plan: dict[str, Any]) -> Replayed:
        """Replay a plan; raises IllegalError."""
        options = {key: self.facts[key] for key in ("objective", "order", "placement")}
        return replayed(plan, self.net, self.machine, **options)


@dataclass(frozen=True, slots=True)
class ScratchpadsLevel:
    """Tiny networks with scratchpads just large enough for each operator, or a little larger."""

    name: str = "scratchpads"
    weight: float = 1.0

    def generate(self, chance: random.Random) -> Facts:
        """Make a case, with options that its method supports."""
        facts = new_case(chance)
        if facts["method"] != "exact":
            facts["order"] = "given" if facts["order"] == "free" else facts["order"]
            facts["objective"] = facts["objective"].replace("peak", "traffic")
            if facts["method"] not in OF_STATIC:
                facts["placement"] = "dynamic"
            if facts["method"] not in BASELINES_OF_SEVERAL and len(facts["accelerator"]["memories"]) > 1:
                facts["method"] = BASELINES_OF_SEVERAL[facts["luck"] % 4]
            if facts["method"] == "pinning":
                facts["placement"] = "dynamic"
        return facts

    def judge(self, facts: Facts, program: Program) -> Verdict:
        """Hold the answer against all programs of instructions, and the plan against a replay."""
        case = Case.of(facts)
        limit = ["--time-limit", 0.05] if facts["also"] == "limit" else []
        ended = ask(program, facts, *limit)
        if ended.code == 2:
            return Verdict(refused=True)
        try:
            return _judged(case, ended, program)
        except TooManyStatesError:
            return Verdict()

    def smaller(self, facts: Facts) -> Iterator[Facts]:
        """Yield the case without one operator and its outputs, without one memory, and without a second question."""
        yield {**facts, "also": "nothing"}
        graph = facts["graph"]
        for operator in graph["operators"]:
            gone = set(operator["outputs"])
            kept = [
                {**one, "inputs": [name for name in one["inputs"] if name not in gone]}
                for one in graph["operators"]
                if one is not operator
            ]
            tensors = [one for one in graph["tensors"] if one["name"] not in gone]
            yield {**facts, "graph": {**graph, "tensors": tensors, "operators": kept}}
        for tensor in graph["tensors"]:
            name = tensor["name"]
            used = (one.get(key, []) for one in graph["operators"] for key in ("inputs", "parameters", "outputs"))
            if not any(name in names for names in used):
                tensors = [one for one in graph["tensors"] if one is not tensor]
                yield {**facts, "graph": {**graph, "tensors": tensors}}


def ask(program: Program, facts: Facts, *more: object) -> Ended:
    """Run `plan`; the plan goes to `plan.json`."""
    graph = program.write("graph.json", facts["graph"])
    accelerator = program.write("machine.yaml", facts["accelerator"])
    options = [f"--{key}={facts[key]}" for key in ("objective", "order", "placement", "method", "count")]
    plan = program.folder / "plan.json"
    plan.unlink(missing_ok=True)
    return program.ask("plan", graph, "--accelerator", accelerator, *options, "-o", plan, "--json", *more)


def _judged(case: Case, ended: Ended, program: Program) -> Verdict:
    facts, answer = case.facts, ended.answer
    if ended.code == 3:
        return _judged_infeasible(case)
    if ended.code == 4 and (facts["also"] == "limit" or facts["method"] == "pinning"):
        return Verdict()
    if ended.code == 4 and facts["objective"] == "peak":
        return Verdict(1, "unproven: neither a plan nor its absence")
    if ended.code != 0:
        return Verdict(1, f"ends without an answer: {ended.code} {ended.err[-300:]}")
    plan = json.loads((program.folder / "plan.json").read_text())
    try:
        state = case.replayed(plan)
    except IllegalError as error:
        return Verdict(1, f"illegal plan: {error}")
    if state.value != answer["objective_value"]:
        return Verdict(1, f"wrong value: {answer['objective_value']} for {state.value}")
    order = _order_asked_for(case, state)
    if order is not None and facts["order"] == "min-peak" and not _is_least_peak(case, order):
        return Verdict(1, f"no order of least peak: {order}")
    fault = _fault_of_claim(case, answer, order) or _fault_besides(case, answer, plan, program)
    return Verdict(1, fault)


def _judged_infeasible(case: Case) -> Verdict:
    """Judge an infeasible answer: an operator does not fit or, for the minimum peak, no plan avoids spills."""
    if case.facts["objective"] != "peak" and not all_fit(case.machine, case.net):
        return Verdict(1)
    order = tuple(range(len(case.net.steps))) if case.facts["order"] == "given" else None
    if case.facts["order"] == "min-peak" and case.facts["objective"] == "peak":
        return Verdict()
    least = case.least(order)
    return Verdict(1, None if least is None else f"false infeasibility: {least} is possible")


def _order_asked_for(case: Case, state: Replayed) -> tuple[int, ...] | None:
    return None if case.facts["order"] == "free" else tuple(state.order)


def _is_least_peak(case: Case, order: tuple[int, ...]) -> bool:
    """Return True if the peak is minimal; also if offsets are aligned or time was short, where it is not checked."""
    if case.facts["also"] == "limit" or any(pad.alignment > 1 for pad in case.machine.pads):
        return True
    numbers = range(len(case.net.steps))
    orders = (
        one
        for one in permutations(numbers)
        if all(case.net.may_run(step, sum(1 << s for s in one[:at])) for at, step in enumerate(one))
    )
    return _most_live(case.net, order) == min(_most_live(case.net, one) for one in orders)


def _most_live(net: Net, order: tuple[int, ...]) -> int:
    lives = []
    for tensor, size in enumerate(net.sizes):
        at = [s for s, o in enumerate(order) if tensor in (*net.steps[o].reads, *net.steps[o].writes)]
        lives += [(at[0], at[-1], size)] if at else []
    return max(sum(size for first, last, size in lives if first <= s <= last) for s in range(len(order)))


def _fault_of_claim(case: Case, answer: Facts, order: tuple[int, ...] | None) -> str | None:
    value, bound = answer["objective_value"], answer["lower_bound"]
    if bound > value:
        return f"bound above the value: {bound} above {value}"
    below = case.least(order, bound)
    if below is not None:
        return f"false {'proof' if answer['status'] == 'OPTIMAL' else 'bound'}: {bound} above {below}"
    if answer["status"] == "OPTIMAL":
        return None if bound == value else f"unfounded proof: {bound} below {value}"
    can_prove = case.facts["method"] == "exact" and case.facts["also"] != "limit"
    if can_prove and not answer["links"]:
        least = case.least(order, value)
        return f"unproven: {bound} to {value}, least {value if least is None else least}"
    return None


def _fault_besides(case: Case, answer: Facts, plan: Facts, program: Program) -> str | None:
    also = case.facts["also"]
    if also == "mutate":
        plan = _mutated(plan, random.Random(case.facts["luck"]))
    if also in ("check", "mutate"):
        return _fault_of_check(case, plan, program)
    if also in ("rename", "roomier") and case.facts["method"] == "exact" and case.facts["order"] != "min-peak":
        return _fault_of_kin(case.facts, answer, program)
    return None


def _fault_of_kin(facts: Facts, answer: Facts, program: Program) -> str | None:
    """Other names, or a roomier scratchpad of the same alignment."""
    kin = json.loads(json.dumps(facts))
    if facts["also"] == "rename":
        kin["graph"] = _renamed(facts["graph"])
    else:
        memory = kin["accelerator"]["memories"][facts["luck"] % len(kin["accelerator"]["memories"])]
        memory["capacity"] += memory["alignment"]
    other = ask(program, kin).answer
    if answer["status"] != "OPTIMAL" or other.get("status") != "OPTIMAL":
        return None
    values = (answer["objective_value"], other["objective_value"])
    is_right = values[0] == values[1] if facts["also"] == "rename" else values[1] <= values[0]
    return None if is_right else f"kin differ: {facts['also']} makes {values[0]} {values[1]}"


def _renamed(graph: Facts) -> Facts:
    """Return the graph with other names, and tensors in reverse order."""
    tensors = [{**one, "name": f"n{one['name']}"} for one in reversed(graph["tensors"])]
    operators = [
        {**one, "name": f"z{one['name']}"}
        | {key: [f"n{name}" for name in reversed(one[key])] for key in ("inputs", "parameters", "outputs")}
        for one in graph["operators"]
    ]
    return {**graph, "tensors": tensors, "operators": operators}


FITTING: Final = {"offset": ("allocate",), "beside": ("allocate",), "memory": ("allocate", "copy", "free")}
"""Instructions to which a change applies, for changes that do not apply to all."""


def _mutated(plan: Facts, chance: random.Random) -> Facts:
    """Return the program with one instruction dropped, repeated, swapped or changed, or with an extra Allocate."""
    program = json.loads(json.dumps(plan["instructions"]))
    change = chance.choice(("drop", "twice", "swap", "offset", "memory", "beside", "beside"))
    fitting = [at for at, one in enumerate(program) if set(one) & set(FITTING.get(change, one))]
    at, other = chance.choice(fitting), chance.randrange(len(program))
    ((kind, fields),) = program[at].items()
    names = [memory["name"] for memory in plan["memories"]]
    if change == "drop" and len(program) > 1:
        del program[at]
    elif change == "twice":
        program.insert(other, program[at])
    elif change == "beside":
        place = {"memory": chance.choice(names), "offset_bytes": chance.randint(0, 3)}
        program.insert(at, {"allocate": {**fields, **place}})
    elif change == "offset":
        fields["offset_bytes"] = max(0, fields["offset_bytes"] + chance.choice((-1, 1)))
    elif change == "memory":
        key = chance.choice(("source", "target")) if kind == "copy" else "memory"
        fields[key] = chance.choice([*names, "dram"] if kind == "copy" else names)
    else:
        program[at], program[other] = program[other], program[at]
    return {**plan, "instructions": program}


def _fault_of_check(case: Case, plan: Facts, program: Program) -> str | None:
    path = program.write("checked.json", plan)
    ended = program.ask("check", path, program.folder / "graph.json", "--json")
    try:
        why = "" if case.replayed(plan).value == plan["result"]["objective_value"] else "another value"
    except IllegalError as error:
        why = str(error)
    if "order" not in plan.get("reading", {}) and why in ("not the given order", "not static"):
        return None
    if ended.code == (1 if why else 0):
        return None
    return f"check is wrong: ends with {ended.code} where a replay says {why or 'legal'}: {ended.out[-400:]}{ended.err}"
