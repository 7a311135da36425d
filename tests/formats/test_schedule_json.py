"""Schedule files: read, written and refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.document import (
    Claim,
    Document,
    Granularity,
    Reading,
    ScheduleDocument,
    Source,
    schedule_claim_figures,
)
from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.answer.problem import Count
from onchip.answer.program import Allocate, Compute, Copy, Plan
from onchip.answer.result import Status
from onchip.answer.schedule import Homes, Schedule, ScheduledMapping, ScheduledStack, ScheduleError
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Memory, Operand
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import (
    accelerator_from_yaml,
    accelerator_sha256,
    bundled_accelerators,
    load_accelerator,
)
from onchip.formats.own.schedule_json import (
    DECISIONS,
    addressed_memories,
    read_schedule,
    schedule_from_json,
    schedule_to_json,
    write_schedule,
)
from onchip.ir.graph import Graph
from onchip.ir.layer import Layer
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.layer.cost import layer_cost
from onchip.verify.schedule.machine import ScheduleSetting
from onchip.verify.schedule.verifier import verify_schedule
from support.answer_files import ANY_TEXT, INSTRUCTIONS, NAMES, accelerators, mapped_layers
from support.schedule_files import TEXT, Json, changed

WEIGHTS = Memory("weights", 1024, holds=(Operand.WEIGHT,))
MAPS = Memory("maps", 2048, 4, (Operand.INPUT, Operand.OUTPUT))
READING = Reading(8, count=Count.ALL, partial_bits=20)


def test_a_file_written_by_hand() -> None:
    document = schedule_from_json(TEXT, "s.json")
    nest = (Loop("K", 4, "lane"), Loop("C", 4), Loop("K", 2))
    mapping = LayerMapping(nest, weight=(Kept("register", 1),))
    assert document.answer == Schedule(
        (ScheduledStack(("a", "b"), Tiling(4, 72, OverlapMode.FULLY_CACHED)), ScheduledStack(("c",))),
        (ScheduledMapping(1, Layer(k=8, c=4), Homes("maps", "weights"), mapping),),
        Plan((WEIGHTS, MAPS), (Allocate("x", "maps", 4), Copy("x", "dram", "maps"), Compute("a#0"))),
    )
    assert (document.graph, document.reading) == (Source("net"), READING)
    figures = schedule_claim_figures(1500, 2, 64)
    space = {"order": "given", "stacks": "any", "tilings": "any", "homes": "any", "mappings": "any"}
    space |= {"residencies": "any", "prefetch": "none"}
    assert document.claim == Claim("composed", Status.FEASIBLE, "edp", 3000, 1, figures, space)


def test_the_program_allocates_in_the_memories_of_which_one_instance_serves_the_whole_array() -> None:
    assert addressed_memories(schedule_from_json(TEXT, "s.json").accelerator) == (WEIGHTS, MAPS)


def shown() -> str:
    """Return the file shown in the documentation."""
    formats = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
    (text,) = re.findall(r'```json\n(\{"format": "onchip-schedule".*?)```', formats, re.DOTALL)
    return str(text)


def test_the_file_shown_in_the_formats_is_rewritten_byte_for_byte() -> None:
    assert schedule_to_json(schedule_from_json(shown(), "formats.md")) == shown()


def test_the_file_shown_in_the_formats_is_legal_and_its_figures_are_counted() -> None:
    document = schedule_from_json(shown(), "formats.md")
    attributes: dict[str, AttributeValue] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    network = Graph(
        "convolution",
        (
            Tensor.of_shape("x", (1, 3, 8, 8), 8, Role.INPUT),
            Tensor.of_shape("w", (2, 3, 3, 3), 8, Role.PARAMETER),
            Tensor.of_shape("y", (1, 2, 8, 8), 8, Role.OUTPUT),
        ),
        (Operator("conv", "Conv", ("x",), ("y",), ("w",), attributes),),
    )
    setting = ScheduleSetting(network, document.accelerator, network, 24)
    verdict = verify_schedule(setting, document.answer, document.claim, price_at_home)
    assert verdict.violations == ()


@dataclass(frozen=True, slots=True)
class PriceAtHome:
    """The cost of a nest that streams no operand."""

    stated_energy_pj: float | None
    cycles: float
    dram_read_bits: int = 0
    dram_written_bits: int = 0


def price_at_home(problem: LayerProblem, mapping: LayerMapping) -> PriceAtHome:
    """Return the cost by the cost model."""
    cost = layer_cost(problem, mapping)
    return PriceAtHome(cost.energy_pj, cost.cycles)


@st.composite
def schedules(draw: st.DrawFn, accelerator: Accelerator) -> Schedule:
    names = draw(st.lists(ANY_TEXT, min_size=1, max_size=6, unique=True))
    stacks = []
    while names:
        operators = tuple(names[: draw(st.integers(1, len(names)))])
        tilings = st.builds(Tiling, st.integers(1, 99), st.integers(1, 99), st.sampled_from(OverlapMode))
        stacks.append(ScheduledStack(operators, draw(tilings if len(operators) > 1 else st.none() | tilings)))
        del names[: len(operators)]
    homes = st.builds(Homes, *[st.none() | NAMES] * 3)
    parts = st.tuples(st.integers(0, len(stacks) - 1), mapped_layers(), homes)
    drawn = draw(st.lists(parts, max_size=3, unique_by=lambda one: (one[0], one[1][0], one[2])))
    mappings = tuple(ScheduledMapping(stack, layer, homes, mapping) for stack, (layer, mapping), homes in drawn)
    instructions = tuple(draw(st.lists(INSTRUCTIONS, max_size=6)))
    return Schedule(tuple(stacks), mappings, Plan(addressed_memories(accelerator), instructions))


@st.composite
def documents(draw: st.DrawFn) -> ScheduleDocument:
    accelerator = draw(accelerators())
    sizes, values = st.none() | st.integers(1, 64), st.integers(0, 2**63 - 1)
    dims, granularity = st.dictionaries(ANY_TEXT, st.integers(1, 9), max_size=2), st.sampled_from(Granularity)
    reading = st.builds(Reading, sizes, dims, granularity, st.just(Count.ALL), partial_bits=sizes)
    figures = st.builds(schedule_claim_figures, values, values, values)
    space = st.fixed_dictionaries(dict.fromkeys(DECISIONS, ANY_TEXT))
    objective = st.sampled_from(("energy", "latency", "edp", "traffic"))
    claim = st.builds(Claim, ANY_TEXT, st.sampled_from(Status), objective, values, values, figures, space)
    graph = Source(draw(ANY_TEXT), draw(st.none() | st.just("0123456789abcdef" * 4)))
    return Document(graph, accelerator, draw(reading), draw(schedules(accelerator)), draw(st.none() | claim))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(documents())
def test_what_is_written_is_read_again(document: ScheduleDocument) -> None:
    text = schedule_to_json(document)
    read = schedule_from_json(text, "s.json")
    assert read == document
    assert schedule_to_json(read) == text


@pytest.mark.parametrize("name", bundled_accelerators())
def test_the_accelerator_is_there_as_a_whole_and_is_an_accelerator_file_by_itself(name: str) -> None:
    accelerator = load_accelerator(name)
    schedule = Schedule((ScheduledStack(("a",)),), (), Plan(addressed_memories(accelerator), ()))
    text = schedule_to_json(Document(Source("net"), accelerator, READING, schedule))
    read = schedule_from_json(text, "s.json").accelerator
    assert read == accelerator
    assert accelerator_sha256(read) == accelerator_sha256(accelerator)
    alone = json.dumps(json.loads(text)["accelerator"])
    assert accelerator_from_yaml(alone, "alone.yaml") == accelerator


def test_another_tool_may_leave_out_hash_dimensions_and_result() -> None:
    def change(schedule: Json) -> None:
        del schedule["result"], schedule["reading"]["partial_bits"]

    document = schedule_from_json(changed(change), "s.json")
    assert document.claim is None
    assert document.reading == Reading(8, count=Count.ALL)


def test_loops_that_end_short_are_named_after_the_tiles_and_only_where_there_are_any() -> None:
    assert "ragged" not in schedule_to_json(schedule_from_json(TEXT, "s.json"))
    text = changed(lambda s: s["mappings"][0].update(nest=["K4@lane", "C5", "K3"], ragged=["K", "C"]))
    document = schedule_from_json(text, "s.json")
    assert document.answer.mappings[0].mapping.ragged == ("K", "C")
    written = json.loads(schedule_to_json(document))["mappings"][0]
    assert [*written][-2:] == ["weight", "ragged"]
    assert written["ragged"] == ["K", "C"]


def test_a_program_over_other_memories_than_those_that_the_accelerator_addresses_is_not_written() -> None:
    document = schedule_from_json(TEXT, "s.json")
    program = replace(document.answer.program, memories=document.answer.program.memories[1:])
    with pytest.raises(ScheduleError, match="the program is over maps"):
        schedule_to_json(replace(document, answer=replace(document.answer, program=program)))


def test_a_name_that_is_no_unicode_text_cannot_be_written() -> None:
    document = replace(schedule_from_json(TEXT, "s.json"), graph=Source("\ud800"))
    with pytest.raises(ScheduleError, match="cannot be written"):
        schedule_to_json(document)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.update(version=2), "version is 2, newer than this onchip reads"),
        (lambda s: s.update(format="onchip-plan"), 'format is "onchip-plan"'),
        (lambda s: s["accelerator"].update(version=2), "accelerator.version is 2"),
        (lambda s: s["accelerator"]["memories"][2].update(capacity="2XB"), "accelerator.memories[2].capacity: '2XB'"),
        (lambda s: s["accelerator"]["memories"][0].update(serves=["x"]), "accelerator (memory 'register'): unknown"),
        (lambda s: s["reading"].update(partial_bits=-1), "reading.partial_bits is -1"),
        (lambda s: s["stacks"][0].update(operators=[]), "stacks[0] (stacks): a stack has no operators"),
        (lambda s: s["stacks"][0].update(tile=None), "stacks[0] has a mode and no tile"),
        (lambda s: s["stacks"][0].pop("mode"), "stacks[0] has a tile and no mode"),
        (lambda s: s["stacks"][0]["tile"].update(rows=0), "stacks[0] (tile): a tile has 0 rows"),
        (lambda s: s["stacks"][1].update(operators=["c", "d"]), "stacks[1] (stack of 'c'): 2 operators run without"),
        (lambda s: s["stacks"][1].update(operators=["b"]), "stacks: operator 'b' is in 2 stacks"),
        (lambda s: s["mappings"][0].update(stack=2), "mappings[0].stack: there is no stack 2"),
        (lambda s: s.update(stacks=[]), "mappings[0].stack: there is no stack 1"),
        (lambda s: s["mappings"].append(s["mappings"][0]), "mappings of stack 1: 2 mappings are of the same layer and"),
        (lambda s: s["mappings"][0]["layer"]["loops"].update(K=0), "mappings[0].layer (layer): K is 0"),
        (lambda s: s["mappings"][0].update(nest=["4K"]), 'mappings[0].nest[0]: "4K" is no loop'),
        (lambda s: s["mappings"][0].update(nest=[]), "mappings[0] (mapping): the tiles of weight span [1] of 0 loops"),
        (lambda s: s["mappings"][0].update(ragged=["C", "K"]), "mappings[0] (mapping): loops C, K end short"),
        (lambda s: s["mappings"][0].update(ragged=["OX"]), "mappings[0] (mapping): loops OX end short"),
        (lambda s: s["instructions"][2].update(free={"tensor": "x", "memory": "maps"}), "[2] has compute and free"),
        (lambda s: s["result"].update(objective="dram"), 'result.objective is "dram"'),
        (lambda s: s["result"].update(lower_bound=2**63), "result.lower_bound: the integer is too large"),
    ],
)
def test_a_wrong_field_is_named_in_one_line(change: Callable[[Json], object], message: str) -> None:
    with pytest.raises(InputError) as raised:
        schedule_from_json(changed(change), "bad.json")
    assert str(raised.value).startswith("bad.json: ")
    assert message in str(raised.value)
    assert raised.value.hint
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "malformed JSON"), (b"{", "line 1 column 2"), (b"[]", "expected an object"), (b"\xff", "is not UTF-8")],
)
def test_what_is_no_json_object_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_bytes(content)
    with pytest.raises(ScheduleError, match=message) as raised:
        read_schedule(file)
    assert raised.value.file == str(file)


def test_a_packed_file_that_is_cut_short_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "s.json.gz"
    write_schedule(schedule_from_json(TEXT, "s.json"), file)
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(InputError, match="cannot be read"):
        read_schedule(file)
