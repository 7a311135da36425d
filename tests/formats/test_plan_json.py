from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.document import Claim, Granularity, PlanDocument, Reading, Source
from onchip.answer.problem import Count, Objective, Placement, Problem, Rate, Recomputation, Recompute, Transfers
from onchip.answer.program import Copy, Plan
from onchip.answer.result import Status
from onchip.arch.memory import DRAM, Memory, Operand
from onchip.errors import InputError, PlanError
from onchip.formats.own.accelerator_yaml import accelerator_sha256, read_accelerator
from onchip.formats.own.graph_json import graph_sha256, read_graph
from onchip.formats.own.plan_json import plan_from_json, plan_to_json, read_plan, write_plan
from onchip.verify.verifier import verify
from support.answer_files import ANY_TEXT, INSTRUCTIONS, INTEGERS
from support.timed_problems import UNTIMED

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE = EXAMPLES / "diamond.plan.json"
Json: TypeAlias = Any
POSITIVE = st.integers(1, 2**63 - 1)
HELD = st.lists(st.sampled_from(Operand), min_size=1, unique=True).map(tuple)
MEMORIES = st.builds(Memory, ANY_TEXT.filter(lambda name: name not in ("", "dram")), POSITIVE, POSITIVE, HELD)
NOT_NEGATIVE = st.integers(0, 2**63 - 1)
RATES = st.builds(Rate, NOT_NEGATIVE, st.lists(st.tuples(POSITIVE, NOT_NEGATIVE), max_size=2).map(tuple))
READINGS = st.builds(
    Reading,
    st.none() | POSITIVE,
    st.dictionaries(ANY_TEXT, POSITIVE, max_size=2),
    st.sampled_from(Granularity),
    st.sampled_from(Count),
)
DOCUMENTS = st.builds(
    PlanDocument,
    st.builds(Source, ANY_TEXT, st.none() | st.just("0123456789abcdef" * 4)),
    st.builds(Source, ANY_TEXT),
    READINGS,
    st.builds(
        Plan,
        st.lists(MEMORIES, min_size=1, max_size=3, unique_by=lambda memory: memory.name).map(tuple),
        st.lists(INSTRUCTIONS, max_size=6).map(tuple),
    ),
    st.none() | st.builds(Claim, ANY_TEXT, st.sampled_from(Status), st.sampled_from(UNTIMED), INTEGERS, INTEGERS),
    placement=st.sampled_from(Placement),
).flatmap(lambda document: ways_of(document).map(lambda transfers: replace(document, transfers=transfers)))
SEVERAL = """{"format": "onchip-plan", "version": 1, "graph": {"name": "g"}, "accelerator": {"name": "a"},
 "reading": {"bits": null, "dims": {}, "granularity": "fused", "count": "activations"},
 "memories": [
  {"name": "left", "capacity_bytes": 8, "alignment_bytes": 1, "holds": ["input", "weight"]},
  {"name": "right", "capacity_bytes": 8, "alignment_bytes": 1}],
 "links": [
  {"source": "right", "target": "left"}],
 "rates": [
  {"source": "dram", "target": "left", "setup": 3, "terms": [{"unit_bits": 64, "cost": 2}]},
  {"source": "right", "target": "left", "setup": 0, "terms": []}],
 "placement": "static",
 "instructions": []}
"""


def ways_of(document: PlanDocument) -> st.SearchStrategy[Transfers]:
    """Return the links between the plan's scratchpads, and the optional rates of links and of DRAM transfers."""
    names = [memory.name for memory in document.answer.memories]
    pairs = [(source, target) for source in names for target in names if source != target]
    links = st.lists(st.sampled_from(pairs), unique=True, max_size=3) if pairs else st.just([])
    without_rates = (Objective.TRAFFIC, Objective.PEAK, Objective.RECOMPUTATION)
    counts_bytes = document.claim is not None and document.claim.objective in without_rates
    to_and_fro = [way for name in names for way in ((DRAM, name), (name, DRAM))]
    return links.flatmap(
        lambda chosen: st.builds(
            Transfers,
            st.just(tuple(chosen)),
            st.just({})
            if counts_bytes
            else st.dictionaries(st.sampled_from([*to_and_fro, *chosen]), RATES, max_size=3),
        )
    )


