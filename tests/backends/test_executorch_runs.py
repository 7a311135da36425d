"""ExecuTorch programs written with our plan run with eager torch's outputs."""

from __future__ import annotations

import logging
from typing import Any, TypeAlias

import pytest

from onchip.answer.result import Status
from onchip.backends.executorch import ExecutorchPlanner, memory_planner
from onchip.errors import InputError

WHY = "ExecuTorch is not installed: pip install 'onchip[executorch]'"
exir = pytest.importorskip("executorch.exir", reason=WHY, exc_type=ImportError)
torch = pytest.importorskip("torch", reason=WHY)
passes = pytest.importorskip("executorch.exir.passes", reason=WHY)
runtime = pytest.importorskip("executorch.runtime", reason=WHY)

Untyped: TypeAlias = Any
"""Objects of ExecuTorch and torch."""

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


class Residual(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A residual branch that stays live, and a view that ExecuTorch elides."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.second = torch.nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x: Untyped) -> Untyped:
        kept = self.first(x).relu()
        return (kept + self.second(kept)).reshape(1, 8, -1).sum(2)


class Branches(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A module that computes all large tensors before it reduces any of them."""

    def forward(self, x: Untyped) -> Untyped:
        large = [x.repeat(1, 4) * factor for factor in (2.0, 3.0, 5.0)]
        return torch.cat([one.amax(1, keepdim=True) for one in large], 1)


class Counter(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A module whose state stays from run to run."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4, 8))

    def forward(self, x: Untyped, row: Untyped) -> Untyped:
        self.total.index_copy_(0, row, x)
        return self.total.sum(0) + x.relu().sum(0)


class Either(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A module with control flow: both branches are submodules."""

    def forward(self, x: Untyped) -> Untyped:
        doubled = x + x
        chosen = torch.cond(x.sum() > 0, lambda a: (a.relu() * 3.0) + 1.0, lambda a: a * a - 1.0, [doubled])
        return chosen + doubled


def edge_of(module: Untyped, inputs: tuple[Untyped, ...], **options: Untyped) -> Untyped:
    with torch.no_grad():
        return exir.to_edge(torch.export.export(module.eval(), inputs, **options))


def written(edge: Untyped, planner: ExecutorchPlanner, **options: Untyped) -> Untyped:
    planning = passes.MemoryPlanningPass(memory_planning_algo=planner)
    logging.getLogger().setLevel(logging.DEBUG)  # then ExecuTorch verifies that no tensors overlap
    try:
        return edge.to_executorch(exir.ExecutorchBackendConfig(memory_planning_pass=planning, **options))
    finally:
        logging.getLogger().setLevel(logging.WARNING)


def method_of(program: Untyped) -> Untyped:
    return runtime.Runtime.get().load_program(program.buffer).load_method("forward")


def assert_it_runs(program: Untyped, module: Untyped, inputs: tuple[Untyped, ...]) -> None:
    torch.testing.assert_close(method_of(program).execute(inputs)[0], module(*inputs))


@pytest.mark.parametrize("capacity", [None, "64KiB", "1KiB"])
def test_a_program_by_our_plan_runs_with_eagers_outputs(capacity: str | None) -> None:
    module, inputs = Residual(), (torch.randn(1, 3, 32, 32),)
    planner = memory_planner(capacity=capacity)
    program = written(edge_of(module, inputs), planner)
    assert_it_runs(program, module, inputs)
    planned = planner.planned[0]
    assert planned.status is Status.OPTIMAL
    sizes = program.executorch_program.execution_plan[0].non_const_buffer_sizes
    assert sizes == [0, *(memory.arena_bytes for memory in planned.memories if memory.arena_bytes)]


def test_no_arena_is_larger_than_executorchs() -> None:
    inputs = (torch.randn(1, 3, 32, 32),)
    edge = edge_of(Residual(), inputs)
    planner = memory_planner()
    ours = written(edge, planner).executorch_program.execution_plan[0].non_const_buffer_sizes
    own = edge_of(Residual(), inputs).to_executorch().executorch_program.execution_plan[0].non_const_buffer_sizes
    assert sum(ours) <= sum(own)


def test_a_state_stays_from_run_to_run_and_is_written_in_place() -> None:
    module, inputs = Counter(), (torch.randn(1, 8), torch.tensor([1]))
    edge = edge_of(module, inputs)
    program = written(edge, memory_planner(capacity=256), run_reinplace_pass=True, emit_mutable_buffer_names=True)
    method, eager = method_of(program), Counter()
    for row in (0, 1, 3):
        now = (torch.randn(1, 8), torch.tensor([row]))
        torch.testing.assert_close(method.execute(now)[0], eager(*now))


def test_a_dynamic_shape_has_room_for_its_upper_bound() -> None:
    module, inputs = Branches(), (torch.randn(4, 8),)
    rows = torch.export.Dim("rows", min=2, max=16)
    edge = edge_of(module, inputs, dynamic_shapes=({0: rows},))
    program = written(edge, memory_planner(capacity="1KiB"))
    method = method_of(program)
    for count in (2, 16, 5):
        x = (torch.randn(count, 8),)
        torch.testing.assert_close(method.execute(x)[0], module(*x))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_submodules_have_bytes_of_their_own(sign: float) -> None:
    module, inputs = Either(), (sign * torch.ones(4, 8),)
    planner = memory_planner()
    assert_it_runs(written(edge_of(module, inputs), planner), module, inputs)
    assert len(planner.planned) == 3


def test_a_capacity_that_does_not_suffice_is_one_line_and_writes_nothing() -> None:
    edge = edge_of(Residual(), (torch.randn(1, 3, 32, 32),))
    with pytest.raises(InputError, match="do not fit in 1,024 bytes"):
        written(edge, memory_planner(capacity="1KiB", objective="arena"))


def test_executorchs_own_planner_is_there_when_it_is_named() -> None:
    module, inputs = Residual(), (torch.randn(1, 3, 32, 32),)
    planner = memory_planner(capacity="1KiB", objective="arena", fallback=True)
    assert_it_runs(written(edge_of(module, inputs), planner), module, inputs)
