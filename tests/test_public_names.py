from __future__ import annotations

import subprocess
import sys

import onchip


def test_every_public_name_is_there() -> None:
    assert onchip.__all__ == sorted(onchip.__all__)
    assert [name for name in onchip.__all__ if not hasattr(onchip, name)] == []


def test_there_are_no_more_public_names_than_these() -> None:
    types = {
        "Accelerator",
        "Elements",
        "Graph",
        "Memory",
        "Operator",
        "Plan",
        "Problem",
        "Result",
        "SweepChoices",
        "Tensor",
    }
    choices = {"Count", "Limits", "Objective", "Order", "Reading", "Role", "Status"}
    instructions = {"Allocate", "Compute", "Copy", "Free"}
    verbs = {
        "audit",
        "capacity",
        "check",
        "diff",
        "explain",
        "fuse",
        "map_layer",
        "pack",
        "plan",
        "report",
        "run",
        "schedule",
        "schedule_front",
        "sweep",
    }
    functions = {"graph_from_torch", "plan_problem", "read_network", "verify_plan"}
    assert set(onchip.__all__) == types | choices | instructions | verbs | functions | {"OnchipError"}


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(onchip, "nonsense")


def test_the_public_names_are_enough_to_plan() -> None:
    sizes = {"x": (4, onchip.Role.INPUT), "h": (6, onchip.Role.ACTIVATION), "y": (5, onchip.Role.OUTPUT)}
    tensors = tuple(onchip.Tensor(name, size, role) for name, (size, role) in sizes.items())
    operators = (onchip.Operator("a", "Conv", ("x",), ("h",)), onchip.Operator("b", "Conv", ("h",), ("y",)))
    problem = onchip.Problem(onchip.Graph("chain", tensors, operators), (onchip.Memory("sram", 11),))

    result = onchip.plan_problem(problem)

    assert result.status is onchip.Status.OPTIMAL
    assert result.objective_value == 0
    assert result.answer is not None
    assert onchip.verify_plan(problem, result.answer).is_legal


def test_all_public_names_are_listed() -> None:
    assert set(onchip.__all__) <= set(dir(onchip))


def test_importing_the_package_loads_the_standard_library_only() -> None:
    program = (
        "import sys; import onchip;"
        "print(*{name.split('.')[0] for name in sys.modules} - {*sys.stdlib_module_names, *sys.argv[1:]})"
    )
    before = "import sys; print(*{name.split('.')[0] for name in sys.modules})"
    already = subprocess.run([sys.executable, "-c", before], capture_output=True, text=True, check=True).stdout.split()
    ended = subprocess.run([sys.executable, "-c", program, *already], capture_output=True, text=True, check=True)

    assert ended.stdout.split() == ["onchip"]
