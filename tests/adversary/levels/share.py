"""`onchip plan --share`: outputs in bytes of inputs, against every state of the scratchpad."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from adversary.frame import Facts, Program, Verdict
from onchip.answer.problem import Order, Problem
from onchip.arch.memory import Memory
from onchip.facts.bounds import greatest_need
from onchip.formats.own.graph_json import graph_to_json
from onchip.ir.graph import Graph
from oracles.shared_bytes import least_shared_arena, least_shared_traffic, random_sharing_graph

ROOMY = 60


@dataclass(frozen=True, slots=True)
class ShareLevel:
    """Networks of few operators over few bytes, half of them in place, some that join or take apart."""

    name: str = "share"
    weight: float = 1.0

    def generate(self, chance: random.Random) -> Facts:
        """A seed of a graph, the order, the alignment, and how much room there is beyond what is needed."""
        return {
            "graph": chance.randrange(1 << 30),
            "operators": chance.choice((2, 3, 4, 5, 5)),
            "order": chance.choice(("free", "given")),
            "alignment": chance.choice((1, 1, 1, 2, 3)),
            "more": chance.choice((-1, 0, 0, 0, 1, 2, 4)),
            "objective": chance.choice(("traffic", "traffic", "peak")),
        }

    def judge(self, facts: Facts, program: Program) -> Verdict:
        """Compare value and bound with the least that there is; check and run what is found."""
        graph = random_sharing_graph(facts["graph"], facts["operators"])
        problem = self._problem(graph, facts)
        path = program.write("graph.json", json.loads(graph_to_json(graph)))
        plan = program.folder / "plan.json"
        plan.unlink(missing_ok=True)
        memory = problem.memories[0]
        room = ("--sram", memory.capacity_bytes, "--alignment", memory.alignment_bytes, "--order", facts["order"])
        asked = ("plan", path, *room, "--objective", facts["objective"], "--share", "all", "--granularity", "raw")
        ended = program.ask(*asked, "--json", "-o", plan)
        if ended.code == 2:
            return Verdict(refused=True)
        is_peak = facts["objective"] == "peak"
        truth = least_shared_arena(problem) if is_peak else least_shared_traffic(problem)
        answer = ended.answer
        if truth is None:
            is_right = answer.get("status") == "INFEASIBLE"
            return Verdict(1, None if is_right else f"plans what cannot be: {ended.out[:300]}{ended.err}")
        if answer.get("status") != "OPTIMAL" or answer.get("objective_value") != truth:
            return Verdict(1, f"not the least: {answer.get('status')} {answer.get('objective_value')} for {truth}")
        for verb in ("check", "run"):
            said = program.ask(verb, plan, path)
            if said.code != 0:
                return Verdict(1, f"{verb} disagrees: {said.code} {said.out[:300]}{said.err}")
        return Verdict(1)

    def smaller(self, facts: Facts) -> Iterator[Facts]:
        """Yield the case with fewer operators, or asked plainly."""
        if facts["operators"] > 2:
            yield {**facts, "operators": facts["operators"] - 1}
        yield {**facts, "alignment": 1}
        yield {**facts, "order": "given"}

    def _problem(self, graph: Graph, facts: Facts) -> Problem:
        alignment = facts["alignment"]
        problem = Problem(graph, (Memory("sram", ROOMY, alignment),), order=Order(facts["order"]))
        capacity = max(1, greatest_need(problem).need_bytes + facts["more"])
        return replace(problem, memories=(Memory("sram", capacity, alignment),))
