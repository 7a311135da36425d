"""`onchip plan` for one scratchpad: every method, order and objective, its files, its limits, its refusals."""

from __future__ import annotations

import copy
import json
import math
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from adversary.frame import Ended, Facts, Json, Program, Verdict
from oracles.machine import Machine, Net, Pad, Step
from oracles.one_scratchpad import Order, Question, bounds_of_traffic, packed_bytes
from oracles.replay import IllegalError, Replayed, replayed

Names: TypeAlias = dict[str, str]
BITS = (1, 3, 8, 8, 8, 16)
MOST_GAPS = 8


def network_facts(chance: random.Random) -> Facts:
    """Return `tensors` [elements, bits, role] and `operators` [inputs, parameters, outputs], by number.

    The networks have operators of one tensor, tensors read twice by one operator, several outputs, outputs with and
    without readers, and disconnected parts.
    """
    greatest = chance.choice((1, 2, 3, 5, 9, 13))
    tensors = [_tensor(chance, greatest, "input") for _ in range(chance.randint(1, 3))]
    inputs, parameters = list(range(len(tensors))), list[int]()
    if chance.random() < 0.4:
        parameters.append(len(tensors))
        tensors.append(_tensor(chance, greatest, "parameter"))
    readable, operators = inputs[:], []
    gaps = MOST_GAPS
    for _ in range(chance.randint(1, chance.choice((3, 4, 5, 5, 6)))):
        recent = readable[-chance.randint(1, 4) :] if chance.random() < 0.7 else readable
        reads = [chance.choice(recent) for _ in range(chance.choice((0, 1, 1, 2, 2, 2, 3)))]
        gaps -= len(set(reads))
        weights = parameters if chance.random() < 0.4 else []
        writes = list(range(len(tensors), len(tensors) + chance.choice((1, 1, 1, 1, 2, 3))))
        tensors += [_tensor(chance, greatest, "activation") for _ in writes]
        readable += writes
        operators.append([reads, weights, writes])
        if gaps < 0:
            break
    read = {tensor for inputs_, _, _ in operators for tensor in inputs_}
    for number, tensor in enumerate(tensors):
        if tensor[2] == "activation" and chance.random() < (0.15 if number in read else 0.8):
            tensor[2] = "output"
    return {"tensors": tensors, "operators": operators}


def crowd_facts(chance: random.Random) -> Facts:
    """Return a network like `network_facts` with many waiting tensors of equal size and cost, each with another reader.

    The readers stand in a chain of operators with varying needs, or outside it, and anywhere in the file. So only the
    best order, and nothing in the file, determines which tensors should be evicted.
    """
    size = chance.randint(1, 4)
    tensors: list[list[Json]] = [[1, 8, "input"]]

    def written(elements: int) -> int:
        tensors.append([elements, 8, "activation"])
        return len(tensors) - 1

    alike = [written(size) for _ in range(chance.choice((2, 2, 2, 3)))]
    end, length = written(1), chance.randint(2, 4)
    operators: list[list[list[int]]] = [[[0], [], [*alike, end]]]
    readers = [length, *(chance.randint(0, length) for _ in alike[1:])]
    for place in range(length):
        reads = [end, *(tensor for tensor, reader in zip(alike, readers, strict=True) if reader == place)]
        end = written(chance.choice((1, 1, size, size + 1, 2 * size + 1)))
        operators.append([reads, [], [end]])
    ends = [end]
    for tensor, reader in zip(alike, readers, strict=True):
        if reader == length:
            ends.append(written(chance.choice((1, 1, size, size + 1, 2 * size + 1))))
            operators.insert(chance.randint(1, len(operators)), [[tensor], [], [ends[-1]]])
    operators.append([ends, [], [written(1)]])
    tensors[-1][2] = "output"
    return {"tensors": tensors, "operators": operators}


def _tensor(chance: random.Random, greatest: int, role: str) -> list[int | str]:
    return [chance.randint(1, greatest), chance.choice(BITS), role]


def odd_capacity(chance: random.Random, question: Question) -> int:
    """Return a capacity at or next to the need of one operator or the peak of the given order; sometimes between."""
    required, peak = question.required_bytes, question.peak_of(tuple(range(len(question.reads))))
    edge = chance.choice((required, required, required, peak, chance.randint(required, peak)))
    return max(1, edge + chance.choice((-1, 0, 0, 0, 0, 1, 2)))


