from __future__ import annotations

import subprocess
import sys

import onchip


def test_every_public_name_is_there() -> None:
    assert onchip.__all__ == sorted(onchip.__all__)
    assert [name for name in onchip.__all__ if not hasattr(onchip, name)] == []


def test_the_public_names_are_these() -> None:
    nouns = {"Accelerator", "Buffer", "Graph", "Layer", "Memory", "Operator", "Plan", "Progress", "Schedule", "Tensor"}
    choices = {
        "Count",
        "Order",
        "OverlapMode",
        "Placement",
        "Placements",
        "Recompute",
        "Role",
        "Share",
        "Status",
        "TilesOption",
    }
    options = {"CapacityOptions", "FusionOptions", "MapOptions", "PackOptions", "PlanOptions", "ScheduleOptions"}
    inputs = {"conv", "from_torch", "gemm", "load", "load_accelerator", "load_network"}
    solve = {"capacity", "fuse", "info", "map_layer", "map_network", "pack", "pareto", "plan", "schedule", "sweep"}
    use = {"audit", "check", "diff", "explain", "export", "report", "run", "time"}
    others = {"OnchipError", "Report", "Result"}
    assert set(onchip.__all__) == nouns | choices | options | inputs | solve | use | others


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(onchip, "nonsense")


def test_the_public_names_are_enough_to_plan() -> None:
    sizes = {"x": (4, onchip.Role.INPUT), "h": (6, onchip.Role.ACTIVATION), "y": (5, onchip.Role.OUTPUT)}
    tensors = tuple(onchip.Tensor(name, size, role) for name, (size, role) in sizes.items())
    operators = (onchip.Operator("a", "Conv", ("x",), ("h",)), onchip.Operator("b", "Conv", ("h",), ("y",)))

    result = onchip.plan(onchip.Graph("chain", tensors, operators), onchip.Memory("sram", 11))

    assert result.status is onchip.Status.OPTIMAL
    assert result.objective == 0
    assert onchip.check(result).is_legal


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
