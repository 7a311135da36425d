"""`onchip plan` of networks with state, against every state of the scratchpad with each kept at every offset."""

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
from oracles.states import least_arena_with_states, least_traffic_with_states, random_graph_with_states

ROOMY = 60
INFERENCES = 3


@dataclass(frozen=True, slots=True)
class StateLevel:
    """Networks of few operators over few bytes, one or two of whose outputs are kept for the next inference."""

    name: str = "state"
    weight: float = 1.0

    def generate(self, chance: random.Random) -> Facts:
        """A seed of a graph, the order, the alignment, and how much room there is beside what one operator needs."""
        return {
            "graph": chance.randrange(1 << 30),
            "operators": chance.choice((2, 3, 3)),
            "order": chance.choice(("free", "given")),
            "alignment": chance.choice((1, 1, 2, 3)),
            "more": chance.choice((-2, -1, 0, 0, 1, 2, 3)),
            "objective": chance.choice(("traffic", "traffic", "peak")),
        }

    def judge(self, facts: Facts, program: Program) -> Verdict:
        """Compare value and bound with the least that there is; check and run what is found."""
        problem = self._problem(facts)
        path = program.write("graph.json", json.loads(graph_to_json(problem.graph)))
        plan = program.folder / "plan.json"
        plan.unlink(missing_ok=True)
        memory = problem.memories[0]
        room = ("--sram", memory.capacity_bytes, "--alignment", memory.alignment_bytes, "--order", facts["order"])
        asked = ("plan", path, *room, "--objective", facts["objective"], "--share", "all", "--granularity", "raw")
        ended = program.ask(*asked, "--json", "-o", plan)
        least = least_arena_with_states if facts["objective"] == "peak" else least_traffic_with_states
        truth, answer = least(problem), ended.answer
        if truth is None:
            is_right = answer.get("status") == "INFEASIBLE"
            return Verdict(1, None if is_right else f"plans what cannot be: {ended.out[:300]}{ended.err}")
        if answer.get("status") != "OPTIMAL" or answer.get("objective_value") != truth:
            return Verdict(1, f"not the least: {answer.get('status')} {answer.get('objective_value')} for {truth}")
        for verb, *more in (("check",), ("run", "--steps", INFERENCES)):
            said = program.ask(verb, plan, path, *more)
            if said.code != 0:
                return Verdict(1, f"{verb} disagrees: {said.code} {said.out[:300]}{said.err}")
        return Verdict(1)

    def smaller(self, facts: Facts) -> Iterator[Facts]:
        """Yield the case with fewer operators, or asked plainly."""
        if facts["operators"] > 2:
            yield {**facts, "operators": facts["operators"] - 1}
        yield {**facts, "alignment": 1}
        yield {**facts, "order": "given"}

    def _problem(self, facts: Facts) -> Problem:
        graph = random_graph_with_states(facts["graph"], facts["operators"], greatest_size=2)
        alignment = facts["alignment"]
        problem = Problem(graph, (Memory("sram", ROOMY, alignment),), order=Order(facts["order"]))
        capacity = max(1, greatest_need(problem).need_bytes + facts["more"])
        return replace(problem, memories=(Memory("sram", capacity, alignment),))