@dataclass(frozen=True, slots=True)
class Case:
    """The facts of a case, with names; `names` gives tensors and operators others."""

    facts: Facts
    prefix: str = ""

    def tensor(self, number: int) -> str:
        """Return the name of a tensor."""
        return f"{self.prefix}t{number}"

    def operator(self, number: int) -> str:
        """Return the name of an operator."""
        return f"{self.prefix}op{number}"

    def size_bytes(self, number: int) -> int:
        """Return ceil(elements * bits / 8), with the requested bits."""
        elements, bits, _ = self.facts["tensors"][number]
        return int(-(-elements * (self.facts.get("bits") or bits) // 8))

    @property
    def counts_parameters(self) -> bool:
        """Return True if parameters are planned."""
        return bool(self.facts.get("count") == "all")

    @property
    def file(self) -> Facts:
        """Return the graph file; operators with members or attributes would be planned identically."""
        return {
            "format": "onchip-graph",
            "version": 1,
            "name": "odd",
            "tensors": [
                {"name": self.tensor(number), "shape": [elements], "bits": bits, "role": role}
                for number, (elements, bits, role) in enumerate(self.facts["tensors"])
            ],
            "operators": [
                {
                    "name": self.operator(number),
                    "kind": "Odd",
                    "inputs": [self.tensor(one) for one in reads],
                    "parameters": [self.tensor(one) for one in weights],
                    "outputs": [self.tensor(one) for one in writes],
                }
                for number, (reads, weights, writes) in enumerate(self.facts["operators"])
            ],
        }

    @property
    def question(self) -> Question:
        """Return the input of the exhaustive oracle."""
        operators = self.facts["operators"]
        weights = [parameters if self.counts_parameters else [] for _, parameters, _ in operators]
        return Question(
            tuple(self.size_bytes(number) for number in range(len(self.facts["tensors"]))),
            tuple(role for _, _, role in self.facts["tensors"]),
            tuple((*reads, *more) for (reads, _, _), more in zip(operators, weights, strict=True)),
            tuple(tuple(writes) for _, _, writes in operators),
            self.facts.get("alignment", 1),
        )

    @property
    def net(self) -> Net:
        """Return the input of the replay."""
        question = self.question
        counted = [n for n, role in enumerate(question.roles) if role != "parameter" or self.counts_parameters]
        steps = (
            Step(self.operator(at), *(tuple(dict.fromkeys(map(counted.index, one))) for one in operands))
            for at, operands in enumerate(zip(question.reads, question.writes, strict=True))
        )
        sizes = tuple(question.sizes[number] for number in counted)
        roles = tuple(question.roles[number] for number in counted)
        return Net(tuple(map(self.tensor, counted)), sizes, roles, tuple(steps))

    def replayed(self, document: Facts, may_run_again: frozenset[str] = frozenset()) -> Replayed | str:
        """Return the state after the whole plan, in any order, or its fault."""
        net, memory, objective = self.net, document["memories"][0], document["result"]["objective"]
        pad = Pad("sram", memory["capacity_bytes"], memory["alignment_bytes"], frozenset(("input", "weight", "output")))
        ways = ((-1, 0), (0, -1))
        machine = Machine((pad,), {(number, *way): size for number, size in enumerate(net.sizes) for way in ways})
        asked = {"objective": "traffic" if objective == "traffic" else "peak", "order": "free", "placement": "dynamic"}
        try:
            return replayed(document, net, machine, **asked, may_run_again=may_run_again)
        except IllegalError as error:
            return str(error)

    @property
    def need_bytes(self) -> int:
        """Return M_R, the bytes that the neediest operator requires."""
        return self.question.required_bytes

    def need_of(self, operator: str) -> int:
        """Return the bytes that one operator needs."""
        number = int(operator.removeprefix(f"{self.prefix}op"))
        sizes = [self.question.sizes[tensor] for tensor in self.question.operands(number)]
        return packed_bytes(sizes, self.question.alignment)


MUTATIONS = 10
NUMBERS = (-4, -2, -1, 1, 1, 2, 4)


def fault_of_file(case: Case, path: Path, graph: Path, program: Program, answer: Facts) -> str | None:
    """Return a fault unless a file just written is legal, for `check` and the replay, and agrees with the answer."""
    document = json.loads(path.read_text())
    state = case.replayed(document)
    if isinstance(state, str):
        return f"illegal plan: {state}"
    if state.value != answer["objective_value"]:
        return f"another value: {answer['objective_value']} is claimed, the plan has {state.value}"
    if case.facts["order"] == "given" and state.order != sorted(state.order):
        return f"not in the given order: {state.order}"
    return _fault_of_check(case, document, path, graph, program)


def mutated_files(
    case: Case, path: Path, graph: Path, program: Program, chance: random.Random
) -> tuple[int, str | None]:
    """Mutate a plan file repeatedly; return the number of agreements with the replay, and the first disagreement."""
    original = json.loads(path.read_text())
    for number in range(MUTATIONS):
        document = copy.deepcopy(original)
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            mutate(case, document, chance)
        changed = program.write("mutated.json", document)
        fault = _fault_of_check(case, document, changed, graph, program)
        if fault is not None:
            return number, f"{fault} after a mutation"
    return MUTATIONS, None


def _fault_of_check(case: Case, document: Facts, path: Path, graph: Path, program: Program) -> str | None:
    ended = program.ask("check", path, graph, "--json")
    state, result = case.replayed(document), document["result"]
    if ended.code not in (0, 1, 2):
        return f"check ends badly: {ended.code} {ended.err[-300:]}"
    if isinstance(state, str):
        return None if ended.code in (1, 2) else f"check passes an illegal plan: {state}"
    value = state.value
    is_true = value == result["objective_value"] >= result["lower_bound"] and (
        result["status"] == "FEASIBLE" or (result["status"] == "OPTIMAL" and result["lower_bound"] == value)
    )
    if (ended.code == 0) is not is_true:
        return f"check misjudges a legal plan: {ended.code}, {result} of {value}, {ended.answer.get('violations')}"
    recomputed = ended.answer["recomputed"]
    figures = {"peak_bytes": state.peak_bytes, "arena_bytes": sum(state.tops.values())}
    wrong = {key: (recomputed[key], figure) for key, figure in figures.items() if recomputed[key] != figure}
    if recomputed["traffic"]["total"] != state.cost:
        wrong["traffic"] = (recomputed["traffic"]["total"], state.cost)
    return f"check counts otherwise: {wrong}" if wrong else None


def mutate(case: Case, document: Facts, chance: random.Random) -> None:
    """Change one place of a plan file, or its claim."""
    instructions = document["instructions"]
    at, to = chance.randrange(len(instructions)), chance.randrange(len(instructions))
    kind = chance.choice(("drop", "again", "swap", "move", "field", "field", "field", "claim", "memory"))
    if kind == "drop" and len(instructions) > 1:
        del instructions[at]
    elif kind == "again":
        instructions.insert(to, copy.deepcopy(instructions[at]))
    elif kind == "swap":
        at = min(at, len(instructions) - 2)
        if at >= 0:
            instructions[at : at + 2] = instructions[at : at + 2][::-1]
    elif kind == "move":
        instructions.insert(to, instructions.pop(at))
    elif kind == "claim":
        key = chance.choice(("objective_value", "lower_bound"))
        document["result"][key] = max(0, document["result"][key] + chance.choice(NUMBERS))
        document["result"]["status"] = chance.choice(("OPTIMAL", "FEASIBLE", "FEASIBLE", "UNKNOWN"))
    elif kind == "memory":
        memory = document["memories"][0]
        memory["capacity_bytes"] = max(1, memory["capacity_bytes"] + chance.choice(NUMBERS))
    else:
        _change_field(case, instructions[at], chance)


def _change_field(case: Case, instruction: Facts, chance: random.Random) -> None:
    ((kind, what),) = instruction.items()
    if kind == "compute":
        instruction[kind] = case.operator(chance.randrange(len(case.facts["operators"])))
        return
    key = chance.choice(list(what))
    if key == "offset_bytes":
        what[key] = max(0, what[key] + chance.choice(NUMBERS))
    elif key == "tensor":
        what[key] = case.tensor(chance.randrange(len(case.facts["tensors"])))
    elif kind == "copy":
        what["source"], what["target"] = what["target"], what["source"]


HEURISTICS = ("belady", "greedy", "naive", "onsram", "pinning")
ASKS = ("plan",) * 12 + ("mutate",) * 4 + ("info", "budget", "twin", "roomier", "hasty", "hasty", "large")
CROWDS = 0.25
"""The share of networks in which much is alike, and free order decides what leaves."""
MOST_ORDERS = 40
LARGE_SECONDS = 5.0
MOST_SECONDS_LATE = 30.0  # of a slow and busy machine
"""Far more than the documented half second: other processes have the machine, too, and solvers are loaded once."""


@dataclass(frozen=True, slots=True)
class PlanLevel:
    """Capacities at the edges, networks of few operators with everything odd that a graph may have."""

    name: str = "plan"
    weight: float = 2.0

    def generate(self, chance: random.Random) -> Facts:
        """Make a case: a network, the question, and its options."""
        ask = chance.choice(ASKS)
        is_crowd = ask != "large" and chance.random() < CROWDS
        network = crowd_facts if is_crowd else large_network if ask == "large" else network_facts
        facts: Facts = {"ask": ask, **network(chance)}
        facts |= {"count": chance.choice(("activations", "all")), "alignment": chance.choice((1, 1, 1, 2, 3, 4))}
        facts["bits"] = None if is_crowd else chance.choice((None, None, None, 1, 4, 8))
        facts["capacity"] = odd_capacity(chance, Case(facts).question)
        has_few_orders = _has_few_orders(Case(facts).question) if ask != "large" else False
        facts |= _method(chance, has_few_orders=has_few_orders)
        if is_crowd or ask in ("twin", "roomier", "large"):
            facts |= {"method": "exact", "order": "free" if has_few_orders else "given"}
        if is_crowd or ask == "large":
            facts["objective"] = "traffic"
        if ask == "large":
            facts["seconds"] = 1.0
        if ask == "hasty":
            facts["seconds"] = chance.choice((0.001, 0.005, 0.02, 0.05))
        return facts | {"seed": chance.randrange(1 << 30)}

    def judge(self, facts: Facts, program: Program) -> Verdict:
        """Compare the answer with the oracles."""
        case = Case(facts)
        graph = program.write("graph.json", case.file)
        if facts["ask"] == "info":
            return _judged_info(case, program.ask("info", graph, "--json", "--count", facts["count"], *_bits(facts)))
        if facts["ask"] == "budget":
            return _judged_budget(case, program, graph)
        began = time.monotonic()
        ended = program.ask(*_arguments(facts, graph), "-o", graph.with_name("plan.json"))
        if ended.code == 2:
            return Verdict(refused=True)
        if (seconds := time.monotonic() - began) > facts.get("seconds", math.inf) + MOST_SECONDS_LATE:
            return Verdict(1, f"outlasts its limit: {seconds:.1f} seconds of {facts['seconds']}")
        judged = _judged_large if facts["ask"] == "large" else _judged_plan
        proofs, fault = judged(case, ended, graph)
        if fault is None and ended.code == 0:
            fault = fault_of_file(case, graph.with_name("plan.json"), graph, program, ended.answer)
            proofs += 1
        if fault is None and facts["ask"] in ("mutate", "twin", "roomier"):
            more, fault = _judged_further(case, ended, graph, program)
            proofs += more
        return Verdict(proofs, fault)

    def smaller(self, facts: Facts) -> Iterator[Facts]:
        """Yield the case with plain options, and without an operator that has no reader."""
        yield {**facts, "ask": "plan"}
        yield {**facts, "method": "exact", "objective": "traffic"}
        for number in range(len(facts["operators"])):
            yield without_operator(facts, number)
        for number in reversed(range(len(facts["tensors"]))):
            if not any(number in one for operator in facts["operators"] for one in operator):
                yield _without_tensor(facts, number)


def without_operator(facts: Facts, number: int) -> Facts:
    """Return the case without an operator; its outputs become inputs if they are still read."""
    tensors = [list(tensor) for tensor in facts["tensors"]]
    for written in facts["operators"][number][2]:
        tensors[written][2] = "input"
    operators = facts["operators"][:number] + facts["operators"][number + 1 :]
    return {**facts, "tensors": tensors, "operators": operators}


def _without_tensor(facts: Facts, number: int) -> Facts:
    operators = [[[t - (t > number) for t in group] for group in operator] for operator in facts["operators"]]
    return {**facts, "tensors": facts["tensors"][:number] + facts["tensors"][number + 1 :], "operators": operators}


def large_network(chance: random.Random) -> Facts:
    """Return a network of ten times the usual size, too large for the exhaustive oracle."""
    tensors: list[list[Json]] = [[chance.randint(1, 9), 8, "input"] for _ in range(2)]
    operators: list[list[list[int]]] = []
    for _ in range(chance.randint(12, 40)):
        recent = range(max(0, len(tensors) - chance.choice((4, 8, 40))), len(tensors))
        reads = [chance.choice(recent) for _ in range(chance.choice((1, 2, 2, 3)))]
        operators.append([reads, [], [len(tensors)]])
        tensors.append([chance.randint(1, 30), 8, "activation"])
    read = {tensor for reads, _, _ in operators for tensor in reads}
    for number, tensor in enumerate(tensors[2:], 2):
        if chance.random() < (0.1 if number in read else 0.9):
            tensor[2] = "output"
    return {"tensors": tensors, "operators": operators}


def _has_few_orders(question: Question) -> bool:
    return sum(1 for _, _ in zip(range(MOST_ORDERS + 1), question.orders(), strict=False)) <= MOST_ORDERS


def _method(chance: random.Random, *, has_few_orders: bool) -> Facts:
    """Draw a method and supported options (memory/methods.py); with many orders only the given order."""
    method = chance.choice(("exact",) * 8 + ("paper", "divide", chance.choice(HEURISTICS), chance.choice(HEURISTICS)))
    orders = {"exact": ("free", "free", "given", "min-peak"), "paper": ("free", "given"), "divide": ("free",)}
    order = chance.choice(orders.get(method, ("given", "min-peak")))
    objective = "peak" if method == "exact" and chance.random() < 0.3 else "traffic"
    if not has_few_orders:
        method, order = (method, "given") if method != "divide" else ("exact", "given")
    solver = chance.choice(("cp-sat", "cp-sat", "highs", "scip")) if method == "paper" else "cp-sat"
    return {"method": method, "order": order, "objective": objective, "solver": solver}


def _bits(facts: Facts) -> list[object]:
    return ["--bits", facts["bits"]] if facts.get("bits") else []


def _arguments(facts: Facts, graph: Path, capacity: object = None) -> list[object]:
    arguments: list[object] = ["plan", graph, "--sram", capacity or facts["capacity"], "--tiles", "never", "--json"]
    for option in ("count", "alignment", "objective", "order", "method", "solver"):
        arguments += [f"--{option}", facts[option]]
    arguments += ["--time-limit", facts["seconds"]] if "seconds" in facts else []
    return arguments + _bits(facts)


def _orders(case: Case, graph: Path) -> list[Order]:
    """Return the orders among which the answer is claimed to be optimal: with `min-peak`, that of the plan."""
    question, order = case.question, case.facts["order"]
    if order == "given":
        return [tuple(range(len(question.reads)))]
    orders = list(question.orders())
    if order == "min-peak" and (plan := graph.with_name("plan.json")).exists():
        computed = [i["compute"] for i in json.loads(plan.read_text())["instructions"] if "compute" in i]
        orders = [tuple(int(name.removeprefix(f"{case.prefix}op")) for name in computed)]
    return orders


def _truth(case: Case, graph: Path, capacity: int) -> int | None:
    question, orders = case.question, _orders(case, graph)
    return (question.least_arena if case.facts["objective"] == "peak" else question.least_traffic)(orders, capacity)


def _judged_plan(case: Case, ended: Ended, graph: Path) -> tuple[int, str | None]:
    """Return the number of proofs among status, value and bound, and the fault, or None."""
    answer, facts = ended.answer, case.facts
    if ended.code not in (0, 3, 4):
        return 0, f"ends badly: {ended.code} {ended.err[-300:]}"
    if ended.code != 0:
        graph.with_name("plan.json").unlink(missing_ok=True)
    if answer["required_bytes"] != case.need_bytes:
        return 1, f"false M_R: {answer['required_bytes']} for {case.need_bytes}"
    truth = _truth(case, graph, facts["capacity"])
    if answer["status"] == "INFEASIBLE":
        return 1, _fault_of_infeasible(case, ended, truth)
    if truth is None:
        is_open = ended.code == 4 and answer["status"] == "UNKNOWN"
        may_be_open = "seconds" in facts or facts["method"] in HEURISTICS or facts["objective"] == "peak"
        return 1, None if is_open and may_be_open else f"plans what cannot be: {answer['status']}"
    return 1, _fault_of_claims(facts, answer, truth) or _fault_of_order(case, graph, ended)


def _fault_of_claims(facts: Facts, answer: Facts, truth: int) -> str | None:
    value, bound, status = answer["objective_value"], answer["lower_bound"], answer["status"]
    if bound > truth:
        return f"false bound: {bound} above {truth}"
    if value is not None and (value < truth or bound > value):
        return f"impossible value: {value} with bound {bound} for {truth}"
    if status == "OPTIMAL" and value != truth:
        return f"false proof: {value} for {truth}"
    has_all_time = "seconds" not in facts and facts["method"] in ("exact", "divide", "paper")
    if has_all_time and (value is None or (facts["method"] == "exact" and status != "OPTIMAL")):
        return f"left open: {status} {value} for {truth}"
    return None


def _fault_of_order(case: Case, graph: Path, ended: Ended) -> str | None:
    """Return a fault unless an order of minimum peak has the minimum peak of all orders."""
    if case.facts["order"] != "min-peak" or ended.code != 0 or "seconds" in case.facts:
        return None
    question, (order,) = case.question, _orders(case, graph)
    peak, least = question.peak_of(order), question.least_peak()
    return None if peak == least else f"not of least peak: {peak} for {least}"


def _fault_of_infeasible(case: Case, ended: Ended, truth: int | None) -> str | None:
    answer, capacity = ended.answer, case.facts["capacity"]
    if truth is not None or ended.code != 3:
        return f"false INFEASIBLE: {truth} is possible, ends with {ended.code}"
    need = answer["need_bytes"]
    if answer["excess_bytes"] != max(0, need - capacity):
        return f"false need: {need} in {capacity} is {answer['excess_bytes']} too many"
    if case.need_bytes > capacity:
        return None if need == case.need_of(answer["operator"]) > capacity else f"false need: {need}"
    is_given = case.facts["order"] == "given"
    orders = [tuple(range(len(case.question.reads)))] if is_given else list(case.question.orders())
    least = case.question.least_arena(orders, sum(case.question.sizes) * 4)
    return None if least is not None and need <= least else f"false need: {need} for {least}"


def _judged_large(case: Case, ended: Ended, _graph: Path) -> tuple[int, str | None]:
    """Compare with the bounds of a different model of the given order."""
    if ended.code == 3:
        return 1, None if case.need_bytes > case.facts["capacity"] else "false INFEASIBLE: each operator fits"
    if ended.code != 0:
        return 0, f"ends badly: {ended.code} {ended.err[-300:]}"
    low, high = bounds_of_traffic(case.question, case.facts["capacity"], LARGE_SECONDS)
    value, bound = ended.answer["objective_value"], ended.answer["lower_bound"]
    if value < low:
        return 1, f"impossible value: {value} below {low}"
    return int(low == high), None if high is None or bound <= high else f"false bound: {bound} above {high}"


def _judged_info(case: Case, ended: Ended) -> Verdict:
    if ended.code == 2:
        return Verdict(refused=True)
    question = replace(case.question, alignment=1)
    truth = {"required_bytes": Case({**case.facts, "alignment": 1}).need_bytes, "min_peak_bytes": question.least_peak()}
    wrong = {key: (ended.answer.get(key), value) for key, value in truth.items() if ended.answer.get(key) != value}
    return Verdict(2, f"false budget: {wrong}" if wrong else None)


def _judged_budget(case: Case, program: Program, graph: Path) -> Verdict:
    """Judge `--sram m_r`, `m_h` and `m_p` at the requested alignment."""
    required, peak = case.need_bytes, case.question.least_peak()
    for budget, capacity in (("m_r", required), ("m_h", (required + peak) // 2), ("m_p", peak)):
        facts = {**case.facts, "method": "exact", "objective": "traffic", "order": "given"}
        ended = program.ask(*_arguments(facts, graph, budget))
        if ended.code == 2:
            return Verdict(refused=True)
        if ended.code != 0 or ended.answer["capacity_bytes"] != capacity:
            return Verdict(3, f"false budget: {budget} is {ended.answer.get('capacity_bytes')} for {capacity}")
    return Verdict(3)


def _judged_further(case: Case, ended: Ended, graph: Path, program: Program) -> tuple[int, str | None]:
    """Judge mutations of the plan file, other names, or more capacity."""
    facts, chance = case.facts, random.Random(case.facts["seed"])
    if facts["ask"] == "mutate":
        if ended.code != 0:
            return 0, None
        return mutated_files(case, graph.with_name("plan.json"), graph, program, chance)
    if facts["ask"] == "twin":
        other = Case(facts, prefix="z")
        file = other.file
        chance.shuffle(file["tensors"])
        again = program.ask(*_arguments(facts, program.write("twin.json", file)))
        claims = [
            (one.code, *map(one.answer.get, ("status", "objective_value", "lower_bound"))) for one in (ended, again)
        ]
        return 1, None if claims[0] == claims[1] else f"names matter: {claims}"
    again = program.ask(*_arguments(facts, graph, facts["capacity"] + chance.choice((1, 2, 5))))
    before, after = ended.answer.get("objective_value"), again.answer.get("objective_value")
    is_worse = before is not None and (after is None or after > before)
    return 1, f"more room is worse: {before}, then {after}" if is_worse else None
