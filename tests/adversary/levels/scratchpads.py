"""`onchip plan` with one to three scratchpads: every objective, order, placement and method that plans for several."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any, Final

from adversary.frame import Ended, Facts, Program, Verdict
from oracles.instructions import Programs, TooManyStatesError
from oracles.machine import Json, Machine, Net
from oracles.replay import IllegalError, Replayed, replayed

HOLDS = (["input", "weight"], ["output"], ["input", "output"], ["input"], ["output", "weight"], ["weight"])
OBJECTIVES = ("traffic", "traffic", "dma-cycles", "dma-energy", "dma-energy", "peak")
LARGEST_ROOM = 14


def new_case(chance: random.Random) -> Facts:
    """Return a graph that just fits into its scratchpads; rarely, it does not fit."""
    count = chance.choice(("activations", "activations", "all"))
    objective = chance.choice(OBJECTIVES)
    graph = new_graph(chance, count)
    accelerator = new_accelerator(chance, objective)
    net = Net.of_graph(graph, count)
    fit(chance, accelerator, net)
    return {
        "graph": graph,
        "accelerator": accelerator,
        "objective": objective,
        "count": count,
        "order": chance.choice(("free", "free", "given", "given", "min-peak")),
        "placement": chance.choice(("dynamic", "dynamic", "static")),
        "method": chance.choice(("exact",) * 24 + ("pinning", "naive", "onsram", "belady", "greedy")),
        "also": chance.choice(("nothing", "nothing", "check", "limit", "rename", "roomier", *("mutate",) * 4)),
        "luck": chance.randint(0, 999),
    }


def new_graph(chance: random.Random, count: str) -> Json:
    """Return one to five operators with repeated reads, several outputs, outputs with readers, and unused inputs."""
    greatest = chance.choice((1, 2, 2, 3, 3))
    parameters = [f"w{i}" for i in range(chance.randint(0, 2) if count == "all" else 0)]
    made = [f"x{i}" for i in range(chance.randint(1, 2))]
    tensors = [{"name": name, "bytes": chance.randint(1, greatest), "role": "input"} for name in made]
    tensors += [{"name": name, "bytes": chance.randint(1, greatest), "role": "parameter"} for name in parameters]
    operators: list[Json] = []
    for index in range(chance.choice((1, 2, 3, 3, 4, 4, 5))):
        inputs = [chance.choice(made) for _ in range(chance.choice((0, 1, 1, 1, 2, 2, 3)))]
        weights = sorted({chance.choice(parameters) for _ in parameters[: chance.randint(0, 2)]})
        outputs = [f"t{index}{letter}" for letter in "ab"[: chance.choice((1, 1, 1, 1, 2))]]
        operators.append(
            {"name": f"o{index}", "kind": "Op", "inputs": inputs, "parameters": weights, "outputs": outputs}
        )
        tensors += [{"name": name, "bytes": chance.randint(1, greatest), "role": "activation"} for name in outputs]
        made += outputs
    read = {name for one in operators for name in one["inputs"]}
    for tensor in tensors:
        is_output = chance.random() < (0.2 if tensor["name"] in read else 0.75)
        if tensor["role"] == "activation" and is_output:
            tensor["role"] = "output"
    return {"format": "onchip-graph", "version": 1, "name": "odd", "tensors": tensors, "operators": operators}


def new_accelerator(chance: random.Random, objective: str) -> Json:
    """Return one to three scratchpads of one byte with distinct operands, costs and alignments, and random links."""
    names = ["a", "b", "c"][: chance.choice((1, 2, 2, 2, 2, 3, 3))]
    holds_all = chance.random() < 0.4
    memories = []
    for name in names:
        memory: Json = {"name": name, "capacity": 1, "scratchpad": True, "alignment": chance.choice((1, 1, 1, 1, 2, 3))}
        if not holds_all and chance.random() < 0.7:
            memory["holds"] = list(chance.choice(HOLDS))
        memories.append(memory | _costs(chance, objective))
    if chance.random() < 0.97:
        _hold_everything(chance, memories)
    accelerator: Json = {"format": "onchip-accelerator", "version": 1, "name": "odd", "memories": memories}
    pairs = [(source, target) for source in names for target in names if source != target]
    links: list[Json] = [{"source": s, "target": t} for s, t in pairs if chance.random() < 0.45]
    if links and chance.random() < 0.7:
        accelerator["links"] = links
        if objective == "dma-cycles":
            for link in links:
                link["bits_per_cycle"] = chance.choice((1, 3, 8, 16))
    accelerator["dram"] = _costs(chance, objective)
    if objective == "dma-cycles":
        accelerator["dma"] = {"queues": 1, "setup_cycles": chance.choice((0, 0, 1, 5))}
    return accelerator


def _hold_everything(chance: random.Random, memories: list[Json]) -> None:
    """Let a scratchpad hold each operand that no scratchpad holds yet."""
    for operand in ("input", "weight", "output"):
        if all("holds" in memory and operand not in memory["holds"] for memory in memories):
            chance.choice(memories)["holds"].append(operand)


def _costs(chance: random.Random, objective: str) -> Json:
    if objective == "dma-cycles":
        return {"ports": [{"direction": "read_write", "bits_per_cycle": chance.choice((1, 2, 3, 8, 16))}]}
    if objective == "dma-energy":
        energies = {key: chance.choice((0, 1, 1, 2, 5, 30)) for key in ("read_energy_pj", "write_energy_pj")}
        return {"access_bits": chance.choice((8, 8, 16)), "shortest_access_bits": 8, **energies}
    return {}


def fit(chance: random.Random, accelerator: Json, net: Net) -> None:
    """Grow the scratchpads byte by byte until every operator fits, then by up to three more bytes."""
    memories = accelerator["memories"]
    while not all_fit(Machine.of_accelerator(accelerator, net, "traffic"), net):
        if sum(memory["capacity"] for memory in memories) >= LARGEST_ROOM:
            return
        chance.choice(memories)["capacity"] += 1
    for _ in range(chance.choice((0, 0, 0, 1, 1, 2))):
        chance.choice(memories)["capacity"] += 1
    if chance.random() < 0.05:
        memory = chance.choice(memories)
        memory["capacity"] = max(1, memory["capacity"] - 1)


def all_fit(machine: Machine, net: Net) -> bool:
    """Return True if the operands of each operator fit together, in some choice of scratchpads."""
    return all(_fits(machine, net, number) for number in range(len(net.steps)))


def _fits(machine: Machine, net: Net, number: int) -> bool:
    step = net.steps[number]
    operands = [(t, net.operand(t)) for t in step.reads] + [(t, "output") for t in step.writes]
    choices = [[p for p, pad in enumerate(machine.pads) if operand in pad.holds] for _, operand in operands]
    for pads in product(*choices):
        if all(
            _stacks([net.sizes[t] for (t, _), where in zip(operands, pads, strict=True) if where == p], machine, p)
            for p in range(len(machine.pads))
        ):
            return True
    return False


def _stacks(sizes: list[int], machine: Machine, pad: int) -> bool:
    """Return True if aligned blocks of these sizes fit on top of each other, the one with most padding on top."""
    one = machine.pads[pad]
    aligned = [-(-size // one.alignment) * one.alignment for size in sizes]
    waste = max((whole - size for whole, size in zip(aligned, sizes, strict=True)), default=0)
    return sum(aligned) - waste <= one.capacity


BASELINES_OF_SEVERAL = ("pinning", "naive", "onsram")
OF_STATIC = ("exact", "naive", "onsram")


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
                facts["method"] = BASELINES_OF_SEVERAL[facts["luck"] % len(BASELINES_OF_SEVERAL)]
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
    """Return True if the peak is minimal, or if an alignment or a time limit rules out the check."""
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
    """Return a fault if other names change the value, or a larger scratchpad raises it."""
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
