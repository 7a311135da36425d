from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onchip.answer.packing import Buffer, Packing, PackingProblem
from onchip.answer.problem import Count, Objective, Order
from onchip.answer.result import Status
from onchip.api.pack import smallest_arena
from onchip.api.plan import Request
from onchip.api.target import Target
from onchip.backends.tflm.export_arena import arena_taken, export_arena, lower_bound_bytes
from onchip.errors import InternalError
from onchip.formats.networks import read_tflite_network
from onchip.formats.tflite.arena import ArenaContents, arena_contents, read_arena_plan
from onchip.verify.packing import verify_packing
from support.arena_exports import MICRO, ROOM, chain, edited, exported, planned, refused
from support.micro_models import branches, int8, int8_constant, random_model
from support.tflite_models import TfliteModel, TfliteOperator, TfliteTensor, handle, network, with_variables


@pytest.mark.parametrize("seed", range(20))
def test_every_model_written_is_legal_and_never_larger_than_by_the_runtimes_own_planner(
    seed: int, tmp_path: Path
) -> None:
    export = exported(random_model(Random(seed)).write(tmp_path / "m.tflite"))
    assert export.lower_bound_bytes <= export.arena_bytes <= export.greedy_bytes
    assert export.status is Status.OPTIMAL


def test_views_lie_where_their_source_does(tmp_path: Path) -> None:
    operators = [
        TfliteOperator("RELU", ["x"], ["a"]),
        TfliteOperator("RESHAPE", ["a"], ["v"]),
        TfliteOperator("RELU", ["v"], ["y"]),
    ]
    tensors = [int8("x", 1, 64), int8("a", 1, 64), int8("v", 64, 1), int8("y", 64, 1)]
    export = exported(network(tensors, operators, ["x"], ["y"]).write(tmp_path / "m.tflite"))
    assert export.arena_bytes == 128
    assert ("a", "v") in read_arena_plan(tmp_path / "planned.tflite").names


def late_input() -> TfliteModel:
    """Return a network whose second input is read last: a plan loads it late, but the runtime has it from the start."""
    operators = [TfliteOperator("RELU", ["x"], ["a"]), TfliteOperator("ADD", ["a", "late"], ["y"], ("AddOptions", {}))]
    tensors = [int8("late", 1, 64), int8("x", 1, 64), int8("a", 1, 64), int8("y", 1, 64)]
    return network(tensors, operators, ["x", "late"], ["y"])


def test_an_input_that_a_plan_loads_late_is_there_from_the_start(tmp_path: Path) -> None:
    export = exported(late_input().write(tmp_path / "m.tflite"))
    assert export.arena_bytes == export.greedy_bytes == 192
    plan = read_arena_plan(tmp_path / "planned.tflite")
    begun = {names[0]: buffer.start for names, buffer in zip(plan.names, plan.buffers, strict=True)}
    assert begun == {"late": 0, "x": 0, "a": 1, "y": 2}


def test_a_scratch_buffer_is_part_of_what_is_promised(tmp_path: Path) -> None:
    """The mean needs sums, an iterator and axes: 4 x 64, and twice 4 to 8 bytes, each rounded up to 16."""
    axis = TfliteTensor("axis", [1], "INT32", int8_constant("", Random(0), 1).data.astype("<i4") * 0)  # type: ignore[union-attr]
    operators = [TfliteOperator("MEAN", ["x", "axis"], ["y"], ("ReducerOptions", {"KeepDims": True}))]
    model = network([int8("x", 2, 64), axis, int8("y", 1, 64)], operators, ["x"], ["y"])
    export = exported(model.write(tmp_path / "m.tflite"))
    assert (export.tensors_bytes, export.most_scratch_bytes) == (192, 4 * 64 + 8 + 4)
    assert export.arena_bytes == 192 + 4 * 64 + 16 + 16


