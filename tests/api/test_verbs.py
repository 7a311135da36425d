"""Verbs, phases, targets, scripts and doctests of the API."""

from __future__ import annotations

import doctest
import json
import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from onnx.helper import make_node

import onchip
import onchip as oc
from onchip.answer.problem import Count, Objective
from onchip.api.networks import network_to_plan
from onchip.api.phases import phase, phases_told_to
from onchip.api.target import Target
from onchip.cli import run
from onchip.errors import OpenDimensionsError
from onchip.formats.own.graph_json import graph_sha256, write_graph
from onchip.ir.tensor import Role
from support.onnx_networks import model, value, weight
from support.reports import facts_of
from support.small_schedules import IN_TILES, LAYER_BY_LAYER, chip, schedule_text, three

# The examples in the docstrings of the Python API


NAMES = [name for name in onchip.__all__ if ">>>" in (getattr(onchip, name).__doc__ or "")]


@pytest.mark.parametrize("name", NAMES)
def test_examples_print_what_they_show(name: str) -> None:
    shown = getattr(onchip, name)
    (example,) = doctest.DocTestFinder(recurse=False).find(shown, name, module=False, globs={name: shown})
    found = doctest.DocTestRunner().run(example)
    assert found.attempted > 0
    assert found.failed == 0


def test_the_example_of_the_package_prints_what_it_shows() -> None:
    assert doctest.testmod(onchip).failed == 0


# The script of every verb runs; mypy checks it with the other examples


SCRIPT = Path(__file__).parents[2] / "examples" / "every_verb.py"


@pytest.mark.slow
def test_the_script_of_every_verb_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(SCRIPT))
    printed = capsys.readouterr().out
    assert "OPTIMAL  0 bytes  bound 0 bytes  gap 0.0%  peak 39.1 KiB" in printed
    assert "['plan.html', 'sizes.html', 'timed.html']" in printed


# The tensors that a plan counts by default


@pytest.mark.parametrize(
    ("accelerator", "expected"),
    [(None, Count.ALL), ("simba", Count.ACTIVATIONS), ("nvdla-like", Count.ALL), ("h100-like", Count.ALL)],
)
def test_a_latency_counts_parameters_where_a_scratchpad_holds_weights(accelerator: str | None, expected: Count) -> None:
    assert Target(accelerator=accelerator).counted(Objective.LATENCY) is expected


@pytest.mark.parametrize("accelerator", [None, "simba", "nvdla-like"])
def test_traffic_counts_activations(accelerator: str | None) -> None:
    assert Target(accelerator=accelerator).counted(Objective.TRAFFIC) is Count.ACTIVATIONS


# `import onchip`: verbs take objects, names and files, and each accepts the result of the verb before it


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


# Phases of use cases: anything that may take seconds reports a phase to a listener


BUFFERS = "id,lower,upper,size\na,0,4,1024\nb,2,6,512\n"


class Phases:
    """The names of reported phases, in the order in which they begin."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.lasting: list[str] = []

    @contextmanager
    def listen(self, name: str) -> Iterator[None]:
        self.told.append(name)
        self.lasting.append(name)
        try:
            yield
        finally:
            assert self.lasting.pop() == name


def test_nobody_has_to_listen() -> None:
    with phase("reading"):
        pass


def test_phases_are_told_while_someone_listens() -> None:
    phases = Phases()
    with phases_told_to(phases.listen), phase("planning"), phase("reading"):
        assert phases.lasting == ["planning", "reading"]
    with phase("verifying"):
        pass

    assert phases.told == ["planning", "reading"]
    assert phases.lasting == []


def test_a_phase_that_fails_is_over() -> None:
    @phase("reading")
    def read() -> None:
        raise ValueError("nonsense")

    phases = Phases()
    with phases_told_to(phases.listen), pytest.raises(ValueError, match="nonsense"):
        read()

    assert phases.lasting == []


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an answer of each kind."""
    folder = tmp_path_factory.mktemp("answers")
    (folder / "buffers.csv").write_text(BUFFERS)
    for words in (
        "plan resnet18 --bits 8 --sram m_r -o plan.json",
        "schedule lenet5 --accelerator simba --time-limit 1 -o schedule.json",
        "map lenet5 --accelerator simba --time-limit 1 -o mapping.yaml",
        "fuse lenet5 --accelerator simba --time-limit 1 -o strategy.json",
        "pack buffers.csv --minimize -o packed.csv",
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            assert run(words.split()) == 0, words
    return folder


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "plan resnet18 --bits 8 --sram m_r -o again.json --report x.html",
            "reading searching verifying writing drawing",
        ),
        ("schedule lenet5 --accelerator simba --time-limit 1 -o s.json", "reading searching verifying writing"),
        ("map lenet5 --accelerator simba --time-limit 1 -o m.yaml", "reading searching writing"),
        ("fuse lenet5 --accelerator simba --time-limit 1 -o f.json", "reading searching verifying writing"),
        ("pack buffers.csv --minimize -o p.csv", "reading searching verifying writing"),
        ("pack buffers.csv --capacity 1KiB --overflow", "reading searching verifying"),
        ("info lenet5", "reading searching"),
        ("check plan.json resnet18", "reading verifying"),
        ("check schedule.json lenet5", "reading verifying"),
        ("check mapping.yaml lenet5 --accelerator simba", "reading verifying"),
        ("check strategy.json lenet5", "reading verifying"),
        ("run plan.json resnet18", "reading verifying executing"),
        ("run schedule.json lenet5", "reading verifying executing"),
        ("time plan.json resnet18 --accelerator edge-tpu-like", "reading verifying timing"),
        ("time schedule.json lenet5", "reading verifying pricing"),
        ("explain plan.json resnet18", "reading verifying explaining"),
        ("explain schedule.json lenet5", "reading verifying pricing explaining"),
        ("report plan.json resnet18 -o r.html --compare", "reading verifying drawing"),
        ("report schedule.json lenet5 -o r.html", "reading verifying pricing drawing"),
        ("export plan.json resnet18 --to c -o c.h", "reading verifying writing"),
        ("export schedule.json lenet5 --to c -o c.h", "reading verifying pricing exporting"),
        ("audit plan.json resnet18", "reading verifying auditing"),
        ("audit packed.csv buffers.csv --minimize", "verifying auditing"),
    ],
)
def test_every_verb_tells_its_phases(answers: Path, words: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    phases = Phases()
    monkeypatch.chdir(answers)
    monkeypatch.setattr("onchip.commands.progress.ProgressLine.during", lambda _line, name: phases.listen(name))

    run(words.split())

    assert set(expected.split()) <= set(phases.told)
    assert phases.lasting == []
