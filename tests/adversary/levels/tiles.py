"""`onchip plan --tiles`: tiles and values, refusals, and bounds over every tiling of tiny networks."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import prod
from pathlib import Path

from adversary.frame import Ended, Facts, Json, Program, Verdict
from adversary.fusing import KINDS, graph_file
from adversary.fusing import random_network as network_of_layers
from onchip.answer.problem import Count, Objective, Problem
from onchip.arch.memory import Memory
from onchip.formats.own.graph_json import graph_to_json, read_graph
from onchip.ir.graph import Graph
from onchip.model.timeline.mac_count import MacCount, recomputed_macs
from oracles.one_scratchpad import KeepOrDrop, Question, least_traffic
from oracles.packing import TooLargeError
from oracles.tilings import every_tiling, graphs_in_tiles, has_few_tilings, least_peak
from support.tiled import Attributes, Network

MOST_TILINGS, MOST_TILES = 500, 12
MOST_TILES_IN_PLANS, MOST_GAPS, MOST_PLACES = 5, 6, 64
SECONDS, PATIENCE = 20, 6
"""A limit, and how many times it may take on a machine that has other things to do."""


KINDS_OF_WHOLE_MAPS = (*KINDS, "Gate", "Gate", "Spread", "Spread", "Softmax", "Concat", "Concat")


def random_network(chance: random.Random) -> Facts:
    """Return the graph file of a network without crops: tiles load only a part of an input that is cropped."""
    while True:
        graph: Facts = graph_file(network_of_layers(chance, KINDS_OF_WHOLE_MAPS))
        if all(operator["kind"] != "Slice" for operator in graph["operators"]):
            return graph


def chain_of_windows(chance: random.Random) -> Facts:
    """Return the graph file of two to four operators in a row whose windows overlap along the rows.

    The borders between tiles then matter more than the tiles. Some maps are read twice.
    """
    network = Network(8)
    made = [network.input(1, chance.choice((1, 1, 2)), chance.randint(2, 6), 1)]
    for _ in range(chance.randint(2, 4)):
        shape, kind = network.shape(made[-1]), chance.choice(("Conv", "Conv", "Conv", "MaxPool", "Add"))
        kernel, stride, padding = chance.choice((1, 2, 3)), chance.choice((1, 1, 1, 2)), chance.choice((0, 1))
        rows = (shape[2] + 2 * padding - kernel) // stride + 1
        if kind == "Add" or rows < 1 or padding >= kernel:
            alike = [name for name in made if network.shape(name) == shape]
            made.append(network.add("Add", [made[-1], chance.choice(alike)], shape))
            continue
        window: Attributes = {"kernel_shape": [kernel, 1], "strides": [stride, 1], "pads": [padding, 0, padding, 0]}
        weights = []
        if kind == "Conv":
            groups = chance.choice((1, shape[1]))
            window["group"] = groups
            weights = [network.parameter(shape[1], shape[1] // groups, kernel, 1)]
        made.append(network.add(kind, made[-1:], (1, shape[1], rows, 1), weights, window))
    found: Facts = json.loads(graph_to_json(network.graph()))
    return found


@dataclass(frozen=True, slots=True)
class TilesLevel:
    """A level of one to four operators and a scratchpad close to the needs of their tiles."""

    name: str = "tiles"
    weight: float = 1.0

    def generate(self, chance: random.Random) -> Facts:
        """Return a network and a scratchpad of some share of the largest operator's need."""
        graph = chance.choice((random_network, chain_of_windows, chain_of_windows))(chance)
        need = max(_need_bytes(graph, operator) for operator in graph["operators"])
        share = chance.choice((0.2, 0.3, 0.5, 0.6, 0.8, 0.9, 1.0))
        return {
            "graph": graph,
            "capacity": max(1, int(need * share) + chance.choice((-1, 0, 0, 1, 3))),
            "alignment": chance.choice((1, 1, 1, 1, 4, 8)),
            "count": chance.choice(("all", "activations", "activations")),
            "objective": chance.choice(("traffic", "peak")),
            "order": chance.choice(("free", "free", "free", "given")),
            "max_recompute": chance.choice((0, 10, 50, 100, 10_000)),
            "also": chance.choice(("nothing", "renamed", "hurried", "nothing")),
        }

    def judge(self, facts: Facts, program: Program) -> Verdict:
        """Hold the plan against its own check and run, and status and bound against every tiling."""
        network = program.write("network.json", facts["graph"])
        plan = program.folder / "plan.json"
        began = time.monotonic()
        ended = _planned(facts, program, network, SECONDS)
        if (spent := time.monotonic() - began) > PATIENCE * SECONDS:
            return Verdict(1, f"outlasts its limit: {spent:.0f} seconds for {SECONDS}")
        if ended.code == 2:
            return Verdict(refused=True)
        share = facts["max_recompute"] / 100 if facts["order"] == "free" else 0
        every = _Tilings(_problem(facts, network), share)
        if ended.code == 3:
            return every.verdict_of_refusal(ended)
        if ended.code == 4:
            return Verdict()
        if ended.code != 0:
            return Verdict(1, f"ends without an answer: {ended.code} {ended.err}")
        fault = _fault_in_plan(facts, program, plan, network, ended)
        if (ended.answer["recomputed_macs"] or 0) > share * every.macs:
            return Verdict(1, f"recomputes too much: {ended.answer['recomputed_macs']} of {every.macs}")
        proofs, fault_in_bound = every.fault_in_bound(ended)
        return Verdict(1 + proofs, fault or fault_in_bound or _also(facts, program, ended))

    def smaller(self, facts: Facts) -> Iterator[Facts]:
        """Leave out an operator without readers, and the repetition."""
        graph = facts["graph"]
        read = {name for operator in graph["operators"] for name in operator["inputs"]}
        for operator in graph["operators"]:
            if not read & set(operator["outputs"]) and len(graph["operators"]) > 1:
                yield {**facts, "graph": _without(graph, operator["name"])}
        yield {**facts, "also": "nothing"}


