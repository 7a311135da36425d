from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.document import Claim, CostModel, Granularity, Reading, Source, StrategyDocument
from onchip.answer.layer_mapping import Kept, LayerMapping, Loop
from onchip.answer.result import Status
from onchip.answer.schedule import Homes
from onchip.answer.stacks import OverlapMode, StackStrategy, StrategyError, Tiling
from onchip.answer.strategy import EnergyCause, FusionStrategy, StrategyFigures, TileMapping
from onchip.errors import InputError
from onchip.formats.own.strategy_json import strategy_from_json, strategy_to_json
from onchip.ir.layer import LOOPS, Layer

TEXT = """\
{"format": "onchip-strategy", "version": 1, "network": {"name": "net"}, "accelerator": {"name": "chip"},
 "reading": {"bits": 8, "mapper": "loma"},
 "stacks": [
  {"layers": ["a", "b"], "tile": {"columns": 4, "rows": 72}, "mode": "fully-cached", "output": "buffer"},
  {"layers": ["c"], "tile": {"columns": 9, "rows": 9}, "mode": "recompute"}],
 "result": {"status": "OPTIMAL", "objective": "energy", "objective_value": 1500, "lower_bound": 1500,
  "energy_pj": 1.5, "latency_cycles": 7, "macs": 3, "dram_bits": 64}}
"""


def test_a_file_written_by_hand() -> None:
    document = strategy_from_json(TEXT, "s.json")
    first, second = document.answer.stacks
    assert first == StackStrategy(("a", "b"), Tiling(4, 72, OverlapMode.FULLY_CACHED), "buffer")
    assert second == StackStrategy(("c",), Tiling(9, 9, OverlapMode.RECOMPUTE), "dram")
    assert (document.reading, document.mapper, document.model) == (Reading(8), "loma", CostModel.ONCHIP)
    figures = StrategyFigures(1500, 1.5, 7, 3, 64)
    assert document.claim == Claim("loma", Status.OPTIMAL, "energy", 1500, 1500, figures.named)


