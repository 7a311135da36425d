from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.document import Claim, Document, MappingDocument, NamedMapping, Reading, Source
from onchip.answer.layer_mapping import Kept, LayerMapping, Loop, MappingError
from onchip.answer.result import Status
from onchip.errors import InputError
from onchip.formats.own.mapping_yaml import mappings_from_yaml, mappings_to_yaml
from onchip.ir.layer import Layer
from support.answer_files import NAMES, mapped_layers

TEXT = """\
format: onchip-mapping
version: 1
accelerator: {name: simba}
network: pair
layers:
  - names: [conv1, conv2]
    layer: {loops: {K: 8, C: 4, Q: 6}, padding: [0, 0, 0, 0]}
    nest: [Q6, K4@lane, C4, K2]
    input: [{memory: buffer, loops: 3}]
    weight: [{memory: register, loops: 1}, {memory: buffer, loops: 4}]
    result: {method: exact, status: OPTIMAL, objective: energy, objective_value: 1200, lower_bound: 1200}
"""


def test_a_file_written_by_hand() -> None:
    document = mappings_from_yaml(TEXT, "m.yaml")
    (one,) = document.answer
    nest = (Loop("Q", 6), Loop("K", 4, "lane"), Loop("C", 4), Loop("K", 2))
    assert one.mapping == LayerMapping(nest, (Kept("buffer", 3),), (Kept("register", 1), Kept("buffer", 4)))
    assert one.layer == Layer(k=8, c=4, q=6)
    assert (document.graph, document.accelerator) == (Source("pair"), Source("simba"))
    assert one.names == ("conv1", "conv2")
    assert one.claim == Claim("exact", Status.OPTIMAL, "energy", 1200, 1200)


def test_the_file_shown_in_the_formats_is_read() -> None:
    formats = (Path(__file__).parent.parent.parent / "docs" / "formats.md").read_text()
    (shown,) = re.findall(r"```text\n(format: onchip-mapping\n.*?)```", formats, re.DOTALL)
    (one,) = mappings_from_yaml(shown, "formats.md").answer
    assert one.layer == Layer(k=8, c=4, q=6)
    assert one.mapping.layer(one.layer) == one.layer


CLAIMS = st.builds(
    lambda value: Claim("cosa", Status.FEASIBLE, "cosa", value, value / 2), st.integers(0, 10**9) | st.floats(0, 1e9)
)
MAPPINGS = st.builds(
    lambda name, mapped, claim: NamedMapping((name,), mapped[0], mapped[1], claim),
    NAMES,
    mapped_layers(),
    st.none() | CLAIMS,
)
DOCUMENTS: st.SearchStrategy[MappingDocument] = st.builds(
    lambda network, source, mappings: Document(Source(network), source, Reading(), tuple(mappings)),
    st.just("") | NAMES,
    st.builds(Source, NAMES, st.none() | st.just("f0" * 32)),
    st.lists(MAPPINGS, max_size=3, unique_by=lambda one: one.names),
)


@pytest.mark.slow
@given(DOCUMENTS)
def test_what_is_written_is_read_again(document: MappingDocument) -> None:
    text = mappings_to_yaml(document)
    read = mappings_from_yaml(text, "m.yaml")
    assert read == document
    assert mappings_to_yaml(read) == text


def test_products_beyond_64_bits_are_written_as_real_numbers() -> None:
    claim = Claim("exact", Status.OPTIMAL, "edp", 2**70, 2**70)
    named = NamedMapping(("a",), Layer(), LayerMapping(()), claim)
    read = mappings_from_yaml(mappings_to_yaml(Document(Source(""), Source("chip"), Reading(), (named,))), "m.yaml")
    assert read.answer[0].claim == Claim("exact", Status.OPTIMAL, "edp", 2.0**70, 2.0**70)


def test_a_newer_version_is_said_before_what_it_may_have_anew() -> None:
    newer = TEXT.replace("version: 1", "version: 2").replace("K4@lane", "anew")
    with pytest.raises(MappingError, match="line 2: version is 2, newer"):
        mappings_from_yaml(newer, "m.yaml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("version: 1", "version: 2", "line 2: version is 2, newer"),
        ("format: onchip-mapping", "format: onchip-plan", "line 1: format is"),
        ("network: pair", "networks: pair", "line 4: networks: the field is unknown"),
        ("K4@lane", "X4@lane", r"line 8: layers\[0\].nest\[1\].*'X' is no loop"),
        ("K4@lane", "K0@lane", r"line 8: layers\[0\].nest\[1\].*has 0 iterations"),
        ("K4@lane", "4K", r"line 8: layers\[0\].nest\[1\]: \"4K\" is no loop"),
        ("K2]", "K1]", r"layers\[0\].*loop K has 4 iterations"),
        ("loops: 3}]", "loops: 5}]", r"layers\[0\].*the tiles of input span \[5\] of 4 loops"),
        ("[0, 0, 0, 0]", "[0, 0]", r"line 7: layers\[0\].layer.padding has 2 entries"),
        ("[0, 0, 0, 0]", "[9, 0, 0, 0]", r"line 7: layers\[0\].layer.*leaves no input"),
        ("C: 4, ", "C: 4, D: 2, ", r"line 7: layers\[0\].layer.loops.D: the field is unknown"),
        ("status: OPTIMAL", "status: BEST", r"line 11: layers\[0\].result.status is"),
        ("names: [conv1, conv2]", "names: []", r"line 6: layers\[0\].names is for no layer"),
        ("  - names: [conv1, conv2]", "  - 7\n  - names: [a]", r"line 6: layers\[0\] is 7"),
        ("layers:", "layers: 7\nothers:", r"line 5: layers is 7"),
        ("layers:", "layers: []\nlayers:", r"line 6: layers: the field stands twice"),
        ("network: pair", "layers: {}", r"line 5: layers: the field stands twice"),
        ("layers:", "others:", r"line 1: layers: the field is missing"),
        ("accelerator: {name: simba}", "accelerator: {}", r"line 3: accelerator.name: the field is missing"),
    ],
)
def test_a_bad_file_is_refused_with_line_and_field(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(MappingError, match=message) as caught:
        mappings_from_yaml(TEXT.replace(old, new, 1), "m.yaml")
    assert isinstance(caught.value, InputError)
    assert caught.value.file == "m.yaml"
    assert "\n" not in str(caught.value)
