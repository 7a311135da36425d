"""Timeloop's problem files with custom shapes and with templates, written for this test."""

from __future__ import annotations

import random
import warnings
from itertools import product
from math import prod
from pathlib import Path

import pytest

from onchip.errors import InputError, NetworkWarning
from onchip.formats.foreign_files import read_layers
from onchip.formats.timeloop.problem import ShapeFields, layer_of, timeloop_problem
from onchip.ir.layer import INPUT, OUTPUT, WEIGHT, Layer

SHAPE = """\
problem:
  version: 0.4
  instance: {C: 3, M: 32, N: 2, P: 10, Q: 11, R: 3, S: 5, G: 4, Wstride: 2, Hdilation: 3, H: 99}
  shape:
    coefficients:
    - {name: Wstride, default: 1}
    - {name: Hstride, default: 1}
    - {name: Wdilation, default: 1}
    - {name: Hdilation, default: 1}
    data_spaces:
    - {name: Weights, projection: [[[C]], [[M]], [[R]], [[S]], [[G]]]}
    - name: Inputs
      projection:
      - [[N]]
      - [[C]]
      - [[R, Wdilation], [P, Wstride]]
      - [[S, Hdilation], [Q, Hstride]]
      - [[G]]
    - {name: Outputs, projection: [[[N]], [[M]], [[Q]], [[P]], [[G]]], read_write: true}
    dimensions: [C, M, R, S, N, P, Q, G]
"""


def read(text: str) -> Layer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NetworkWarning)
        return timeloop_problem(text, "p.yaml")


def test_a_convolution_of_its_own_shape_is_a_layer() -> None:
    layer = Layer(2, 32, 3, 10, 11, 3, 5, 4, stride=(2, 1), dilation=(1, 3))
    assert read(SHAPE) == layer
    older = SHAPE.replace("data_spaces", "data-spaces").replace("read_write", "read-write")
    assert read(older) == layer


def test_names_of_an_instance_that_mean_nothing_are_said() -> None:
    with pytest.warns(NetworkWarning, match="p.yaml: H in its instance names no dimension or coefficient"):
        timeloop_problem(SHAPE, "p.yaml")
    with pytest.warns(NetworkWarning, match="its densities are not modelled: all tensors are dense"):
        timeloop_problem(SHAPE.replace("H: 99", "densities: {Weights: {density: 0.5}}"), "p.yaml")


@pytest.mark.parametrize(
    ("text", "layer"),
    [
        ("shape: gemm_ABZ, instance: {M: 8, N: 4, K: 2}", Layer(n=8, k=4, c=2)),
        ("instance: {N: 1, K: 2, C: 3, P: 4, Q: 5, R: 1, S: 1}", Layer(1, 2, 3, 4, 5)),
        (
            "instance: {K: 9, M: 1}, shape: {dimensions: [K, M], data_spaces: [{name: A, projection: [[[K]]]}, "
            "{name: B, projection: [[[K]]]}, {name: Z, projection: [[[M]]], read_write: True}]}",
            Layer(c=9),
        ),
        (
            "instance: {S: 3, Q: 9}, shape: {dimensions: [S, Q], data_spaces: [{name: Weights, projection: [[[S]]]}, "
            "{name: Inputs, projection: [[[S], [Q]]]}, {name: Outputs, projection: [[[Q]]], read_write: true}]}",
            Layer(q=9, s=3),
        ),
        (
            "instance: {w: 3, o: 9}, shape: {dimensions: [w, o], data_spaces: [{name: I, projection: [[[w], [o]]]}, "
            "{name: O, projection: [[[o]]], read_write: true}]}",
            Layer(p=9, r=3, has_weight=False),
        ),
    ],
)
def test_shapes_are_layers(text: str, layer: Layer) -> None:
    assert read(f"problem: {{{text}}}") == layer


def test_random_shapes_touch_as_many_elements_as_their_projections() -> None:
    """Count the elements of each tensor by running all dimensions of small einsums."""
    chance = random.Random(7)
    for _ in range(60):
        names = chance.sample("abcdef", chance.randint(1, 5))
        sizes = {name: chance.randint(1, 3) for name in names}
        kinds = {name: chance.choice(("N", "K", "C", "G")) for name in names}
        windows = [
            (f"o{at}", f"f{at}", chance.randint(1, 3), chance.randint(1, 2)) for at in range(chance.randint(0, 2))
        ]
        coefficients: dict[str, int] = {}
        spaces: dict[str, list[list[list[str]]]] = {
            "I": [[[name]] for name in names if kinds[name] != "K"],
            "W": [[[name]] for name in names if kinds[name] != "N"],
            "O": [[[name]] for name in names if kinds[name] != "C"],
        }
        for output, filters, stride, dilation in windows:
            sizes |= {output: chance.randint(1, 3), filters: chance.randint(1, 3)}
            coefficients |= {f"s{output}": stride, f"d{filters}": dilation}
            spaces["I"].append([[output, f"s{output}"], [filters, f"d{filters}"]])
            spaces["W"].append([[filters]])
            spaces["O"].append([[output]])
        shape: ShapeFields = {
            "dimensions": list(sizes),
            "data_spaces": [
                {"name": name, "projection": projection, "read_write": name == "O"}
                for name, projection in spaces.items()
            ],
            "coefficients": [{"name": name, "default": value} for name, value in coefficients.items()],
        }
        if len(spaces["W"]) == 0 and len(spaces["I"]) == 0:
            continue
        layer = layer_of(shape, sizes)
        assert layer.macs == prod(sizes.values())
        for name, operand in (("I", INPUT), ("W", WEIGHT), ("O", OUTPUT)):
            spans = [_span(rank, sizes, coefficients) for rank in spaces[name]]
            assert layer.elements(operand) == prod(spans)


