"""`import onchip`: verbs take objects, names and files, and each accepts the result of the verb before it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from onnx.helper import make_node

import onchip as oc
from onchip.api.networks import network_to_plan
from onchip.errors import OpenDimensionsError
from onchip.formats.own.graph_json import graph_sha256, write_graph
from onchip.ir.tensor import Role
from support.onnx_networks import model, value, weight
from support.reports import facts_of
from support.small_schedules import IN_TILES, LAYER_BY_LAYER, chip, schedule_text, three

LOMA = oc.MapOptions(method="loma")


def net() -> oc.Graph:
    return oc.load_network(three(), bits=8)


def test_a_plan_is_checked_run_timed_explained_saved_and_read_again(tmp_path: Path) -> None:
    plan, path = oc.plan(net(), oc.Memory("sram", 768)), tmp_path / "plan.json"
    assert plan.status is oc.Status.OPTIMAL
    assert (plan.gap, plan.minimize, plan.unit) == (0, "traffic", "bytes")
    assert oc.check(plan).is_legal
    assert oc.run(plan).is_right
    assert oc.time(plan, target=chip()).latency_cycles > 0
    assert "M_R" in oc.explain(plan).summary()
    plan.save(path)
    again = oc.load(path)
    assert (again.status, again.objective, again.lower_bound) == (plan.status, plan.objective, plan.lower_bound)
    assert oc.check(path, net()).is_legal
    assert oc.check(again, three()).is_legal
    assert oc.diff(plan, path).is_equal


def test_targets_are_memories_sizes_budgets_accelerators_names_and_files() -> None:
    machine = oc.load_accelerator(chip())
    sized = [oc.plan(net(), target) for target in (oc.Memory("sram", "1KiB"), "1KiB", "1024")]
    assert [one.capacity_bytes for one in sized] == [1024] * 3
    budget = oc.plan(net(), "m_r")
    assert budget.capacity_bytes == budget.required_bytes
    known = [oc.plan(net(), target) for target in (machine, chip(), Path(chip()))]
    assert len({(one.objective, one.capacity_bytes) for one in known}) == 1
    assert oc.plan(net(), minimize="peak").objective == budget.required_bytes


def test_a_graph_is_planned_as_its_file_is(tmp_path: Path) -> None:
    """A changed copy of a loaded network has no file any more, so that the change counts."""
    loaded = net()
    changed = replace(loaded, name="changed")
    write_graph(changed, tmp_path / "changed.json")
    here, there = (oc.plan(network, "1KiB") for network in (changed, tmp_path / "changed.json"))
    assert here.document == there.document
    assert here.document is not None
    assert here.document.graph.name == "changed"
    assert oc.check(here).is_legal
    assert not oc.check(here, loaded).is_legal


def test_a_loaded_network_remembers_how_it_was_read() -> None:
    plan = oc.plan(net(), "1KiB")
    assert plan.document is not None
    assert plan.document.reading.bits == 8
    assert plan.document.graph.sha256 == graph_sha256(network_to_plan(three(), plan.document.reading))


def test_a_result_shows_in_one_line_and_its_notes_below() -> None:
    tight = oc.plan("lenet5", oc.Memory("sram", "64KiB"), options=oc.PlanOptions(tiles=oc.TilesOption.NEVER))
    assert tight.status is oc.Status.INFEASIBLE
    assert str(tight).splitlines() == [
        "INFEASIBLE",
        "operator conv1 needs 80,128 bytes, 14,592 bytes too many",
        "elements have 16 bits, as in the model; load_network(..., bits=8) gives its 8-bit version",
    ]
    found = oc.plan(net(), "1KiB")
    assert repr(found).startswith("OPTIMAL  0 bytes  bound 0 bytes  gap 0.0%  peak ")
    assert "<svg" in found._repr_html_()
    assert found.to_dict()["objective_value"] == found.objective == 0
    with pytest.raises(oc.OnchipError, match="there is no answer to save"):
        tight.save("nowhere.json")
    with pytest.raises(oc.OnchipError, match="INFEASIBLE"):
        oc.check(tight)


def test_a_schedule_is_checked_run_and_timed() -> None:
    found = oc.schedule(three(), oc.load_accelerator(chip()), options=LAYER_BY_LAYER)
    assert found.gap is not None
    assert 0 <= found.gap < 1
    assert oc.check(found).is_legal
    assert oc.run(found, seed=1).is_right
    assert oc.time(found).latency_cycles == found.latency_cycles
    assert found.space["stacks"] == "layers"


@pytest.mark.slow
def test_a_schedule_is_drawn_and_explained_as_found_or_from_its_file(tmp_path: Path) -> None:
    found, path, page = (
        oc.schedule(net(), chip(), options=IN_TILES, time_limit=2),
        tmp_path / "schedule.json",
        tmp_path / "page.html",
    )
    found.save(path)
    for answer in (found, path):
        oc.report(answer, page, net())
        assert facts_of(page.read_text())["answer"]["energy_pj"] == found.energy_pj
        assert oc.explain(answer, net()).details.figures.energy_pj == found.energy_pj
    found.report(page)
    assert "onchip.report" in page.read_text()
    fields = json.loads(path.read_text())
    fields["instructions"] = [one for one in fields["instructions"] if "compute" not in one]
    path.write_text(json.dumps(fields))
    assert not oc.check(path, net()).is_legal
    for ask in (lambda: oc.explain(path, net()), lambda: oc.report(path, page, net()), lambda: oc.time(path, net())):
        with pytest.raises(oc.OnchipError, match="expected a legal answer"):
            ask()


def test_layers_are_mapped_and_checked(tmp_path: Path) -> None:
    layer = oc.conv(k=4, c=4, p=8, q=8, r=3, s=3, pad=1)
    best = oc.map_layer(layer, chip(), options=LOMA)
    assert best.energy_pj is not None
    assert best.objective == round(best.energy_pj * 1000)
    assert best.loop_nest.count("for ") > 1
    assert oc.check(best).is_legal
    same = oc.map_layer("conv:k4c4p8q8r3s3:pad1", chip(), options=LOMA)
    assert (same.objective, same.loop_nest) == (best.objective, best.loop_nest)
    best.save(tmp_path / "mapping.yaml")
    assert oc.check(tmp_path / "mapping.yaml", layer, target=chip()).is_legal
    with pytest.raises(oc.OnchipError, match="a network is given"):
        oc.map_layer(three(), chip(), options=LOMA)


def test_a_network_is_mapped_layer_by_layer(tmp_path: Path) -> None:
    found = oc.map_network(net(), oc.load_accelerator(chip()), options=LOMA)
    assert found.energy_pj == pytest.approx(sum(one.energy_pj or 0 for one in found.layers.values()))
    assert oc.check(found).is_legal
    found.save(tmp_path / "mappings.yaml")
    assert oc.load(tmp_path / "mappings.yaml").answer is not None
    (path,) = oc.export(found.layers["conv0"], tmp_path / "conv0.c", to="c")
    assert "nest_conv0" in path.read_text()


def test_elements_have_the_bits_of_the_model_unless_others_are_asked_for() -> None:
    own, narrow = oc.load_network(three()), oc.load_network(three(), bits=4)
    mapped = [oc.map_network(network, chip(), options=LOMA) for network in (own, narrow)]
    fused = [oc.fuse(network, chip(), options=oc.FusionOptions(groups="layers")) for network in (own, narrow)]
    for wide, less in (mapped, fused):
        assert (less.objective or 0) < (wide.objective or 0)


def test_buffers_are_packed(tmp_path: Path) -> None:
    path = tmp_path / "buffers.csv"
    path.write_text("id,lower,upper,size\na,0,2,4\nb,1,3,5\nc,2,4,4\n")
    buffers = {"a": oc.Buffer(0, 2, 4), "b": oc.Buffer(1, 3, 5), "c": oc.Buffer(2, 4, 4)}
    for given in (path, buffers, [*buffers.values()]):
        assert oc.pack(given).arena_bytes == 9
        assert oc.pack(given, 9).status is oc.Status.OPTIMAL
        assert oc.pack(given, 8).status is oc.Status.INFEASIBLE
    spilt = oc.pack(buffers, "8B", options=oc.PackOptions(overflow=True))
    assert (spilt.outside_bytes, spilt.offsets["b"]) == (5, None)
    oc.pack(buffers).save(tmp_path / "packed.csv")
    assert (tmp_path / "packed.csv").read_text().startswith("id,lower,upper,size,offset")


def test_a_wrong_argument_is_named_without_a_flag(tmp_path: Path) -> None:
    with pytest.raises(oc.OnchipError, match="minimize: 'beauty' is invalid") as caught:
        oc.schedule(three(), chip(), minimize="beauty")
    error = caught.value
    assert (error.what, error.where, error.hint) == (
        "'beauty' is invalid",
        "minimize",
        "one of energy, latency, edp, traffic",
    )
    path = tmp_path / "schedule.json"
    path.write_text(schedule_text(in_tiles=False))
    wrong = (
        (lambda: oc.check(path), "is not bundled"),
        (lambda: oc.run(path), "is not bundled"),
        (lambda: oc.plan(three()), "a scratchpad is required"),
        (lambda: oc.plan(three(), "12KX"), "target: '12KX' is neither a size nor a budget"),
        (lambda: oc.schedule(three(), oc.Memory("sram", 1024)), "a memory has no compute array"),
        (lambda: oc.plan(3, "1KiB"), "network: the argument is a int"),  # type: ignore[arg-type]
        (lambda: oc.plan(three(), "1KiB", time_limit=-1), "time_limit: -1 is no time limit"),
        (lambda: oc.PlanOptions(share="some"), "share: 'some' is invalid"),  # type: ignore[arg-type]
        (lambda: oc.Memory("sram", "much"), "memory 'sram': 'much' is not a size"),
    )
    for ask, words in wrong:
        with pytest.raises(oc.OnchipError, match=words) as told:
            ask()
        assert "--" not in str(told.value)


def test_open_sizes_are_bound_when_the_network_is_loaded(tmp_path: Path) -> None:
    node = make_node("Conv", ["x", "w"], ["c"])
    total = make_node("Sum", ["c", "bias"], ["y"])
    inputs = [value("x", ["n", 3, None, None]), value("bias", [1])]
    path = tmp_path / "network.onnx"
    path.write_bytes(model([node, total], inputs, ["y"], [weight("w", [4, 3, 3, 3])]).SerializeToString())
    with pytest.raises(OpenDimensionsError) as caught:
        oc.plan(path, "m_r")
    assert [one.axis for one in caught.value.open_dimensions] == [0, 2, 3]

    network = oc.load_network(path, bits=8, shapes={"x": (1, 3, 16, 16)}, values={"bias": 0.5})
    assert [tensor.name for tensor in network.with_role(Role.INPUT)] == ["x"]
    found = oc.plan(network, "m_r")
    assert found.document is not None
    assert found.document.reading.shapes == {"x": (1, 3, 16, 16)}
    assert "c" in oc.map_network(network, chip(), options=LOMA).layers
    assert oc.check(oc.schedule(network, chip(), options=LAYER_BY_LAYER)).is_legal


def test_outputs_share_bytes_with_inputs_if_asked() -> None:
    network = oc.load_network("resnet50", bits=8)
    alone, shared = (
        oc.plan(network, "m_r", options=oc.PlanOptions(share=one)) for one in (oc.Share.NONE, oc.Share.ALL)
    )
    assert [one.required_bytes for one in (alone, shared)] == [2408448, 1605632]
