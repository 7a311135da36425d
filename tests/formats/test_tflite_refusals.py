from __future__ import annotations

import random
import resource
from pathlib import Path

import numpy as np
import pytest

from onchip.api.networks import read_network
from onchip.errors import InputError
from onchip.formats.networks import read_tflite
from onchip.ops.layers_of import layers_and_left_out
from support.tflite_models import (
    TfliteModel,
    TfliteOperator,
    TfliteSubgraph,
    TfliteTensor,
    branching,
    looping,
    network,
    with_variables,
)

MODELS = sorted((Path(__file__).parents[1] / "data" / "tflite").glob("*.tflite"))
MUTATIONS = 600
GREATEST_KIB = 2 * 2**20


def refused(content: bytes, folder: Path) -> str:
    """Return the one line that a reader gets, without the file's name."""
    path = folder / "model.tflite"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_tflite(path)
    line = str(caught.value)
    assert line.startswith(str(path))
    assert "\n" not in line
    assert caught.value.expected
    return line.removeprefix(str(path)).removeprefix(":").strip()


def tensor(name: str, *shape: int, kind: str = "FLOAT32") -> TfliteTensor:
    return TfliteTensor(name, shape, kind)


def one(kind: str, tensors: list[TfliteTensor], inputs: str = "x", outputs: str = "y") -> TfliteModel:
    return network(tensors, [TfliteOperator(kind, inputs, outputs)], ["x"], ["y"])


@pytest.mark.parametrize("content", [b"", b"TFL3", b"\x1c\0\0\0TFLX" + bytes(64), b"\x89PNG\r\n\x1a\n" + bytes(100)])
def test_what_is_no_tflite_file_is_refused(content: bytes, tmp_path: Path) -> None:
    assert refused(content, tmp_path).startswith("is no TFLite model")


def test_subgraphs_that_call_each_other_are_refused(tmp_path: Path) -> None:
    call = TfliteOperator("CALL", ["x"], ["y"], ("CallOptions", {"Subgraph": 1}))
    again = TfliteSubgraph([tensor("x", 4), tensor("y", 4)], [call], ["x"], ["y"])
    assert "call each other" in refused(TfliteModel([again, again]).content(), tmp_path)


def test_a_tensor_that_is_read_before_it_is_written_is_refused(tmp_path: Path) -> None:
    operators = [TfliteOperator("RELU", "a", "y"), TfliteOperator("NEG", "x", "a")]
    tensors = [tensor("x", 4), tensor("a", 4), tensor("y", 4)]
    line = refused(network(tensors, operators, "x", "y").content(), tmp_path)
    assert line.startswith("operator 'y': tensor 'a' is read before it is written")


def test_state_of_two_operators_is_refused(tmp_path: Path) -> None:
    tensors = [tensor("x", 4), TfliteTensor("s", [4], is_variable=True), tensor("a", 4), tensor("y", 4)]
    operators = [TfliteOperator("SVDF", "xs", "a"), TfliteOperator("SVDF", "as", "y")]
    line = refused(network(tensors, operators, "x", "y").content(), tmp_path)
    assert line.startswith("tensor 's': both 'a' and 'y' keep their state in it")


def test_a_symbolic_dimension_cannot_be_bound(tmp_path: Path) -> None:
    from onchip.answer.document import Reading

    path = one("RELU", [tensor("x", 4), tensor("y", 4)]).write(tmp_path / "model.tflite")
    with pytest.raises(InputError, match="leaves shapes open alone"):
        read_network(str(path), Reading(dims={"batch": 1}))


def small_models() -> list[bytes]:
    controlled = (_calls(), branching(), looping(3), looping(None), looping(10**6), with_variables())
    return [path.read_bytes() for path in MODELS] + [model.content() for model in controlled]


def _calls() -> TfliteModel:
    yes = TfliteTensor("yes", [], "BOOL", np.array(True))
    options = ("IfOptions", {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 1})
    calls = [
        TfliteOperator("CALL", ["x"], ["m"], ("CallOptions", {"Subgraph": 1})),
        TfliteOperator("IF", ["yes", "m"], ["y"], options),
    ]
    main = TfliteSubgraph([tensor("x", 4), yes, tensor("m", 4), tensor("y", 4)], calls, ["x"], ["y"])
    relu = TfliteOperator("RELU", ["x"], ["z"])
    return TfliteModel([main, TfliteSubgraph([tensor("x", 4), tensor("z", 4)], [relu], ["x"], ["z"])])


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Return the file truncated, or with some bytes changed: half of them within the tables."""
    if chance.random() < 0.2:
        return content[: chance.randrange(len(content))]
    changed = bytearray(content)
    for _ in range(chance.choice((1, 2, 5, 20))):
        near = min(len(content), 3000)
        place = chance.choice((chance.randrange(len(content)), chance.randrange(near), -1 - chance.randrange(near)))
        changed[place] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
    return bytes(changed)


def refusal_of(path: Path) -> str | None:
    """Return why a file is refused, or None if it is read; any error except InputError fails the test."""
    try:
        layers_and_left_out(read_network(str(path)))
    except InputError as error:
        return str(error)
    return None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::onchip.errors.NetworkWarning")
def test_whatever_becomes_of_a_file_it_is_read_or_refused_in_one_line(tmp_path: Path) -> None:
    models, path = small_models(), tmp_path / "model.tflite"
    refusals = 0
    for seed in range(MUTATIONS):
        chance = random.Random(seed)
        path.write_bytes(mutated(chance.choice(models), chance))
        line = refusal_of(path)
        refusals += line is not None
        assert line is None or (line.startswith(str(path)) and "\n" not in line), seed
    assert MUTATIONS / 4 < refusals < MUTATIONS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < GREATEST_KIB


@pytest.mark.slow
def test_many_tables_that_share_one_long_list_are_refused_at_once(tmp_path: Path) -> None:
    names = [f"t{at}" for at in range(3000)]
    operators = [TfliteOperator("ADD_N", [0] * 3000, [name]) for name in names[1:]]
    model = network([tensor(name, 1) for name in names], operators, ["t0"], ["t1"])
    assert "list more than a network has" in refused(model.content(), tmp_path)