def _span(rank: list[list[str]], sizes: dict[str, int], coefficients: dict[str, int]) -> int:
    """Count the positions from the first to the last that a rank takes, including the gaps of a stride."""
    steps = [coefficients[term[1]] if len(term) > 1 else 1 for term in rank]
    points = product(*(range(sizes[term[0]]) for term in rank))
    return 1 + max(sum(at * step for at, step in zip(point, steps, strict=True)) for point in points)


@pytest.mark.parametrize(
    ("old", "new", "message", "place"),
    [
        ("C: 3, ", "", "dimension C has no size", "line 3"),
        ("C: 3", "C: 0", "C is 0", "line 3"),
        ("C: 3", "C: many", "C is 'many'", "line 3"),
        (", read_write: true", "", "0 data spaces are written and 3 are read", "line 10"),
        ("[[M]], [[R]]", "[[M, Wstride]], [[R]]", "Weights is indexed by a sum", "line 11"),
        ("[[M]], [[R]]", "[[M]], [[M]], [[R]]", "Weights is indexed by M, twice", "line 11"),
        ("[[M]], [[R]]", "[[X]], [[R]]", "Weights is indexed by X, which is no dimension", "line 11"),
        ("[P, Wstride]", "[P, Wide]", "Wide is no coefficient", "line 13"),
        ("[[R, Wdilation], [P, Wstride]]", "[[R], [P], [C]]", "Inputs is indexed by C, twice", "line 13"),
        ("[[R, Wdilation], [P, Wstride]]", "[[P, Wdilation, Wstride]]", "a product has 3 factors", "line 13"),
        ("- [[N]]\n", "- [[N], [M]]\n", "a sum of N, M slides over nothing", "line 13"),
        ("[[M]], [[Q]]", "[[Q]]", "of its dimensions it adds up an axis of one operand alone", "line 10"),
        ("    dimensions:", "    flatten: []\n    dimensions:", "it flattens dimensions", "line 20"),
        ("    dimensions:", "    dimension:", "the field is", "line"),
    ],
)
def test_shapes_that_are_no_layer_are_refused(old: str, new: str, message: str, place: str) -> None:
    text = SHAPE.replace(old, new, 1)
    assert text != SHAPE
    with pytest.raises(InputError) as caught:
        read(text)
    assert message in caught.value.what
    assert place in (caught.value.place or "")


def test_a_template_includes_another_file_and_merges_it(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(
        SHAPE.replace("problem:", "problem_base_ignore: &base", 1).replace("H: 99", "H: 1")
    )
    folder = tmp_path / "layers"
    folder.mkdir()
    path = folder / "0.yaml"
    path.write_text("{{include_text('../base.yaml')}}\nproblem:\n  <<<: *base\n  instance: {C: 7, Wstride: 1}\n")
    assert read_layers(path) == {"0": Layer(2, 32, 7, 10, 11, 3, 5, 4, dilation=(1, 3))}
    (folder / "part.yaml").write_text(SHAPE.replace("H: 99", "H: 1"))
    path.write_text(
        "{{add_to_path('.')}}\n{% if a|default(0) %}\n{% endif %}\nproblem: {{include('part.yaml', 'problem')}}\n"
    )
    assert read_layers(path)["0"] == read(SHAPE)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("problem: {{bits}}", "'bits' is undefined"),
        ("{{include_text('nothing.yaml')}}", "its template (version 0.4) includes 'nothing.yaml', which is not there"),
        ("{{include_text('bad.yaml')}}", "its includes do not end"),
        ("{% for i in range(9) %}a{% endfor %}", "uses For of Jinja"),
        ("{{ 9 ** 99999999 }}", "uses Pow of Jinja"),
        ("{{ ''.__class__ }}", "uses Getattr of Jinja"),
        ("{% if %}", "its template (version 0.4) is malformed"),
        ("problem: {{include('good.yaml', 'architecture')}}", "'good.yaml' has no 'architecture'"),
    ],
)
def test_templates_that_are_not_supported_are_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "good.yaml").write_text(SHAPE)
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_layers(path)
    assert message in caught.value.what
