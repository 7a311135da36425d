"""Reports of small networks, made as the program makes them."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from onchip.answer.document import Claim, PlanDocument, Reading, Source
from onchip.answer.problem import Order, Problem
from onchip.api.plan import plan_problem
from onchip.arch.memory import Memory
from onchip.formats.own.graph_json import graph_from_json, graph_sha256
from onchip.ir.graph import Graph
from onchip.model.capacity.bounds import greatest_need
from onchip.reports.program.outcome import Findings, Outcome
from onchip.verify.verifier import verify
from support.diamond import Json, diamond_fields

FACTS = re.compile(r'<script type="application/json" id="facts">(.*?)</script>', re.DOTALL)


def diamond_graph(**renamed: str) -> Graph:
    """Return the diamond, with tensors renamed."""
    text = json.dumps(diamond_fields())
    for name, other in renamed.items():
        text = text.replace(f'"{name}"', json.dumps(other))
    return graph_from_json(text, "diamond")


def findings_of(graph: Graph, capacity_bytes: int, method: str = "exact") -> Findings:
    """Return the findings that a report shows for the plan of a method."""
    order = Order.FREE if method == "exact" else Order.GIVEN
    problem = Problem(graph, (Memory("sram", capacity_bytes),), order=order)
    result = plan_problem(problem, method)
    assert result.answer is not None
    assert result.objective_value is not None
    claim = Claim(method, result.status, problem.objective, result.objective_value, result.lower_bound)
    source = Source(graph.name, graph_sha256(graph))
    document = PlanDocument(source, Source("sram"), Reading(), result.answer, claim)
    figures = verify(problem, result.answer, claim).figures
    return Findings(problem, document, figures, greatest_need(problem), "onchip report plan.json diamond.json")


def findings_of_outcome(outcome: Outcome) -> Findings:
    """Return the findings that a report shows for a plan of the pipeline."""
    assert outcome.document is not None
    assert outcome.figures is not None
    return Findings(outcome.problem, outcome.document, outcome.figures, outcome.required, "onchip plan")


def in_two_scratchpads(findings: Findings) -> Findings:
    """Return the same plan with a second scratchpad, which stays empty."""
    memories = (*findings.problem.memories, Memory("other", 64))
    plan = replace(findings.document.answer, memories=memories)
    problem = replace(findings.problem, memories=memories)
    return replace(findings, problem=problem, document=replace(findings.document, answer=plan))


def facts_of(page: str) -> Json:
    """Return the data that the page's script reads."""
    found = FACTS.search(page)
    assert found is not None
    facts = json.loads(found[1])
    assert isinstance(facts, dict)
    return facts