@dataclass(frozen=True)
class _Tilings:
    """The complete list of tilings of a tiny network within a limit on recomputation; empty if there are too many."""

    problem: Problem
    most_again: float

    @property
    def macs(self) -> int:
        """Return the multiply-accumulates of the network."""
        count = MacCount(self.problem.graph)
        return sum(map(count.macs, self.problem.graph.operators))

    @cached_property
    def graphs(self) -> list[Graph]:
        if not has_few_tilings(self.problem, MOST_TILINGS):
            return []
        ways = every_tiling(self.problem, overlaps=self.most_again > 0)
        if prod(map(len, ways)) > MOST_TILINGS:
            return []
        found = list(graphs_in_tiles(self.problem, product(*ways)))
        found = [one for one in found if (recomputed_macs(one) or 0) <= self.most_again * self.macs]
        return found if all(len(one.operators) <= MOST_TILES for one in found) else []

    def verdict_of_refusal(self, ended: Ended) -> Verdict:
        """Return a fault if some tiling fits: without spills for the peak, tile by tile otherwise."""
        capacity = self.problem.memories[0].capacity_bytes
        if not self.graphs:
            return Verdict()
        needs = (
            least_peak(self.problem, one) if self.problem.objective is Objective.PEAK else _greatest(self.problem, one)
            for one in self.graphs
        )
        if self.problem.memories[0].alignment_bytes == 1 and min(needs) <= capacity:
            return Verdict(1, f"refuses a network that fits: {ended.err or ended.out}")
        return Verdict(1)

    def fault_in_bound(self, ended: Ended) -> tuple[int, str | None]:
        """Return the claims that were compared, and a fault if a tiling is below the bound or the optimum."""
        least = self._least()
        if least is None:
            return 0, None
        answer = ended.answer
        if answer["lower_bound"] > least:
            return 1, f"a false bound: {answer['lower_bound']} above {least}"
        if answer["status"] == "OPTIMAL" and answer["objective_value"] != least:
            return 1, f"a false proof: {answer['objective_value']} for {least}"
        return 1, None

    def _least(self) -> int | None:
        """Return the least value of all tilings: a bound on it for the peak; None if it is unknown."""
        is_padded = self.problem.memories[0].alignment_bytes > 1
        if not self.graphs or (is_padded and self.problem.objective is Objective.PEAK):
            return None
        if self.problem.objective is Objective.PEAK:
            return min(least_peak(self.problem, one) for one in self.graphs)
        asked = Problem(self.problem.graph, self.problem.memories, count=self.problem.count)
        values = [least_traffic_in_tiles(replace(asked, graph=one)) for one in self.graphs]
        known = [value for value in values if value is not None]
        return min(known) if known and (min(known) == 0 or len(known) == len(values)) else None


def least_traffic_in_tiles(problem: Problem) -> int | None:
    """Return the least non-compulsory bytes of a network in few tiles; None without a plan, or with too many."""
    operators, memory = problem.graph.operators, problem.memories[0]
    is_small = len(operators) <= MOST_TILES_IN_PLANS
    if not is_small or memory.capacity_bytes // memory.alignment_bytes > MOST_PLACES:
        return None
    gaps = KeepOrDrop(Question.of(problem), tuple(range(len(operators)))).gaps
    try:
        return least_traffic(problem) if len(gaps) <= MOST_GAPS else None
    except TooLargeError:
        return None


