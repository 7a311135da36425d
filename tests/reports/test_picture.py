from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from onchip.answer.problem import Problem
from onchip.answer.program import Plan
from onchip.answer.result import Result, Status
from onchip.api.plan import plan_problem
from onchip.arch.memory import Memory
from onchip.reports.picture import COLOURS, HEIGHT_OF_A_MAP, _addresses, _size, _ticks, svg_of_plan
from support.programs import HELD, TWO_SCRATCHPADS
from support.reports import diamond_graph

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def result() -> Result[Plan]:
    return plan_problem(Problem(diamond_graph(), (Memory("sram", 130),)))


@pytest.fixture(scope="module")
def plan(result: Result[Plan]) -> Plan:
    assert result.answer is not None
    return result.answer


def rectangles(svg: str) -> dict[str, tuple[float, float, float, float]]:
    """Return left, top, right and bottom of each residency by its title."""
    found = {}
    for rectangle in ET.fromstring(svg).iter(f"{SVG}rect"):
        title = rectangle.find(f"{SVG}title")
        if title is not None and title.text is not None:
            x, y, width, height = (float(rectangle.attrib[name]) for name in ("x", "y", "width", "height"))
            found[title.text] = (x, y, x + width, y + height)
    return found


def test_each_residency_is_a_rectangle_and_none_overlap(plan: Plan) -> None:
    drawn = rectangles(svg_of_plan(plan, plan.problem))

    assert len(drawn) == 6  # five tensors, and one of them is reloaded
    assert "x, 40 bytes at " in " ".join(drawn)
    for a in drawn.values():
        for b in drawn.values():
            assert a == b or not (a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3])


def test_heights_are_in_proportion_to_bytes(plan: Plan) -> None:
    drawn = {title.split(",")[0]: box for title, box in rectangles(svg_of_plan(plan, plan.problem)).items()}
    gap = 0.6
    height = {name: bottom - top + gap for name, (_, top, _, bottom) in drawn.items()}

    assert height["s"] / height["x"] == pytest.approx(60 / 40, rel=0.01)


def colours(svg: str) -> dict[str, str]:
    """Map the beginning of each residency's title to its colour."""
    found = {}
    for rectangle in ET.fromstring(svg).iter(f"{SVG}rect"):
        title = rectangle.find(f"{SVG}title")
        if title is not None and title.text is not None:
            found[title.text] = rectangle.attrib["fill"]
    return found


def test_a_moved_tensor_has_a_colour_of_its_own_and_a_second_place_has_not() -> None:
    drawn = colours(svg_of_plan(HELD.plan, HELD.problem))
    assert drawn["a, 3 bytes at 5, steps 0 to 0"] == COLOURS["activation"]
    assert drawn["a, 3 bytes at 4, steps 1 to 1"] == COLOURS["moved"]

    both = colours(svg_of_plan(TWO_SCRATCHPADS.plan, TWO_SCRATCHPADS.problem))
    assert {colour for title, colour in both.items() if title.startswith("y,")} == {COLOURS["output"]}


def test_each_map_says_what_its_scratchpad_holds() -> None:
    svg = svg_of_plan(HELD.plan, HELD.problem)

    for words in ("weights, 8 bytes, for weight<", "inputs, 12 bytes, for input<", "outputs, 12 bytes, for output<"):
        assert words in svg
    assert "for " not in svg_of_plan(TWO_SCRATCHPADS.plan, TWO_SCRATCHPADS.problem)


def test_what_came_back_is_in_the_legend(plan: Plan) -> None:
    assert "came back" in svg_of_plan(plan, plan.problem)
    roomy = plan_problem(Problem(diamond_graph(), (Memory("sram", 1000),))).answer
    assert roomy is not None
    assert "came back" not in svg_of_plan(roomy, roomy.problem)


def test_a_plan_without_its_problem_is_lines_at_the_offsets_and_says_so(plan: Plan) -> None:
    alone = replace(plan, problem=None)

    assert all(
        bottom - top == pytest.approx(1.5) for _, top, _, bottom in rectangles(svg_of_plan(alone, None)).values()
    )
    assert "knows no sizes" in alone._repr_html_()
    assert "knows no sizes" not in plan._repr_html_()


def test_knowing_its_problem_makes_no_other_plan(plan: Plan) -> None:
    assert replace(plan, problem=None) == plan


def test_each_scratchpad_has_a_map(plan: Plan) -> None:
    assert plan.problem is not None
    memories = (*plan.memories, Memory("other", 7))
    root = ET.fromstring(svg_of_plan(replace(plan, memories=memories), replace(plan.problem, memories=memories)))

    assert float(root.attrib["height"]) > 2 * HEIGHT_OF_A_MAP
    assert {"sram, 130 bytes", "other, 7 bytes"} <= {text.text for text in root.iter(f"{SVG}text")}


def test_a_notebook_shows_what_is_known_and_the_plan(result: Result[Plan]) -> None:
    html = result._repr_html_()

    assert "OPTIMAL" in html
    assert "objective value 100" in html
    assert "<svg" in html


def test_a_result_without_an_answer_has_no_picture() -> None:
    result: Result[Plan] = Result(Status.INFEASIBLE, None, None, 7, 0.5, "exact")
    html = result._repr_html_()

    assert "INFEASIBLE" in html
    assert "<svg" not in html


def test_names_are_escaped() -> None:
    plan = plan_problem(Problem(diamond_graph(s="<&>"), (Memory("sram", 1000),))).answer
    assert plan is not None

    ET.fromstring(svg_of_plan(plan, plan.problem))


@pytest.mark.parametrize("steps", [1, 2, 12, 13, 39, 100, 890, 12_345])
def test_ticks_are_few_and_evenly_spaced(steps: int) -> None:
    ticks = list(_ticks(steps))

    assert 1 <= len(ticks) <= 13
    assert len({after - before for before, after in pairwise(ticks)}) <= 1


@pytest.mark.parametrize("capacity_bytes", [1, 2, 3, 130, 1024, 3_928_576])
def test_addresses_are_few_multiples_of_a_power_of_two(capacity_bytes: int) -> None:
    addresses = list(_addresses(capacity_bytes))

    assert addresses[0] == 0
    assert len(addresses) <= 7


def test_sizes_have_units() -> None:
    assert [_size(size) for size in (0, 5, 2048, 3 * 2**20, 2**30)] == ["0", "5 B", "2 KiB", "3 MiB", "1 GiB"]
