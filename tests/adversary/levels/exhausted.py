"""`onchip plan` on networks of so few operators and bytes that every state of the scratchpad can be tried."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from adversary.frame import Facts, Program, Verdict
from onchip.answer.problem import Order, Problem
from onchip.arch.memory import Memory
from onchip.formats.own.graph_json import graph_to_json
from onchip.ir.graph import Graph
from onchip.model.capacity.bounds import greatest_need

ROOMY = 60


@dataclass(frozen=True, slots=True)
class ExhaustedLevel:
    """Compares the minimum traffic or arena with an exhaustive search, on graphs of a seed and a number of operators.

    `more` are the bytes beyond the need of one operator. A plan is run for `inferences` inferences.
    """

    name: str
    graph_of: Callable[[int, int], Graph]
    least_traffic: Callable[[Problem], int | None]
    least_arena: Callable[[Problem], int | None]
    operators: tuple[int, ...]
    more: tuple[int, ...]
    inferences: int = 1
    weight: float = 1.0

    def generate(self, chance: random.Random) -> Facts:
        """Make a case: a graph's seed, the order, the alignment, the capacity and the objective."""
        return {
            "graph": chance.randrange(1 << 30),
            "operators": chance.choice(self.operators),
            "order": chance.choice(("free", "given")),
            "alignment": chance.choice((1, 1, 1, 2, 3)),
            "more": chance.choice(self.more),
            "objective": chance.choice(("traffic", "traffic", "peak")),
        }

    def judge(self, facts: Facts, program: Program) -> Verdict:
        """Compare value and bound with the minimum; check and run the plan."""
        problem = self._problem(facts)
        path = program.write("graph.json", json.loads(graph_to_json(problem.graph)))
        plan = program.folder / "plan.json"
        plan.unlink(missing_ok=True)
        memory = problem.memories[0]
        room = ("--sram", memory.capacity_bytes, "--alignment", memory.alignment_bytes, "--order", facts["order"])
        asked = (
            "plan",
            path,
            *room,
            "--tiles",
            "never",
            "--objective",
            facts["objective"],
            "--share",
            "all",
            "--granularity",
            "raw",
        )
        ended = program.ask(*asked, "--json", "-o", plan)
        if ended.code == 2:
            return Verdict(refused=True)
        truth, answer = (
            (self.least_arena if facts["objective"] == "peak" else self.least_traffic)(problem),
            ended.answer,
        )
        required_bytes = answer.get("required_bytes", 0)
        if facts["objective"] == "traffic" and (required_bytes > memory.capacity_bytes) is not (truth is None):
            return Verdict(1, f"wrong M_R: {required_bytes} in {memory.capacity_bytes}, where {truth} is the least")
        if truth is None:
            is_right = answer.get("status") == "INFEASIBLE"
            return Verdict(1, None if is_right else f"plans what cannot be: {ended.out[:300]}{ended.err}")
        if answer.get("status") != "OPTIMAL" or answer.get("objective_value") != truth:
            return Verdict(1, f"not the least: {answer.get('status')} {answer.get('objective_value')} for {truth}")
        for verb, *options in (("check",), ("run", "--steps", self.inferences)):
            said = program.ask(verb, plan, path, *options)
            if said.code != 0:
                return Verdict(1, f"{verb} disagrees: {said.code} {said.out[:300]}{said.err}")
        return Verdict(1)

    def smaller(self, facts: Facts) -> Iterator[Facts]:
        """Yield the case with fewer operators, without alignment, or in the given order."""
        if facts["operators"] > 2:
            yield {**facts, "operators": facts["operators"] - 1}
        yield {**facts, "alignment": 1}
        yield {**facts, "order": "given"}

    def _problem(self, facts: Facts) -> Problem:
        graph, alignment = self.graph_of(facts["graph"], facts["operators"]), facts["alignment"]
        problem = Problem(graph, (Memory("sram", ROOMY, alignment),), order=Order(facts["order"]))
        capacity = max(1, greatest_need(problem).need_bytes + facts["more"])
        return replace(problem, memories=(Memory("sram", capacity, alignment),))