def _greatest(problem: Problem, graph: Graph) -> int:
    """Return the bytes of the operands of the largest tile."""
    tiled = Problem(graph, problem.memories, count=problem.count)
    return max(sum(tensor.size_bytes for tensor in tiled.operands(one)) for one in graph.operators)


def _need_bytes(graph: Facts, operator: Facts) -> int:
    tensors = {tensor["name"]: tensor for tensor in graph["tensors"]}
    names = dict.fromkeys((*operator["inputs"], *operator.get("parameters", []), *operator["outputs"]))
    return sum(tensors[name]["bits"] // 8 * prod(tensors[name]["shape"]) for name in names)


def _without(graph: Facts, name: str) -> Facts:
    """Return the graph without an operator and its unused tensors; tensors without readers become outputs."""
    operators = [operator for operator in graph["operators"] if operator["name"] != name]
    read = {each for one in operators for each in (*one["inputs"], *one.get("parameters", []))}
    named = read | {each for one in operators for each in one["outputs"]}
    tensors = [
        {**one, "role": "output"} if one["role"] == "activation" and one["name"] not in read else one
        for one in graph["tensors"]
        if one["name"] in named
    ]
    return {**graph, "operators": operators, "tensors": tensors}


def _planned(facts: Facts, program: Program, network: Path, seconds: float) -> Ended:
    plan = program.folder / "plan.json"
    plan.unlink(missing_ok=True)
    arguments: list[Json] = ["plan", network, "--sram", facts["capacity"], "--alignment", facts["alignment"]]
    arguments += [
        "--tiles",
        "auto",
        "--max-recompute",
        f"{facts['max_recompute']}%",
        "--count",
        facts["count"],
        "--objective",
        facts["objective"],
    ]
    arguments += ["--order", facts["order"], "--granularity", "raw", "--time-limit", seconds, "-o", plan, "--json"]
    return program.ask(*arguments)


def _problem(facts: Facts, network: Path) -> Problem:
    memories = (Memory("sram", facts["capacity"], facts["alignment"]),)
    return Problem(read_graph(network), memories, Objective(facts["objective"]), count=Count(facts["count"]))


def _fault_in_plan(facts: Facts, program: Program, plan: Path, network: Path, ended: Ended) -> str | None:
    checked = program.ask("check", plan, network, "--json")
    if checked.code != 0:
        return f"its plan does not pass: {checked.code} {checked.out} {checked.err}"
    run = program.ask("run", plan, network, "--json")
    if run.code != 0:
        return f"its plan computes something else: {run.code} {run.out} {run.err}"
    compulsory = _compulsory_bytes(facts)
    if ended.answer["traffic"]["compulsory"] != compulsory:
        return f"another compulsory traffic: {ended.answer['traffic']} for {compulsory}"
    return None


def _compulsory_bytes(facts: Facts) -> int:
    """Return the compulsory traffic of the network without tiles, in bytes."""
    graph, total = facts["graph"], 0
    read = {each for one in graph["operators"] for each in (*one["inputs"], *one.get("parameters", []))}
    for tensor in graph["tensors"]:
        is_loaded = tensor["role"] == "input" or (tensor["role"] == "parameter" and facts["count"] == "all")
        size_bytes = -(-tensor["bits"] * prod(tensor["shape"]) // 8)
        total += size_bytes if tensor["role"] == "output" or (is_loaded and tensor["name"] in read) else 0
    return total


def _also(facts: Facts, program: Program, ended: Ended) -> str | None:
    """Repeat the case with other names or a tiny time limit."""
    if facts["also"] == "nothing":
        return None
    graph, seconds = facts["graph"], 0.001
    if facts["also"] == "renamed":
        graph, seconds = _renamed(graph), SECONDS * 1.0
    again = _planned(facts, program, program.write("changed.json", graph), seconds)
    if again.code == 4:
        return None
    if again.code != 0:
        return f"{facts['also']}, it ends without an answer: {again.code} {again.err}"
    if again.answer["lower_bound"] > ended.answer["objective_value"]:
        return f"{facts['also']}, a false bound: {again.answer['lower_bound']} above {ended.answer['objective_value']}"
    return None


def _renamed(graph: Facts) -> Facts:
    """Return the graph with every name reversed and prefixed."""
    names = {one["name"] for one in (*graph["tensors"], *graph["operators"])}
    new = {name: f"z{name[::-1]}" for name in names}
    text = json.loads(json.dumps(graph))
    for tensor in text["tensors"]:
        tensor["name"] = new[tensor["name"]]
    for operator in text["operators"]:
        operator["name"] = new[operator["name"]]
        for key in ("inputs", "parameters", "outputs"):
            operator[key] = [new[name] for name in operator.get(key, [])]
    return dict(text)
