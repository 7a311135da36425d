"""Softmaxes between two products in slices of the keys: values, tiles, files and bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from onchip.answer.document import Reading
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import ScheduleOptions, Softmax
from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.api.check_schedule import check_schedule_document
from onchip.api.networks import Network
from onchip.api.run import RunValues, execution_of
from onchip.api.schedule import (
    ScheduleRequest,
    front_of_schedules,
    read_schedule_question,
    read_schedule_questions,
    schedule_network,
)
from onchip.errors import InputError, UsageError
from onchip.formats.onnx.program import Array
from onchip.formats.own.graph_json import write_graph
from onchip.formats.own.schedule_json import schedule_from_json, schedule_to_json
from onchip.ir.graph import Graph
from onchip.ir.operator import KEY_SLICE, PARAMETER_FIRST, AttributeValue, Operator
from onchip.ir.tensor import Role
from onchip.ir.window import integers
from onchip.ops.layers_of import Precision
from onchip.scheduling.search.front import FrontAxis
from onchip.search.budget.limits import Limits
from onchip.simulate.kernels.onnx_kernels import MADE
from onchip.transform.groups.tiled import tile_graph
from onchip.transform.rewrite.key_slices import attended, slice_counts, with_key_slices
from onchip.verify.schedule.windows import seen
from oracles.packing import TooLargeError
from oracles.schedule import LeastSchedule, Work
from oracles.schedule_costs import Toy
from oracles.schedule_latency import FastestSchedule
from scheduling.test_results_in_place import machine, network_of
from support.random_schedules import assert_values_are_equal
from support.series import series
from transform.test_tile_graph import assert_both_agree


def attention(tokens: int, keys: int, width: int, heads: int = 0, *, scale: str = "", is_first: bool = False) -> Graph:
    """Return an attention without masks, with a scale of the scores of that kind, whose number may stand first."""
    batch = (1, heads) if heads else (1,)
    shapes = {"q": (*batch, tokens, width), "k": (*batch, width, keys), "v": (*batch, keys, width)}
    shapes |= dict.fromkeys(("s", "p", *(["t"] if scale else [])), (*batch, tokens, keys))
    shapes["o"] = (*batch, tokens, width)
    scores = [Operator("s", "MatMul", ("q", "k"), ("s",))]
    if scale:
        attributes: dict[str, AttributeValue] = {PARAMETER_FIRST: True} if is_first else {}
        scores.append(Operator("t", scale, ("s",), ("t",), ("one",), attributes))
    softmax = Operator("p", "Softmax", (scores[-1].name,), ("p",), attributes={"axis": -1})
    shapes |= {"one": (1,)} if scale else {}
    return network_of(shapes, *scores, softmax, Operator("o", "MatMul", ("p", "v"), ("o",)))


def result_of(network: Graph, arrays: dict[str, Array]) -> Array:
    """Return the output, computed operator by operator in double precision."""
    known = dict(arrays)
    for one in network.operators:
        read = [known[name] for name in (*one.inputs, *one.parameters)]
        read = read[::-1] if PARAMETER_FIRST in one.attributes else read
        if one.kind == "Slice":
            (start,), (end,), (axis,) = (integers(one, name, (0,)) for name in ("starts", "ends", "axes"))
            known[one.outputs[0]] = read[0].take(range(start, end), axis)
        else:
            known[one.outputs[0]] = MADE[one.kind](*read)
    (output,) = network.with_role(Role.OUTPUT)
    return known[output.name]


@pytest.mark.parametrize("seed", series(range(2_000), 40))
def test_slices_of_keys_have_the_values_of_whole_rows(seed: int) -> None:
    """Scores up to 300 need the greatest score of each slice: exponentials of doubles end at 709."""
    chance, random = Random(seed), np.random.default_rng(seed)
    tokens, keys, width = (chance.randint(1, 6) for _ in range(3))
    heads, scale, is_first = chance.choice((0, 2)), chance.choice(("", "Mul", "Div")), chance.choice((False, True))
    network = attention(tokens, keys + 1, width, heads, scale=scale, is_first=is_first)
    arrays = {
        tensor.name: random.standard_normal(tensor.shape) * chance.choice((1, 30))
        for tensor in (*network.with_role(Role.INPUT), *network.with_role(Role.PARAMETER))
    }
    sliced = with_key_slices(network, chance.randint(2, keys + 1))
    assert len(sliced.operators) > len(network.operators)
    assert np.allclose(result_of(sliced, arrays), result_of(network, arrays), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", series(range(400), 16))
def test_tiles_of_queries_and_heads_are_what_the_verifier_derives(seed: int) -> None:
    chance = Random(seed)
    heads = chance.choice((0, 2))
    network = with_key_slices(attention(chance.randint(2, 5), chance.randint(2, 6), 2, heads), chance.randint(2, 4))
    tiling = Tiling(chance.randint(1, max(heads, 1)), chance.randint(1, 2), OverlapMode.RECOMPUTE)
    stacks = (ScheduledStack(tuple(network.operator), tiling),)
    tiles = tile_graph(network, stacks, Precision(8))
    assert_both_agree(network, stacks, tiles, 24)
    assert_values_are_equal(network, tiles.graph)


def test_a_mask_or_a_second_reader_keeps_whole_rows() -> None:
    plain = attention(4, 8, 2)
    assert slice_counts(plain) == (1, 2, 4, 8)
    mask = Operator("m", "Add", ("s", "b"), ("m",))
    shapes = {tensor.name: tensor.shape or () for tensor in plain.tensors} | {"b": (1, 4, 8), "m": (1, 4, 8)}
    softmax = Operator("p", "Softmax", ("m",), ("p",), attributes={"axis": -1})
    scores, _, product = plain.operators
    masked = network_of(shapes, scores, mask, softmax, product)
    shapes.pop("b")
    read_twice = network_of(shapes, *plain.operators, Operator("m", "Exp", ("p",), ("m",)))
    for network in (masked, read_twice):
        assert not list(attended(network))
        assert with_key_slices(network, 4) is network


def request_of(network: Network, capacity: int, softmax: Softmax) -> ScheduleRequest:
    """Return a request for the least traffic in one memory, with elements and sums of 8 bits."""
    options = ScheduleOptions(softmax=softmax, partial_bits=8, uses_cache=False)
    return ScheduleRequest(network, machine(capacity), ScheduleObjective.TRAFFIC, options, Reading(bits=8))


@pytest.mark.slow
def test_the_search_finds_the_tiles_of_flash_attention(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four slices leave room for half of the queries; of whole rows three tiles would read keys and values."""
    monkeypatch.setattr("onchip.api.schedule.slice_counts", lambda _: (1, 4))
    path = tmp_path / "attention.json"
    write_graph(attention(32, 64, 8), path)
    request = request_of(str(path), 960, Softmax.ONLINE)
    outcome = schedule_network(replace(request, limits=Limits(time_limit_seconds=40.0)))
    assert outcome.result.objective_value == 2 * 32 * 8 + 2 * (2 * 64 * 8)
    assert outcome.document is not None
    assert outcome.document.reading.key_slices == 4
    again = schedule_from_json(schedule_to_json(outcome.document), "attention.schedule.json")
    assert again == outcome.document
    run = execution_of(check_schedule_document(again, str(path)), str(path), RunValues(7))
    assert run.is_right


