"""`onchip plan --recompute allowed`: recomputed operators and their cost, plan files, and mutants of them."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from adversary.frame import Ended, Facts, Json, Program, Verdict
from adversary.levels.plan import Case, mutate, network_facts, without_operator
from onchip.answer.problem import Count, Objective, Order, Problem, Recomputation
from onchip.arch.memory import Memory
from onchip.formats.own.graph_json import read_graph
from oracles.recomputation import least_cost_with_recomputation

MOST_TENSORS, MOST_OPERATORS = 7, 5
MOST_BYTES_WITH_ADDRESSES = 9
ODD = 0.2
"""The share of networks with everything odd; in most of these everything stays."""
CYCLES_OF_A_PRICE = 1_000_000
MUTANTS = 8
RUNS_ONCE = "RandomNormalLike"


@dataclass(frozen=True, slots=True)
class RecomputeLevel:
    """Networks of few tensors with cycles per operator; some operators draw at random, and may run only once."""

    name: str = "recompute"
    weight: float = 1.0

    def generate(self, chance: random.Random) -> Facts:
        """Make a case: a network, the cycles of each operator, the objective and the capacity."""
        network = _odd_facts(chance) if chance.random() < ODD else waiting_facts(chance)
        facts: Facts = {**network, "count": chance.choice(("activations", "all")), "alignment": 1}
        facts |= {"order": chance.choice(("free", "given"))}
        facts |= {"cycles": [chance.choice((1, 1, 2, 3, 5)) for _ in network["operators"]]}
        facts |= {"once": [chance.random() < 0.3 for _ in network["operators"]]}
        facts |= {"objective": chance.choice(("traffic", "traffic", "recomputation"))}
        facts["price"] = chance.choice((0, 200_000, 1_000_000, 1_000_000))
        more = chance.choice((-1, 0, 0, 0, 0, 0, 1, 1, 2))
        return facts | {"capacity": max(1, Case(facts).need_bytes + more), "seed": chance.randrange(1 << 30)}

    def judge(self, facts: Facts, program: Program) -> Verdict:
        """Hold value, bound and status against every single instruction tried, and the file against a replay."""
        case = RecomputedCase(facts)
        graph = program.write("graph.json", case.file)
        plan = program.folder / "plan.json"
        plan.unlink(missing_ok=True)
        asked = [
            "plan",
            graph,
            "--sram",
            facts["capacity"],
            "--tiles",
            "never",
            "--json",
            "-o",
            plan,
            "--recompute",
            "allowed",
        ]
        for option in ("count", "objective", "order"):
            asked += [f"--{option}", facts[option]]
        if facts["objective"] == "traffic":
            asked += ["--recompute-price", facts["price"]]
        ended = program.ask(*asked)
        if ended.code == 2:
            return Verdict(refused=True)
        fault = _fault_of_claims(case, ended, graph)
        if fault is not None or ended.code != 0:
            return Verdict(1, fault)
        files = PlanFiles(case, graph, program)
        original = json.loads(plan.read_text())
        fault = files.fault_of(original, "plan.json") or _fault_of_value(case, original, ended.answer)
        return Verdict(2, fault) if fault is not None else files.judged_mutants(original)

    def smaller(self, facts: Facts) -> Iterator[Facts]:
        """Yield the case without an operator that has no reader, and with plain options."""
        for number in range(len(facts["operators"])):
            fewer = without_operator(facts, number)
            for name in ("cycles", "once"):
                fewer[name] = facts[name][:number] + facts[name][number + 1 :]
            yield fewer
        yield {**facts, "once": [False for _ in facts["once"]]}
        yield {**facts, "order": "given", "count": "activations"}


def waiting_facts(chance: random.Random) -> Facts:
    """Return operators that read any one or two tensors, however old: much waits, in bytes that others need."""
    tensors: list[list[Json]] = [[chance.randint(1, 3), 8, "input"]]
    operators: list[list[list[int]]] = []
    for _ in range(chance.choice((4, 5, 5, 6))):
        reads = [chance.randrange(len(tensors)) for _ in range(chance.choice((1, 2, 2)))]
        operators.append([reads, [], [len(tensors)]])
        tensors.append([chance.randint(1, 3), 8, "activation"])
    read = {tensor for reads, _, _ in operators for tensor in reads}
    for number, tensor in enumerate(tensors[1:], 1):
        if number not in read:
            tensor[2] = "output"
    return {"tensors": tensors, "operators": operators, "bits": 8}


def _odd_facts(chance: random.Random) -> Facts:
    """Return a network with everything odd that a graph may have, if a small one, of elements of one bit."""
    network = network_facts(chance)
    while len(network["tensors"]) > MOST_TENSORS or len(network["operators"]) > MOST_OPERATORS:
        network = network_facts(chance)
    return {**network, "bits": 1}


class RecomputedCase(Case):
    """The case of `plan`, with the cycles of each operator."""

    @property
    def file(self) -> Facts:
        """Return the graph file."""
        file = Case(self.facts, self.prefix).file
        for operator, cycles, once in zip(file["operators"], self.facts["cycles"], self.facts["once"], strict=True):
            operator["cycles"] = cycles
            operator["kind"] = RUNS_ONCE if once else operator["kind"]
        for tensor in file["tensors"]:
            tensor["bits"] = self.facts["bits"]
        return file

    @property
    def may_run_again(self) -> frozenset[str]:
        """Return the operators that do not draw at random."""
        return frozenset(self.operator(at) for at, once in enumerate(self.facts["once"]) if not once)

    def runs_in_order(self, order: list[str]) -> bool:
        """Return True if first runs are in the given order."""
        return list(dict.fromkeys(order)) == [self.operator(at) for at in range(len(self.facts["operators"]))]

    @property
    def costs(self) -> dict[str, int]:
        """Return the cost of each further run: its cycles, or their price in bytes."""
        price = self.facts["price"] if self.facts["objective"] == "traffic" else CYCLES_OF_A_PRICE
        return {self.operator(at): -(-one * price // CYCLES_OF_A_PRICE) for at, one in enumerate(self.facts["cycles"])}

    def cost_of(self, order: list[str]) -> int:
        """Return the cost of all runs after the first of each operator."""
        return sum(map(self.costs.__getitem__, order)) - sum(map(self.costs.__getitem__, set(order)))

    def least(self, graph: Path, *, with_addresses: bool) -> int | None:
        """Return the optimum of the oracle."""
        problem = Problem(
            read_graph(graph),
            (Memory("sram", self.facts["capacity"]),),
            Objective(self.facts["objective"]),
            Order(self.facts["order"]),
            Count(self.facts["count"]),
            recomputation=Recomputation(self.costs),
        )
        return least_cost_with_recomputation(problem, with_addresses=with_addresses)


def _fault_of_claims(case: RecomputedCase, ended: Ended, graph: Path) -> str | None:
    """Return a fault if a bound exceeds the optimum, a value is below it, or a proven value differs from it."""
    answer, in_bytes = ended.answer, case.least(graph, with_addresses=False)
    if ended.code not in (0, 3, 4):
        return f"ends badly: {ended.code} {ended.err[-300:]}"
    if in_bytes is None:
        return None if ended.code in (3, 4) else f"plans what cannot be: {answer['status']}"
    is_small = case.facts["capacity"] <= MOST_BYTES_WITH_ADDRESSES
    least = case.least(graph, with_addresses=True) if is_small else in_bytes
    if least is None:
        return None if ended.code in (3, 4) else f"plans what has no addresses: {answer['status']}"
    if ended.code == 3:
        return f"false INFEASIBLE: {least} is possible" if is_small else None
    value, bound = answer["objective_value"], answer["lower_bound"]
    if is_small and bound > least:
        return f"false bound: {bound} above {least}"
    if value is not None and value < least:
        return f"impossible value: {value} for {least}"
    if is_small and answer["status"] == "OPTIMAL" and value != least:
        return f"false proof: {value} for {least}"
    return f"left open: {answer['status']} {value} for {least}" if is_small and value is None else None


def _fault_of_value(case: RecomputedCase, document: Facts, answer: Facts) -> str | None:
    """Return a fault unless the plan has the claimed value and order."""
    computed = [one["compute"] for one in document["instructions"] if "compute" in one]
    if case.facts["order"] == "given" and not case.runs_in_order(computed):
        return f"not in the given order: {computed}"
    return None if document["result"]["objective_value"] == answer["objective_value"] else "another value in the file"


@dataclass(frozen=True, slots=True)
class PlanFiles:
    """Verdicts of `check` on plan files, against a byte-level replay in which operators may run again."""

    case: RecomputedCase
    graph: Path
    program: Program

    def judged_mutants(self, original: Facts) -> Verdict:
        """Mutate the file repeatedly, and compare `check` with the replay."""
        chance = random.Random(self.case.facts["seed"])
        for number in range(MUTANTS):
            document = copy.deepcopy(original)
            for _ in range(chance.choice((1, 1, 1, 2, 3))):
                mutate(self.case, document, chance)
            fault = self.fault_of(document, "mutant.json")
            if fault is not None:
                return Verdict(2 + number, f"{fault} after a mutation")
        return Verdict(2 + MUTANTS)

    def fault_of(self, document: Facts, name: str) -> str | None:
        """Return the fault of the verdict of `check` on a file; None if there is none."""
        ended = self.program.ask("check", self.program.write(name, document), self.graph, "--json")
        if ended.code not in (0, 1, 2):
            return f"check ends badly: {ended.code} {ended.err[-300:]}"
        state, result = self.case.replayed(document, self.case.may_run_again), document["result"]
        order = [] if isinstance(state, str) else [state.net.steps[number].name for number in state.order]
        if not isinstance(state, str) and document.get("order") == "given" and not self.case.runs_in_order(order):
            state = "not in the given order"
        if isinstance(state, str):
            return None if ended.code in (1, 2) else f"check passes an illegal plan: {state}"
        value = self.case.cost_of(order) + (state.value if result["objective"] == "traffic" else 0)
        is_true = value == result["objective_value"] >= result["lower_bound"] and (
            result["status"] == "FEASIBLE" or (result["status"] == "OPTIMAL" and result["lower_bound"] == value)
        )
        if (ended.code == 0) is not is_true:
            return f"check misjudges a legal plan: {ended.code}, {result} of {value}, {ended.answer.get('violations')}"
        return None