def changed(change: Callable[[Any], object]) -> str:
    document = json.loads(EXAMPLE.read_bytes())
    change(document)
    return json.dumps(document)


def test_the_example_is_rewritten_byte_for_byte(tmp_path: Path) -> None:
    write_plan(read_plan(EXAMPLE), tmp_path / "plan.json")
    assert (tmp_path / "plan.json").read_bytes() == EXAMPLE.read_bytes()


def test_the_example_is_a_legal_plan_of_the_examples_with_one_spill_and_one_reload() -> None:
    graph = read_graph(EXAMPLES / "diamond.graph.json")
    accelerator = read_accelerator(EXAMPLES / "single.accelerator.yaml")
    document = read_plan(EXAMPLE)
    assert document.graph == Source(graph.name, graph_sha256(graph))
    assert document.accelerator == Source(accelerator.name, accelerator_sha256(accelerator))
    assert document.answer.memories == accelerator.scratchpads
    assert verify(Problem(graph, accelerator.scratchpads), document.answer, document.claim).is_legal
    copies = [instruction for instruction in document.answer.instructions if isinstance(instruction, Copy)]
    assert [copy.tensor for copy in copies] == ["x", "right.out", "right.out", "y"]


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(DOCUMENTS)
def test_a_round_trip_loses_nothing(document: PlanDocument) -> None:
    text = plan_to_json(document)
    assert plan_from_json(text, "plan.json") == document
    assert plan_to_json(plan_from_json(text, "plan.json")) == text


def test_memories_that_hold_something_links_rates_and_placement_are_rewritten_byte_for_byte() -> None:
    document = plan_from_json(SEVERAL, "plan.json")
    assert document.answer.memories == (Memory("left", 8, holds=(Operand.INPUT, Operand.WEIGHT)), Memory("right", 8))
    rates = {(DRAM, "left"): Rate(3, ((64, 2),)), ("right", "left"): Rate(0, ())}
    assert document.transfers == Transfers((("right", "left"),), rates)
    assert document.placement is Placement.STATIC
    assert plan_to_json(document) == SEVERAL


def test_what_running_again_costs_is_read_and_written_where_it_is_allowed() -> None:
    plain = read_plan(EXAMPLE)
    reading = replace(plain.reading, recompute=Recompute.ALLOWED)
    document = replace(plain, reading=reading, recomputation=Recomputation({"left": 3, "right": 0}))
    text = plan_to_json(document)
    assert plan_from_json(text, "plan.json") == document
    assert plan_from_json(text, "plan.json").recomputation == document.recomputation
    fields = json.loads(text)
    del fields["recomputation"]
    assert plan_from_json(json.dumps(fields), "plan.json").recomputation == Recomputation()
    for change, message in (
        ({"recomputation": {"costs": {"left": -1}}}, "recomputation (costs.left) is -1"),
        ({"recomputation": {"costs": {}}, "reading": {}}, "recomputation is there, and nothing may run again"),
    ):
        with pytest.raises(InputError) as raised:
            plan_from_json(json.dumps(fields | change), "bad.json")
        assert message in str(raised.value)


