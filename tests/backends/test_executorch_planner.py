"""ExecuTorch's planners, and the page about them."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from onchip.answer.result import Status
from onchip.backends.executorch import FallbackWarning, memory_planner
from onchip.backends.executorch.planner import ExecutorchPlanner, MemoryMap, PlannerObjective
from onchip.errors import GraphError, InputError, UsageError
from onchip.search.budget.limits import Limits

# The planner as ExecuTorch calls it, with stand-ins for ExecuTorch's tensors: these tests do not need the extra


ALIGNMENT = 16


@dataclass(eq=False)
class Spec:
    """A tensor as the planner sees it; its live range includes the first and the last node."""

    size_bytes: int
    lifetime: list[int]
    mem_id: int | None = None
    storage_base: Spec | None = None
    storage_base_offset: int = 0
    device: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(name="CPU"))
    mem_obj_id: int | None = 7
    mem_offset: int | None = None
    alignment: int = 1

    @property
    def shape(self) -> list[int]:
        return [self.size_bytes]

    @property
    def allocated_memory(self) -> int:
        return -(-self.size_bytes // self.alignment) * self.alignment

    def realign(self, new_alignment: int) -> int:
        self.alignment = new_alignment
        return self.allocated_memory

    @property
    def place(self) -> tuple[int | None, int | None]:
        return self.mem_id, self.mem_offset


def planned(
    planner: ExecutorchPlanner, specs: list[Spec], reserved: list[int] | None = None, padding: int = 0
) -> list[int]:
    module = SimpleNamespace(input_mem_buffer_sizes=reserved or [])
    return planner(ALIGNMENT, specs, module, None, padding)


def test_tensors_that_never_meet_share_their_bytes() -> None:
    specs = [Spec(64, [0, 1]), Spec(32, [1, 2]), Spec(64, [2, 3])]
    planner = memory_planner()
    assert planned(planner, specs) == [0, 96]
    assert (specs[0].place, specs[2].place) == ((1, specs[0].mem_offset), (1, specs[0].mem_offset))
    assert all(spec.mem_obj_id is None for spec in specs)
    assert planner.planned[0].status is Status.OPTIMAL


def test_lives_include_their_last_node() -> None:
    specs = [Spec(16, [0, 1]), Spec(16, [1, 2])]
    assert planned(memory_planner(), specs) == [0, 32]


def test_the_fewest_bytes_lie_outside() -> None:
    specs = [Spec(64, [0, 3]), Spec(48, [0, 1]), Spec(48, [2, 3])]
    planner = memory_planner(capacity=80)
    assert planned(planner, specs) == [0, 48, 64]
    assert [spec.mem_id for spec in specs] == [2, 1, 1]
    module = planner.planned[0]
    assert (module.status, module.value_bytes) == (Status.OPTIMAL, 64)
    assert [(memory.name, memory.capacity_bytes) for memory in module.memories] == [("sram", 80), ("dram", None)]


def test_where_all_fits_no_more_is_taken_than_needed() -> None:
    specs = [Spec(64, [0, 1]), Spec(32, [1, 2]), Spec(64, [2, 3])]
    assert planned(memory_planner(capacity="1KiB"), specs) == [0, 96]


def test_sizes_are_rounded_up_to_the_alignment() -> None:
    specs = [Spec(1, [0, 1]), Spec(17, [0, 1])]
    assert planned(memory_planner(), specs) == [0, 48]
    assert sorted(spec.mem_offset or 0 for spec in specs) in ([0, 16], [0, 32])


def test_an_accelerator_has_a_memory_for_each_scratchpad(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(
        "format: onchip-accelerator\nversion: 1\nname: two\nmemories:\n"
        "  - {name: near, capacity: 64, scratchpad: true, alignment: 32}\n"
        "  - {name: far, capacity: 128, scratchpad: true}\n"
    )
    specs = [Spec(48, [0, 1]), Spec(112, [0, 1]), Spec(16, [0, 1])]
    planner = memory_planner(accelerator=file)
    planned(planner, specs)
    assert planner.planned[0].value_bytes == 0
    assert specs[1].mem_id == 2
    assert all((spec.mem_offset or 0) % 32 == 0 for spec in specs if spec.mem_id == 1)
    assert [memory.name for memory in planner.planned[0].memories] == ["near", "far", "dram"]


def test_what_lies_within_another_moves_with_it_and_keeps_it_alive() -> None:
    base = Spec(64, [0, 1])
    part = Spec(16, [2, 3], storage_base=base, storage_base_offset=32)
    part_of_part = Spec(8, [3, 4], storage_base=part, storage_base_offset=0)
    other = Spec(64, [4, 5])
    assert planned(memory_planner(), [part_of_part, part, base, other]) == [0, 128]
    assert part.place == part_of_part.place == (1, (base.mem_offset or 0) + 32)


def test_a_tensor_without_bytes_has_a_place_all_the_same() -> None:
    specs = [Spec(0, [0, 1]), Spec(16, [0, 1]), Spec(0, [0, 1], mem_id=3)]
    planned(memory_planner(), specs)
    assert (specs[0].place, specs[2].place) == ((1, 0), (3, 0))


def test_what_submodules_take_is_kept_free() -> None:
    specs = [Spec(32, [0, 1])]
    assert planned(memory_planner(), specs, reserved=[0, 24]) == [0, 64]
    assert specs[0].mem_offset == 32
    assert planned(memory_planner(), [], reserved=[0, 24]) == [0, 24]
    assert planned(memory_planner(), []) == [0, 0]


def test_padding_is_behind_the_last_buffer_and_within_the_capacity() -> None:
    assert planned(memory_planner(), [Spec(32, [0, 1])], padding=64) == [0, 96]
    assert planned(memory_planner(capacity=95), [Spec(32, [0, 1])], padding=64) == [0, 0, 96]
    assert planned(memory_planner(capacity=96), [Spec(32, [0, 1])], padding=64) == [0, 96]


def test_a_pinned_tensor_stays_in_its_memory() -> None:
    specs = [Spec(32, [0, 1], mem_id=1), Spec(64, [0, 1]), Spec(16, [0, 1], mem_id=4), Spec(16, [2, 3], mem_id=2)]
    assert planned(memory_planner(capacity=64), specs) == [0, 32, 64, 0, 16]
    assert [spec.mem_id for spec in specs] == [1, 2, 4, 2]


def test_the_arena_may_have_a_limit() -> None:
    assert planned(memory_planner(capacity=96, objective="arena"), [Spec(96, [0, 1])]) == [0, 96]
    with pytest.raises(InputError, match=r"they need at least 112"):
        planned(memory_planner(capacity=96, objective="arena"), [Spec(96, [0, 1]), Spec(16, [1, 2])])


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        ([Spec(32, [0, 1], mem_id=1)], "pinned"),
        ([Spec(8, [0, 1], device=SimpleNamespace(name="CUDA"))], "CUDA"),
        ([Spec(8, [0, 1], storage_base=Spec(8, [0, 1]))], "no planned memory"),
    ],
)
def test_what_cannot_be_planned_is_one_line(specs: list[Spec], message: str) -> None:
    with pytest.raises(InputError, match=message) as refusal:
        planned(memory_planner(capacity=16), specs)
    assert "\n" not in str(refusal.value)


def test_a_tensor_beyond_its_storage_is_refused() -> None:
    base = Spec(16, [0, 1])
    with pytest.raises(GraphError, match="ends 32 bytes into a tensor of 16"):
        planned(memory_planner(), [base, Spec(16, [0, 1], storage_base=base, storage_base_offset=16)])


def test_a_tensor_without_a_life_is_refused() -> None:
    with pytest.raises(GraphError, match="no lifetime"):
        planned(memory_planner(), [Spec(16, [None, None])])  # type: ignore[list-item]


def test_a_tensor_within_itself_is_refused() -> None:
    one, other = Spec(16, [0, 1]), Spec(16, [0, 1])
    one.storage_base, other.storage_base = other, one
    with pytest.raises(GraphError, match="within itself"):
        planned(memory_planner(), [one, other])


def test_another_planner_is_asked_only_where_it_was_named() -> None:
    def own(alignment: int, specs: object, module: object, signature: object, padding: int) -> list[int]:
        return [0, 123]

    with_fallback = ExecutorchPlanner(MemoryMap(), PlannerObjective.ARENA, Limits(), own)
    with pytest.warns(FallbackWarning, match="no lifetime"):
        assert planned(with_fallback, [Spec(16, [None, None])]) == [0, 123]  # type: ignore[list-item]
    assert planned(with_fallback, [Spec(16, [0, 1])]) == [0, 16]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"accelerator": "simba", "capacity": 5}, "accelerator, capacity"),
        ({"objective": "outside"}, "no scratchpad"),
        ({"objective": "speed"}, "expected one of arena, outside"),
        ({"capacity": "much"}, "not a size"),
        ({"capacity": 0}, "out of range"),
        ({"accelerator": "cortex-m7-like", "objective": "arena"}, "2 scratchpads"),
        ({"accelerator": "nothing-like-it"}, "nothing-like-it"),
    ],
)
def test_what_contradicts_itself_is_refused(asked: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        memory_planner(**asked)  # type: ignore[arg-type]


def test_a_scratchpad_for_weights_alone_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "weights.yaml"
    file.write_text(
        "format: onchip-accelerator\nversion: 1\nname: weights\nmemories:\n"
        "  - {name: near, capacity: 64, scratchpad: true, holds: [weight]}\n"
    )
    with pytest.raises(UsageError, match="holds weight alone"):
        memory_planner(accelerator=file)


def test_it_says_what_it_has_planned() -> None:
    planner = memory_planner(capacity=80)
    planned(planner, [Spec(64, [0, 3]), Spec(48, [0, 1])])
    lines = str(planner).splitlines()
    assert lines[0].startswith("OPTIMAL: 2 buffers, outside 48 bytes, lower bound 48 bytes, ")
    assert lines[1:] == ["  1 sram: 64 of 80 bytes, 1 buffer of 64 bytes", "  2 dram: 48 bytes, 1 buffer of 48 bytes"]


def test_importing_onchip_imports_neither_this_nor_torch() -> None:
    code = "import onchip, sys; sys.exit(any(name in sys.modules for name in ('torch', 'onchip.backends.executorch')))"
    assert subprocess.run((sys.executable, "-c", code), check=False).returncode == 0


# The page's code runs, and prints the output shown


WHY = "ExecuTorch is not installed: pip install 'onchip[executorch]'"
PAGE = Path(__file__).parent.parent.parent / "docs" / "executorch.md"


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def test_the_pages_code_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("executorch.exir", reason=WHY, exc_type=ImportError)
    monkeypatch.chdir(tmp_path)
    exec(compile(block("python"), str(PAGE), "exec"), {})
    without_seconds = re.compile(r"\d+\.\d+ seconds")
    printed = without_seconds.sub("", capsys.readouterr().out)
    assert printed == without_seconds.sub("", block("text"))
    assert (tmp_path / "model.pte").stat().st_size > 0