def least_of_all_orders(model: Path) -> int:
    """Return the smallest lower bound over all orders in which the file's operators can run, exhaustively."""
    read = read_tflite_network(model)
    operators = read.network.operators
    writer = {index: at for at, operator in enumerate(operators) for index in operator.outputs}
    before = [{writer[index] for index in operator.inputs if index in writer} for operator in operators]

    def orders(done: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(done) == len(operators):
            yield done
        for at in range(len(operators)):
            if at not in done and before[at] <= set(done):
                yield from orders((*done, at))

    return min(lower_bound_bytes(arena_contents(read, order)) for order in orders(()))


@pytest.mark.parametrize("seed", range(200, 230))
def test_no_order_of_the_operators_has_a_smaller_arena(seed: int, tmp_path: Path) -> None:
    model = random_model(Random(seed), most_operators=6).write(tmp_path / "m.tflite")
    assert exported(model).arena_bytes == least_of_all_orders(model)


def test_operators_that_move_lower_the_peak(tmp_path: Path) -> None:
    export = exported(branches().write(tmp_path / "m.tflite"))
    assert (export.arena_bytes, export.greedy_bytes) == (1024 + 4096 + 3 * 64, 1024 + 4 * 4096)
    model = tmp_path / "m.tflite"
    given = exported(model, Request(str(model), MICRO, ROOM, Objective.PEAK, Order.GIVEN))
    assert (given.arena_bytes, given.moved_operators) == (1024 + 4 * 4096, 0)


def test_a_custom_operators_scratch_buffers_are_said_to_be_unknown(tmp_path: Path) -> None:
    operators = [TfliteOperator("CUSTOM", ["x"], ["y"], custom="mine")]
    export = exported(
        network([int8("x", 1, 64), int8("y", 1, 64)], operators, ["x"], ["y"]).write(tmp_path / "m.tflite")
    )
    assert export.not_modelled == ("y",)


@pytest.mark.parametrize("seed", [102, 106, 107, 119])
def test_an_order_that_was_given_is_not_searched_for(seed: int, tmp_path: Path) -> None:
    model = random_model(Random(seed)).write(tmp_path / "m.tflite")
    assert exported(model).moved_operators
    assert not exported(model, Request(str(model), MICRO, ROOM, Objective.PEAK, Order.GIVEN)).moved_operators


STEPS = 4


def contents(buffers: list[Buffer], scratch: list[list[int]]) -> ArenaContents:
    """Return arena contents of tensors with separate bytes, and the sizes of scratch buffers by step."""
    groups = tuple((index,) for index in range(len(buffers)))
    asked = [tuple(Buffer(step, step + 1, size) for size in sizes) for step, sizes in enumerate(scratch)]
    return ArenaContents(groups, tuple(buffers), tuple(asked))


@settings(max_examples=60)
@given(st.data())
def test_no_legal_places_take_less_than_the_lower_bound(data: st.DataObject) -> None:
    sizes = st.integers(1, 100)
    lives = st.tuples(st.integers(0, STEPS - 1), st.integers(1, STEPS))
    made = data.draw(st.lists(st.tuples(lives, sizes), min_size=1, max_size=5))
    buffers = [Buffer(start, start + length, size) for (start, length), size in made]
    asked = contents(buffers, data.draw(st.lists(st.lists(sizes, max_size=3), min_size=STEPS, max_size=STEPS)))
    sized = [*asked.buffers, *(one for some in asked.scratch for one in some)]
    units = tuple(replace(one, size_bytes=-(-one.size_bytes // 16)) for one in sized)
    offsets, end, bound = smallest_arena(PackingProblem(units, 1))
    tensors = offsets[: len(asked.buffers)]
    taken = arena_taken(asked, tensors)
    placed = Packing(tuple(16 * at for at in tensors))
    assert not verify_packing(PackingProblem(asked.buffers, 16 * taken, 16), placed)
    assert 16 * bound == lower_bound_bytes(asked) <= 16 * min(end, taken, arena_taken(asked, ()))


def test_a_model_that_has_changed_since_and_another_model_are_refused(tmp_path: Path) -> None:
    model = chain(tmp_path)
    plan = planned(model)
    chain(tmp_path, length=80)
    assert "is for another network than" in refused(plan, model)
    branches().write(model)
    assert str(plan) in refused(plan, model)


def test_a_plan_that_the_runtime_cannot_obey_is_refused(tmp_path: Path) -> None:
    model = chain(tmp_path)
    raw = replace(MICRO, runtime=None)
    assert "the plan is for no runtime" in refused(planned(model, Request(str(model), raw, ROOM)), model)
    every = replace(MICRO, count=Count.ALL)
    assert "the plan's count" in refused(planned(model, Request(str(model), every, ROOM)), model)


def test_a_plan_that_spills_is_refused(tmp_path: Path) -> None:
    operators = [
        TfliteOperator("RELU", ["x"], ["a"]),
        TfliteOperator("RELU", ["a"], ["b"]),
        TfliteOperator("RELU", ["b"], ["c"]),
        TfliteOperator("ADD", ["a", "c"], ["y"], ("AddOptions", {})),
    ]
    model = network([int8(name, 1, 64) for name in "xabcy"], operators, ["x"], ["y"]).write(tmp_path / "m.tflite")
    spilling = Request(str(model), MICRO, Target(sram=192, alignment_bytes=16))
    exported(model, spilling)
    (tmp_path / "planned.tflite").unlink()
    operators.insert(3, TfliteOperator("ADD", ["c", "b"], ["d"], ("AddOptions", {})))
    operators[-1] = TfliteOperator("ADD", ["a", "d"], ["y"], ("AddOptions", {}))
    network([int8(name, 1, 64) for name in "xabcdy"], operators, ["x"], ["y"]).write(model)
    assert "comes to the chip twice" in refused(planned(model, spilling), model)


def test_a_plan_in_two_scratchpads_is_refused(tmp_path: Path) -> None:
    model = chain(tmp_path)

    def spread(document: dict[str, Any]) -> None:
        (memory,) = document["memories"]
        document["memories"].append(memory | {"name": "other"})
        for line in document["instructions"]:
            for instruction in line.values():
                if isinstance(instruction, dict) and instruction["tensor"] == "a":
                    instruction["memory"] = "other"

    assert "uses several scratchpads" in refused(edited(planned(model), spread), model)


def test_a_plan_of_other_shapes_is_refused(tmp_path: Path) -> None:
    model = chain(tmp_path)
    shaped = replace(MICRO, shapes={"x": (2, 64)})
    assert "the plan's shapes" in refused(planned(model, Request(str(model), shaped, ROOM)), model)


def test_a_model_that_would_hold_an_illegal_plan_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = chain(tmp_path)
    plan = planned(model)
    monkeypatch.setattr("onchip.backends.tflm.export_arena._offsets", lambda read, *_: [0] * len(read.network.tensors))
    with pytest.raises(InternalError, match="the model written has no legal plan"):
        export_arena(plan, str(model), tmp_path / "planned.tflite")
    assert not (tmp_path / "planned.tflite").exists()


def test_resource_variables_and_several_subgraphs_are_refused(tmp_path: Path) -> None:
    variable, names_it = handle("v")
    operators = [
        names_it,
        TfliteOperator("READ_VARIABLE", ["v"], ["before"]),
        TfliteOperator("ADD", ["x", "before"], ["y"], ("AddOptions", {})),
        TfliteOperator("ASSIGN_VARIABLE", ["v", "y"], []),
    ]
    tensors = [variable, *(int8(name, 1, 64) for name in ("x", "before", "y"))]
    model = network(tensors, operators, ["x"], ["y"]).write(tmp_path / "m.tflite")
    assert f"{model} has resource variables" in refused(planned(model), model)
    with_variables().write(model)
    assert f"{model} has 2 subgraphs, whose lives overlap" in refused(planned(model), model)