def test_the_file_shown_in_the_documents_is_read() -> None:
    text = (Path(__file__).parent.parent.parent / "docs" / "fusion.md").read_text()
    (shown,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    assert strategy_from_json(shown, "fusion.md").answer.stacks


@st.composite
def tile_mappings(draw: st.DrawFn, stacks: int) -> TileMapping:
    sizes, names = st.integers(1, 9), st.text("abc", min_size=1, max_size=2)
    layer = Layer(k=draw(sizes), c=draw(sizes), stride=(1, draw(sizes)), has_weight=draw(st.booleans()))
    nest = tuple(Loop(draw(st.sampled_from(LOOPS)), draw(sizes), draw(st.none() | names)) for _ in range(2))
    mapping = LayerMapping(nest, (Kept(draw(names), 0), Kept(draw(names), draw(st.integers(0, 2)))), (), ())
    homes = Homes(*(draw(st.none() | names) for _ in range(3)))
    room = draw(st.dictionaries(names, st.integers(0, 9)))
    listed = tuple(draw(st.lists(names, min_size=1, max_size=2)))
    return TileMapping(draw(st.integers(0, stacks)), listed, layer, homes, mapping, room)


@st.composite
def documents(draw: st.DrawFn) -> StrategyDocument:
    sizes, values = st.integers(1, 10**6), st.integers(0, 10**15) | st.floats(0, 1e15)
    names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
    layers = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    stacks = []
    while layers:
        length = draw(st.integers(1, len(layers)))
        tiling = Tiling(draw(sizes), draw(sizes), draw(st.sampled_from(OverlapMode)))
        stacks.append(StackStrategy(tuple(layers[:length]), tiling, draw(names)))
        del layers[:length]
    energies = st.dictionaries(st.tuples(names, st.sampled_from([str(one) for one in EnergyCause])), values)
    sums = draw(values), draw(values), draw(values), draw(sizes), draw(sizes)
    figures = StrategyFigures(*sums, draw(energies), draw(st.dictionaries(names, sizes)))
    mapper, space = (
        draw(names),
        draw(st.just({}) | st.builds(lambda text: {"strategies": text}, st.text("ab ,;", min_size=1))),
    )
    status, bound = draw(st.sampled_from(Status)), draw(values)
    claim = Claim(mapper, status, "latency", figures.objective_value, bound, figures.named, space)
    dims = draw(st.dictionaries(names, sizes, max_size=2))
    granularity, model = draw(st.sampled_from(Granularity)), draw(st.sampled_from(CostModel))
    reading = Reading(draw(sizes), dims, granularity, partial_bits=draw(st.none() | sizes))
    sha256 = draw(st.none() | st.just("0" * 64))
    sources = Source(draw(names), sha256), Source(draw(names))
    strategy = FusionStrategy(tuple(stacks), tuple(draw(st.lists(tile_mappings(len(stacks)), max_size=3))))
    return StrategyDocument(*sources, reading, strategy, draw(st.none() | st.just(claim)), mapper, model)


@pytest.mark.slow
@given(documents())
def test_what_is_written_is_read_again(document: StrategyDocument) -> None:
    text = strategy_to_json(document)
    read = strategy_from_json(text, "s.json")
    assert read == document
    assert strategy_to_json(read) == text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"version": 1', '"version": 2', "version is 2, newer"),
        ("onchip-strategy", "onchip-plan", 'format is "onchip-plan"'),
        ('"mapper"', '"maper"', "reading.maper: the field is unknown"),
        ('"bits": 8', '"model": "zigzag"', 'reading.model is "zigzag"'),
        ('"bits": 8', '"bits": 0', "reading.bits is 0"),
        ('"columns": 4', '"columns": 0', r"stacks\[0\] \(tile\): a tile has 0 columns"),
        ('"columns": 4', '"columns": "4"', r"stacks\[0\].tile.columns is \"4\""),
        ('"fully-cached"', '"cached"', r"stacks\[0\].mode is \"cached\""),
        ('["a", "b"]', "[]", r"stacks\[0\].*a stack has no layers"),
        ('["c"]', '["a"]', "layer 'a' is in 2 stacks"),
        ('"name": "net"', '"name": "net", "sha256": "12"', 'network.sha256 is "12"'),
        ('"energy",', '"power",', "result.objective is"),
        ('"macs": 3', '"macs": 3.5', "result.macs is 3.5"),
    ],
)
def test_a_bad_file_is_refused_with_its_field(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(StrategyError, match=message) as caught:
        strategy_from_json(TEXT.replace(old, new, 1), "s.json")
    assert isinstance(caught.value, InputError)
    assert caught.value.file == "s.json"
    assert "\n" not in str(caught.value)


MAPPING = {"stack": 0, "names": ["a"], "layer": {"loops": {"K": 2}}, "homes": {"input": "near"}, "nest": ["K2"]}


def test_a_mapping_written_by_hand() -> None:
    entry = MAPPING | {"room": {"near": 7}, "weight": [{"memory": "near", "loops": 1}]}
    text = json.dumps(json.loads(TEXT) | {"mappings": [entry]})
    mapping = LayerMapping((Loop("K", 2),), (), (Kept("near", 1),), ())
    expected = TileMapping(0, ("a",), Layer(k=2), Homes("near"), mapping, {"near": 7})
    assert strategy_from_json(text, "s.json").answer.mappings == (expected,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": []}, r"mappings\[0\].*is for no layer"),
        ({"nest": ["X2"]}, r"mappings\[0\].nest\[0\].*'X' is no loop of a layer"),
        ({"homes": {"inputs": "near"}}, r"mappings\[0\].homes.inputs: the field is unknown"),
        ({"layer": {"loops": {"K": 0}}}, r"mappings\[0\].layer.*K is 0"),
        ({"room": {"near": "7"}}, r"mappings\[0\].room.near is \"7\""),
    ],
)
def test_a_bad_mapping_is_refused_with_its_field(change: dict[str, object], message: str) -> None:
    text = json.dumps(json.loads(TEXT) | {"mappings": [MAPPING | change]})
    with pytest.raises(InputError, match=message) as caught:
        strategy_from_json(text, "s.json")
    assert caught.value.file == "s.json"