def in_groups(network: Graph, groups: Sequence[Sequence[str]]) -> tuple[ScheduledStack, ...]:
    """Return runs of operators as groups in tiles of one row and head; all others run alone."""
    group_of = {name: tuple(group) for group in groups for name in group}
    found = dict.fromkeys(group_of.get(one.name, (one.name,)) for one in network.operators)
    one_row = Tiling(1, 1, OverlapMode.RECOMPUTE)
    return tuple(ScheduledStack(group, one_row if len(group) > 1 else None) for group in found)


def random_groups(network: Graph, chance: Random) -> tuple[ScheduledStack, ...]:
    """Return the operators in runs, of which those that may be fused are groups in tiles of one row."""
    names, groups = [*network.operator], list[list[str]]()
    while names:
        count = chance.choice((1, 2, 3, 5, 8, len(names)))
        groups.append(names[:count])
        names = names[count:]
    fused = [group for group in groups if len(group) > 1 and may_be_fused(network, group)]
    return in_groups(network, fused)


def may_be_fused(network: Graph, group: Sequence[str]) -> bool:
    try:
        tile_graph(network, in_groups(network, [group]), Precision(8))
    except InputError:
        return False
    return True


@pytest.mark.parametrize("seed", series(range(400), 3))
def test_no_schedule_in_slices_is_below_the_bound(seed: int) -> None:
    """Operators run alone, all together or in random groups; an oracle has the least of each objective."""
    chance = Random(seed)
    network = attention(chance.randint(1, 2), 2, 1, chance.choice((0, 0, 2)))
    capacity = chance.choice((3, 4, 6, 8, 64))
    questions = read_schedule_questions(request_of(network, capacity, Softmax.ONLINE))
    for asked in questions:
        own = read_schedule_question(request_of(asked.network, capacity, Softmax.ROWS)).relaxation
        for stacks in ((), in_groups(asked.network, [[*asked.network.operator]]), random_groups(asked.network, chance)):
            for objective in ScheduleObjective:
                try:
                    toy = Toy(asked.network, machine(capacity), asked.precision, stacks)
                    least = least_of(toy, objective)
                except (TooLargeError, ScheduleError):  # two groups may cut a map differently
                    continue
                bound = min(objective.value_of(one.relaxation) for one in questions)
                assert max(bound, objective.value_of(own)) <= least


