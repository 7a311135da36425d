"""`onchip plan --objective latency` with one to three scratchpads: plans, bounds and infeasibility, in any machine."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from adversary.frame import Ended, Facts, Json, Program, Verdict
from adversary.levels.scratchpads import ScratchpadsLevel, all_fit, fit, new_accelerator, new_graph
from onchip.answer.problem import Count, Durations, Objective, Order, Problem, Rate, Transfers
from onchip.answer.program import Allocate, Compute, Copy, Free, Instruction
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.ir.graph import Graph
from onchip.ir.operator import Operator, StatedCost
from onchip.ir.tensor import Role, Tensor
from oracles.byte_clock import clocked
from oracles.least_latency import TooManyProgramsError, some_program_ends_before
from oracles.machine import Machine, Net
from oracles.replay import IllegalError, replayed

MOST_STATES: Final = 1_500


@dataclass(frozen=True, slots=True)
class LatencyLevel:
    """Tiny networks with stated cycles, in memories just large enough for each operator, or a little larger."""

    name: str = "latency"
    weight: float = 0.5

    def generate(self, chance: random.Random) -> Facts:
        """Make a case."""
        accelerator = new_accelerator(chance, "dma-cycles")
        if chance.random() < 0.5:
            graph = new_graph(chance, "all")
        else:
            graph = _graph_with_skips(chance)
            if chance.random() < 0.7:
                accelerator = _with_one_scratchpad(accelerator)
        for operator in graph["operators"]:
            operator["cycles"] = chance.choice((1, 1, 2, 3, 5, 9, 20))
        fit(chance, accelerator, Net.of_graph(graph, "all"))
        accelerator["dma"]["queues"] = chance.choice((1, 1, 2, 3))
        if chance.random() < 0.4:
            bits = accelerator["dram"]["ports"][0]["bits_per_cycle"]
            ways = ({"direction": one, "bits_per_cycle": bits} for one in ("read", "write"))
            accelerator["dram"]["ports"] = list(ways)
        order, limit = chance.choice(("free", "given")), chance.choice((0.001, 0.02, 0.02, 0.1))
        return {"graph": graph, "accelerator": accelerator, "order": order, "limit": limit}

    def judge(self, facts: Facts, program: Program) -> Verdict:
        """Hold bound and infeasibility against all programs, and the plan against a replay and a clock of bytes."""
        graph = program.write("graph.json", facts["graph"])
        machine = program.write("machine.yaml", facts["accelerator"])
        plan = program.folder / "plan.json"
        plan.unlink(missing_ok=True)
        asked = ("--objective", "latency", "--order", facts["order"], "--time-limit", facts["limit"])
        ended = program.ask("plan", graph, "--accelerator", machine, "--tiles", "never", *asked, "-o", plan, "--json")
        if ended.code == 2:
            return Verdict(refused=True)
        net = Net.of_graph(facts["graph"], "all")
        are_fitting = all_fit(Machine.of_accelerator(facts["accelerator"], net, "traffic"), net)
        if ended.code == 3:
            return Verdict(1, "false infeasibility: each operator fits" if are_fitting else None)
        if ended.code != 0 or not are_fitting:
            return Verdict(1, f"ends without an answer: {ended.code} {ended.err[-300:]}")
        return _judged(facts, ended, json.loads(plan.read_text()))

    def smaller(self, facts: Facts) -> Iterator[Facts]:
        """Yield the case without one operator, or without an unused tensor."""
        return (one for one in ScratchpadsLevel().smaller(facts) if one["graph"] != facts["graph"])


def _graph_with_skips(chance: random.Random) -> Json:
    """Return a chain of operators with a tensor that is read early and late, and an operator of many bytes between."""
    length = chance.choice((4, 4, 5, 5, 6))
    skipped, wide = chance.randrange(length - 3), chance.randrange(length - 2, length)
    tensors, operators, last = [_tensor("x", 1, "input")], [], "x"
    for index in range(length):
        inputs, outputs = [last], [f"t{index}"]
        if index == length - 1 or chance.random() < 0.1:
            inputs = list(dict.fromkeys([last, f"t{min(skipped, index - 1)}"] if index else [last]))
        sizes = [chance.choice((2, 3, 4)) if index in (skipped, wide - 1) else chance.choice((1, 1, 2))]
        if index == wide - 1 or chance.random() < 0.1:
            outputs, sizes = [f"v{index}", *outputs], [chance.choice((2, 3, 4)), 1]
        tensors += [_tensor(name, size, "activation") for name, size in zip(outputs, sizes, strict=True)]
        weights = [f"w{index}"] if chance.random() < 0.3 else []
        tensors += [_tensor(name, chance.choice((1, 1, 2)), "parameter") for name in weights]
        names = {"name": f"o{index}", "kind": "Op", "inputs": inputs, "parameters": weights, "outputs": outputs}
        operators.append(names)
        last = outputs[-1]
    read = [name for one in operators for name in one["inputs"]]
    for tensor in tensors:
        if tensor["role"] == "activation" and tensor["name"] not in read:
            tensor["role"] = "output"
    return {"format": "onchip-graph", "version": 1, "name": "skips", "tensors": tensors, "operators": operators}


def _with_one_scratchpad(accelerator: Json) -> Json:
    first = {key: value for key, value in accelerator["memories"][0].items() if key != "holds"}
    return {key: value for key, value in accelerator.items() if key != "links"} | {"memories": [first]}


def _tensor(name: str, size_bytes: int, role: str) -> Json:
    return {"name": name, "bytes": size_bytes, "role": role}


def _judged(facts: Facts, ended: Ended, plan: Json) -> Verdict:
    net = Net.of_graph(facts["graph"], "all")
    machine = Machine.of_accelerator(facts["accelerator"], net, "traffic")
    value, bound = ended.answer["objective_value"], ended.answer["lower_bound"]
    try:
        replayed(plan, net, machine, objective="traffic", order=facts["order"], placement="dynamic")
    except IllegalError as error:
        return Verdict(1, f"illegal plan: {error}")
    problem = _problem(facts)
    ends = clocked(problem, tuple(map(_instruction, plan["instructions"])))
    if ends != value:
        return Verdict(1, f"wrong value: {value} for {ends}")
    if bound > value or (ended.answer["status"] == "OPTIMAL") != (bound == value):
        return Verdict(1, f"unfounded status: {ended.answer['status']} with {bound} below {value}")
    try:
        is_false = some_program_ends_before(problem, bound, MOST_STATES)
    except TooManyProgramsError:
        return Verdict()
    kind = "proof" if ended.answer["status"] == "OPTIMAL" else "bound"
    return Verdict(1, f"false {kind}: some program ends before {bound}" if is_false else None)


def _instruction(line: Json) -> Instruction:
    ((kind, fields),) = line.items()
    kinds = {"allocate": Allocate, "copy": Copy, "free": Free}
    made: Instruction = Compute(fields) if kind == "compute" else kinds[kind](**fields)
    return made


def _problem(facts: Facts) -> Problem:
    """Return the case as a problem, without the program's readers."""
    graph, accelerator = facts["graph"], facts["accelerator"]
    tensors = tuple(Tensor(one["name"], one["bytes"], Role(one["role"])) for one in graph["tensors"])
    operators = tuple(
        Operator(
            one["name"],
            one["kind"],
            tuple(one["inputs"]),
            tuple(one["outputs"]),
            tuple(one["parameters"]),
            stated=StatedCost(one["cycles"]),
        )
        for one in graph["operators"]
    )
    memories = tuple(
        Memory(one["name"], one["capacity"], one["alignment"], tuple(map(Operand, one.get("holds", Operand))))
        for one in accelerator["memories"]
    )
    setup_cycles = accelerator["dma"]["setup_cycles"]
    ports = accelerator["dram"]["ports"]
    has_one_channel = any(port["direction"] == "read_write" for port in ports)
    durations = Durations({}, accelerator["dma"]["queues"], setup_cycles, has_one_channel)
    transfers = _transfers(accelerator, setup_cycles)
    asked = (Objective.LATENCY, Order(facts["order"]), Count.ALL)
    return Problem(Graph("odd", tensors, operators), memories, *asked, transfers, durations=durations)


def _transfers(accelerator: Json, setup_cycles: int) -> Transfers:
    ports = {one["name"]: one["ports"][0]["bits_per_cycle"] for one in accelerator["memories"]}
    ports[DRAM] = accelerator["dram"]["ports"][0]["bits_per_cycle"]
    links = {(one["source"], one["target"]): one["bits_per_cycle"] for one in accelerator.get("links", [])}
    names = [name for name in ports if name != DRAM]
    ways = [*((DRAM, name) for name in names), *((name, DRAM) for name in names), *links]
    fastest = max(ports.values())
    rates = {
        way: Rate(setup_cycles, ((min(*(ports[end] for end in way), links.get(way, fastest)), 1),)) for way in ways
    }
    return Transfers(tuple(links), rates)