CLAIM = {"method": "any", "status": "FEASIBLE", "objective_value": 0, "lower_bound": 0}
RATE = {"source": "dram", "target": "left", "setup": 1, "terms": []}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p["memories"][0].update(holds=[]), "memories[0] (memory 'left') holds nothing"),
        (lambda p: p["memories"][0].update(holds=["input"] * 2), "memories[0] (memory 'left'): holds lists"),
        (lambda p: p["memories"][0].update(holds=["psum"]), 'memories[0].holds[0] is "psum"'),
        (lambda p: p["links"][0].update(target="attic"), 'links[0].target is "attic"'),
        (lambda p: p["links"][0].update(source="dram"), 'links[0].source is "dram"'),
        (lambda p: p["links"][0].update(source="left"), "links[0] leads nowhere"),
        (lambda p: p["links"].append(p["links"][0]), 'links[1] is the second from "right" to "left"'),
        (lambda p: p["rates"][0].update(source="attic"), 'rates[0].source is "attic"'),
        (lambda p: p["rates"][0].update(target="dram"), "rates[0] leads nowhere"),
        (lambda p: p["rates"].append(RATE), 'rates[2] is the second from "dram" to "left"'),
        (lambda p: p.pop("links"), 'rates[1]: no link leads from "right" to "left"'),
        (lambda p: p["rates"][0].update(setup=-1), "rates[0]: a transfer's rate is negative"),
        (lambda p: p.update(placement="fixed"), 'placement is "fixed"'),
        (
            lambda p: p.update(result=CLAIM | {"objective": "traffic"}),
            "rates: there are rates, and the objective is tr",
        ),
        (
            lambda p: p.update(result=CLAIM | {"objective": "peak"}),
            "rates: there are rates, and the objective is peak,",
        ),
    ],
)
def test_a_wrong_field_about_several_scratchpads_is_named(change: Callable[[Any], object], message: str) -> None:
    document = json.loads(SEVERAL)
    change(document)
    with pytest.raises(InputError) as raised:
        plan_from_json(json.dumps(document), "bad.json")
    assert str(raised.value).startswith("bad.json: ")
    assert message in str(raised.value)


@pytest.mark.parametrize("objective", ["dma-cycles", "dma-energy"])
def test_rates_stand_with_an_objective_that_has_them(objective: str) -> None:
    document = plan_from_json(
        json.dumps(json.loads(SEVERAL) | {"result": CLAIM | {"objective": objective}}), "plan.json"
    )
    assert document.claim is not None
    assert document.claim.objective == objective


def test_another_tool_may_leave_out_hashes_reading_and_result() -> None:
    def change(plan: Json) -> None:
        for name in ("reading", "result"):
            del plan[name]
        del plan["graph"]["sha256"], plan["accelerator"]["sha256"], plan["memories"][0]["alignment_bytes"]

    document = plan_from_json(changed(change), "plan.json")
    assert document.graph == Source("diamond")
    assert document.reading == Reading()
    assert document.claim is None
    assert document.answer.memories == (Memory("sram", 10240),)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p.update(version=2), "version is 2, newer than this onchip reads"),
        (lambda p: p["reading"].update(bits=0), "reading.bits is 0"),
        (lambda p: p["reading"].update(dims={"n": -1}), "reading.dims.n is -1"),
        (lambda p: p["reading"].update(granularity="fine"), 'reading.granularity is "fine"'),
        (lambda p: p.update(memories=[]), "memories is empty"),
        (lambda p: p["memories"].append(p["memories"][0]), 'memories: 2 memories have the name "sram"'),
        (lambda p: p["memories"][0].update(name="dram"), "memories[0] (memory 'dram'): the name is reserved"),
        (lambda p: p["memories"][0].update(capacity_bytes="2MiB"), 'memories[0].capacity_bytes is "2MiB"'),
        (lambda p: p["instructions"].insert(1, {}), "instructions[1] has no field"),
        (lambda p: p["instructions"][3].update(free={"tensor": "x", "memory": "sram"}), "has compute and free"),
        (lambda p: p["result"].update(status="optimal"), 'result.status is "optimal"'),
    ],
)
def test_a_wrong_field_is_named(change: Callable[[Any], object], message: str) -> None:
    with pytest.raises(InputError) as raised:
        plan_from_json(changed(change), "bad.json")
    assert str(raised.value).startswith("bad.json: ")
    assert message in str(raised.value)


def test_a_name_that_is_no_unicode_text_cannot_be_written() -> None:
    document = replace(read_plan(EXAMPLE), graph=Source("\ud800"))
    with pytest.raises(PlanError, match="cannot be written"):
        plan_to_json(document)