def least_of(toy: Toy, objective: ScheduleObjective) -> float:
    search = FastestSchedule if objective.is_timed else LeastSchedule
    return search(toy, objective.value, work=Work(1_000)).least().cost


def test_a_front_and_a_start_have_whole_rows(tmp_path: Path) -> None:
    request = request_of(attention(2, 4, 2), 64, Softmax.ONLINE)
    with pytest.raises(UsageError):
        schedule_network(replace(request, start_file=tmp_path / "s.json"))
    with pytest.raises(UsageError):
        front_of_schedules(request, (FrontAxis.TRAFFIC, FrontAxis.PEAK), 2)


def test_only_the_slices_of_keys_join_groups() -> None:
    """A network with a Slice of its own, before a softmax in slices of its keys and without one."""
    plain = attention(2, 4, 2)
    shapes = {tensor.name: tensor.shape or () for tensor in plain.tensors} | {"qkv": (1, 6, 2), "log": (1, 2, 1)}
    leaves = Operator("q", "Slice", ("qkv",), ("q",), attributes={"starts": [0], "ends": [2], "axes": [1]})
    adds = Operator("log", "ReduceLogSumExp", ("o",), ("log",), attributes={"axes": [-1], "keepdims": 1})
    network = network_of(shapes, leaves, *plain.operators, adds)
    sliced = with_key_slices(network, 2)
    marked = {one.name for one in sliced.operators if KEY_SLICE in one.attributes}
    assert {sliced.operator[name].kind for name in marked} == {"Slice", "ReduceLogSumExp"}
    assert not marked & {"q", "log"}
    inner = tuple(one.name for one in sliced.operators if one.name not in ("q", "log"))
    for graph, names, is_fused in (
        (network, ("q", "s"), False),
        (network, ("o", "log"), False),
        (sliced, ("q", *inner), False),
        (sliced, (*inner, "log"), False),
        (sliced, inner, True),
    ):
        stacks = in_groups(graph, [names])
        if is_fused:
            assert_both_agree(graph, stacks, tile_graph(graph, stacks, Precision(8)), 24)
        else:
            with pytest.raises(InputError):
                tile_graph(graph, stacks, Precision(8))
    with pytest.raises(LookupError):
        seen(adds, [(1, 2, 2)], None, (1, 2, 1), ((0, 1), (0, 1), (0, 1)))
