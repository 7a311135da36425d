"""`onchip plan --split`: the operators that are split, their tiles and bands, and the rejected cases."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from adversary.frame import Ended, Facts, Json, Program, Verdict
from adversary.levels.split_judging import fault_in_tiles
from adversary.levels.split_networks import random_network
from onchip.answer.document import Reading, Split
from onchip.answer.problem import Count, Objective, Order, Problem
from onchip.api.networks import fitted_to_scratchpads
from onchip.api.target import Target, TargetFinder
from onchip.formats.own.graph_json import read_graph
from onchip.ir.graph import Graph
from oracles.one_scratchpad import KeepOrDrop, least_traffic
from oracles.split_space import Space

MOST_COMBINATIONS = 1500
MOST_TILES, MOST_GAPS, MOST_PLACES = 5, 7, 128
NO_SPLIT = ("no split of it fits", "no combination of splits fits")
NONE_FOUND = "no combination of splits that fits was found"
SECONDS, PATIENCE = 20, 6
"""A limit, and how many times it may take on a machine that has other things to do."""
OPERANDS = ("input", "weight", "output")


@dataclass(frozen=True, slots=True)
class SplitLevel:
    """One to four operators, scratchpads close to the needs of their tiles, and alignments that waste bytes."""

    name: str = "split"
    weight: float = 1.0

    def generate(self, chance: random.Random) -> Facts:
        """Scratchpads of some share of what the largest operator needs."""
        graph = random_network(chance)
        alignment = chance.choice((1, 1, 2, 4, 8, 16, 3, 7))
        need = max(_need_bytes(graph, operator, alignment) for operator in graph["operators"])
        return {
            "graph": graph,
            "memories": _memories(chance, need, alignment),
            "split": chance.choice(("auto", "auto", "always")),
            "count": chance.choice(("all", "all", "activations")),
            "order": chance.choice(("free", "given")),
            "also": chance.choice(("nothing", "renamed", "roomier", "hurried", "nothing")),
        }

    def judge(self, facts: Facts, program: Program) -> Verdict:
        """Hold tiles against counting, refusals against trying every combination, optima against brute force."""
        network = program.write("network.json", facts["graph"])
        chip = program.write("chip.yaml", _chip(facts["memories"]))
        plan = program.folder / "plan.json"
        seconds, began = facts.get("seconds", SECONDS), time.monotonic()
        ended = _planned(facts, program, network, chip, seconds)
        if (spent := time.monotonic() - began) > PATIENCE * seconds:
            return Verdict(1, f"outlasts its limit: {spent:.0f} seconds for {seconds}")
        space = _space(facts)
        if ended.code == 2 or (ended.code == 4 and NONE_FOUND in ended.err):
            return Verdict(refused=ended.code == 2)
        if ended.code == 3 and any(words in ended.err for words in NO_SPLIT):
            return _refusal_verdict(space, ended, facts)
        if ended.code != 0:
            return Verdict(1, f"ends without an answer: {ended.code} {ended.err}")
        problem = _problem(facts, network, chip)
        fault = fault_in_tiles(facts["graph"], problem.graph, space)
        fault = fault or _fault_in_plan(facts, program, plan, network, ended)
        if fault is not None:
            return Verdict(1, fault)
        proofs, fault = _needless(space, problem.graph, facts)
        more, fault_in_proof = _optimum(problem, ended)
        fault = fault or fault_in_proof or _also(facts, program, ended)
        return Verdict(1 + proofs + more, fault)

    def smaller(self, facts: Facts) -> Iterator[Facts]:
        """Leave out an operator without readers, or one of several scratchpads."""
        graph = facts["graph"]
        read = {name for operator in graph["operators"] for name in operator["inputs"]}
        for operator in graph["operators"]:
            if not read & set(operator["outputs"]) and len(graph["operators"]) > 1:
                yield {**facts, "graph": _without(graph, operator["name"])}
        if len(facts["memories"]) > 1:
            for at in range(len(facts["memories"])):
                yield {**facts, "memories": facts["memories"][:at] + facts["memories"][at + 1 :]}
        yield {**facts, "also": "nothing"}


def _memories(chance: random.Random, need: int, alignment: int) -> list[list[Json]]:
    """Return usually one memory, with a capacity at the edge of the need or some share of it."""
    number = chance.choice((1, 1, 1, 2, 3))
    share = chance.choice((0.3, 0.5, 0.6, 0.8, 0.9, 1.0))
    if number == 3 and chance.random() < 0.5:
        return [[max(1, int(need * share)), alignment, [kind]] for kind in OPERANDS]
    holds = [list(OPERANDS), list(OPERANDS), ["input", "output"]]
    sizes = [max(1, int(need * share / number) + chance.choice((-1, 0, 0, 1, 3))) for _ in range(number)]
    return [[size, alignment, holds[at] if at == 0 else chance.choice(holds)] for at, size in enumerate(sizes)]


def _need_bytes(graph: Facts, operator: Facts, alignment: int) -> int:
    tensors = {tensor["name"]: tensor for tensor in graph["tensors"]}
    total = 0
    for name in dict.fromkeys((*operator["inputs"], *operator["parameters"], *operator["outputs"])):
        size = tensors[name]["bits"] // 8
        for extent in tensors[name]["shape"]:
            size *= extent
        total += -(-size // alignment) * alignment
    return total


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


def _chip(memories: list[list[Json]]) -> Facts:
    listed = [
        {"name": f"s{at}", "capacity": size, "scratchpad": True, "alignment": alignment, "holds": holds}
        for at, (size, alignment, holds) in enumerate(memories)
    ]
    return {"format": "onchip-accelerator", "version": 1, "name": "chip", "memories": listed}


def _planned(facts: Facts, program: Program, network: Path, chip: Path, seconds: float) -> Ended:
    arguments = ("plan", network, "--accelerator", chip, "--split", facts["split"], "--count", facts["count"])
    plan = program.folder / "plan.json"
    plan.unlink(missing_ok=True)
    return program.ask(
        *arguments, "--granularity", "raw", "--order", facts["order"], "--time-limit", seconds, "-o", plan, "--json"
    )


def _problem(facts: Facts, network: Path, chip: Path) -> Problem:
    """Return the problem of the tiles, as the program derives it."""
    graph, count = read_graph(network), Count(facts["count"])
    found = TargetFinder(graph, count).accelerator(Target(accelerator=str(chip)), Objective.TRAFFIC)[0]
    whole = Problem(graph, found.scratchpads, order=Order(facts["order"]), count=count)
    return fitted_to_scratchpads(whole, str(network), Reading(count=count, split=Split(facts["split"])))


def _space(facts: Facts) -> Space:
    tensors = {tensor["name"]: tensor for tensor in facts["graph"]["tensors"]}
    scratchpads = [(size, alignment, tuple(holds)) for size, alignment, holds in facts["memories"]]
    return Space(facts["graph"]["operators"], tensors, scratchpads, facts["count"] == "all")


def _refusal_verdict(space: Space, ended: Ended, facts: Facts) -> Verdict:
    if space.size > MOST_COMBINATIONS:
        return Verdict()
    if space.some_choice_fits():
        return Verdict(1, f"refuses what fits: {ended.err}")
    return Verdict(1)


def _needless(space: Space, graph: Graph, facts: Facts) -> tuple[int, str | None]:
    """Return a fault if `auto` splits an operator that fits, unless no combination keeps all such operators whole."""
    if facts["split"] != "auto":
        return 0, None
    names = {operator.name for operator in graph.operators}
    fitting = [operator["name"] for operator in space.operators if space.fits_whole(operator)]
    split = [name for name in fitting if name not in names]
    if not split or space.size > MOST_COMBINATIONS:
        return 0, None
    if space.some_choice_fits(fitting):
        return 1, f"splits what fits: {split[0]}"
    return 1, None


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
        bits = tensor["bits"]
        for extent in tensor["shape"]:
            bits *= extent
        is_loaded = tensor["role"] == "input" or (tensor["role"] == "parameter" and facts["count"] == "all")
        total += -(-bits // 8) if tensor["role"] == "output" or (is_loaded and tensor["name"] in read) else 0
    return total


def _optimum(problem: Problem, ended: Ended) -> tuple[int, str | None]:
    """Compare the plan with the optimum, for few tiles in one scratchpad with few addresses."""
    memory, *others = problem.memories
    if others or memory.capacity_bytes // memory.alignment_bytes > MOST_PLACES:
        return 0, None
    if len(problem.graph.operators) > MOST_TILES:
        return 0, None
    if len(KeepOrDrop(problem, problem.graph.operators).gaps) > MOST_GAPS:
        return 0, None
    answer, truth = ended.answer, least_traffic(problem)
    if truth is None or answer["objective_value"] < truth or answer["lower_bound"] > truth:
        return 1, f"false bound or value: {answer['objective_value']} above {answer['lower_bound']}, truth {truth}"
    if answer["status"] == "OPTIMAL" and answer["objective_value"] != truth:
        return 1, f"false proof: {answer['objective_value']} for {truth}"
    return 1, None


def _also(facts: Facts, program: Program, ended: Ended) -> str | None:
    """Repeat the case with other names, more capacity, or a tiny time limit."""
    if facts.get("also", "nothing") == "nothing":
        return None
    changed, seconds = facts, SECONDS * 1.0
    if facts["also"] == "renamed":
        changed = {**facts, "graph": _renamed(facts["graph"])}
    elif facts["also"] == "roomier":
        changed = {**facts, "memories": [[size + alignment, alignment, h] for size, alignment, h in facts["memories"]]}
    else:
        seconds = 0.001
    network = program.write("changed.json", changed["graph"])
    again = _planned(changed, program, network, program.write("changed.yaml", _chip(changed["memories"])), seconds)
    return _fault_in_change(facts["also"], ended.answer, again)


def _fault_in_change(change: str, first: Facts, again: Ended) -> str | None:
    if change == "hurried" and again.code == 4:
        return None
    if again.code != 0:
        return f"{change}, it ends without an answer: {again.code} {again.err}"
    second, proven = again.answer, first["status"] == "OPTIMAL"
    if change == "roomier":
        return None
    if proven and second["lower_bound"] > first["objective_value"]:
        return f"{change}, a false bound: {second['lower_bound']} above {first['objective_value']}"
    if proven and second["status"] == "OPTIMAL" and second["objective_value"] != first["objective_value"]:
        return f"{change}, another optimum: {second['objective_value']} for {first['objective_value']}"
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
        for field in ("inputs", "parameters", "outputs"):
            operator[field] = [new[name] for name in operator.get(field, [])]
    return dict(text)
