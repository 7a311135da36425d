"""Bad arguments of the joint search raise Python errors; all others are searched."""

from __future__ import annotations

from random import Random

import pytest

from onchip import native
from support.series import series


def joint_tensor(**changed: object) -> native.JointTensor:
    fields: dict[str, object] = {"units": 2, "load_cost": 2, "store_cost": 2, "may_end_short": False}
    return native.JointTensor(**{**fields, **changed})  # type: ignore[arg-type]


def joint_operator(**changed: object) -> native.JointOperator:
    fields: dict[str, object] = {"reads": [0], "writes": [1], "predecessors": []}
    return native.JointOperator(**{**fields, **changed})  # type: ignore[arg-type]


def joint_search(
    tensor: native.JointTensor | None = None, operator: native.JointOperator | None = None, **changed: int
) -> native.JointSearch:
    tensors = [tensor or joint_tensor(), joint_tensor()]
    return native.JointSearch(tensors, [operator or joint_operator()], **{"capacity_units": 4, **changed})


@pytest.mark.parametrize(
    "changed",
    [
        {"units": 0},
        {"units": -1},
        {"units": 1 << 60},
        {"load_cost": -1},
        {"store_cost": 1 << 60},
        {"load_cost": 1 << 62},
    ],
    ids=str,
)
def test_a_tensor_that_there_cannot_be_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"\(entry [01]\)"):
        joint_search(joint_tensor(**changed))


@pytest.mark.parametrize(
    "changed",
    [
        {"reads": [2]}, {"reads": [-1]}, {"reads": [1, 0]}, {"reads": [0, 0]}, {"writes": [2]}, {"writes": [1, 1]},
        {"predecessors": [0]}, {"predecessors": [-1]}, {"predecessors": [1]},
    ],
    ids=str,
)  # fmt: skip
def test_an_operator_that_there_cannot_be_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"rise \(entry 0\)"):
        joint_search(operator=joint_operator(**changed))


@pytest.mark.parametrize("name", ["capacity_units", "upper_bound", "greed", "most_bytes"])
@pytest.mark.parametrize("value", [-1, (1 << 62) + 1])
def test_options_that_go_beyond_64_bits_are_refused(name: str, value: int) -> None:
    with pytest.raises(ValueError, match="not between 0 and"):
        joint_search(None, None, **{name: value})


@pytest.mark.parametrize("changed", [{"reads": [1 << 31]}, {"reads": 3}, {"predecessors": ["0"]}], ids=str)
def test_what_is_no_number_of_a_tensor_is_refused(changed: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        joint_operator(**changed)


def test_a_joint_search_that_has_found_a_plan_finds_no_other() -> None:
    search = joint_search()
    assert (search.cost, search.moves, search.states) == (-1, [], 0)
    for _ in range(2):
        assert search.run(native.StopToken()) is native.JointOutcome.FOUND
        assert (search.cost, search.moves, search.lower_bound) == (0, [(0, [])], 0)


def test_a_joint_search_that_is_asked_to_stop_has_no_plan() -> None:
    token = native.StopToken()
    token.ask()
    search = joint_search(joint_tensor(units=5), capacity_units=2)
    assert search.run(token) is native.JointOutcome.STOPPED
    assert search.moves == []
    with pytest.raises(RuntimeError, match="stopped cannot be resumed"):
        search.run(native.StopToken())
    assert joint_search(joint_tensor(units=5)).run(native.StopToken()) is native.JointOutcome.EXHAUSTED


def test_what_is_stopped_before_its_first_state_stands_proves_nothing() -> None:
    token = native.StopToken()
    token.ask()
    search = joint_search(upper_bound=7)
    assert search.run(token) is native.JointOutcome.STOPPED
    assert (search.moves, search.lower_bound) == ([], 0)


def _any_list(random: Random, stop: int) -> list[int]:
    items = sorted(random.sample(range(stop), random.randint(0, min(stop, 3))))
    return items if random.random() < 0.98 else [random.randint(-2, stop + 2) for _ in range(3)]


@pytest.mark.parametrize("seed", series(range(300), 100))
def test_any_joint_problem_is_searched_or_refused(seed: int) -> None:
    """Problems have tensors with several producers, reads before writes, sizes that never fit, numbers near 64 bits."""
    random = Random(seed)
    numbers = (1, 2, 3, 7) if seed % 3 else (1, 0, -1, (1 << 60) - 9, 1 << 60, 1 << 62)
    tensors = [
        joint_tensor(
            units=random.choice(numbers),
            load_cost=random.choice(numbers),
            store_cost=random.choice((0, *numbers)),
            may_end_short=random.random() < 0.3,
        )
        for _ in range(random.randint(0, 70 if seed % 7 == 0 else 9))
    ]
    operators = [
        joint_operator(
            reads=_any_list(random, len(tensors)),
            writes=_any_list(random, len(tensors)),
            predecessors=_any_list(random, at),
        )
        for at in range(random.randint(0, 9))
    ]
    try:
        search = native.JointSearch(
            tensors,
            operators,
            capacity_units=random.randint(0, 20),
            upper_bound=random.choice((0, 5, 1 << 62)),
            greed=random.choice((0, 1, 1 << 50)),
            seed=random.getrandbits(64),
            most_bytes=random.choice((1 << 12, 1 << 30)),
        )
    except ValueError as error:
        refusal = str(error)
    else:
        refusal = _search_any(search, len(operators))
    assert refusal == "" or "(entry" in refusal


def _search_any(search: native.JointSearch, operators: int) -> str:
    outcome = search.run(native.StopToken(), 200)
    assert outcome is not native.JointOutcome.STOPPED
    assert len(search.moves) == operators * (outcome is native.JointOutcome.FOUND)
    return ""


def test_a_problem_of_nothing_costs_nothing() -> None:
    search = native.JointSearch([], [], capacity_units=0)
    assert search.run(native.StopToken()) is native.JointOutcome.FOUND
    assert (search.cost, search.moves) == (0, [])
