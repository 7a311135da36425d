"""Programs over tile graphs as the verifier replays them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onchip.answer.program import Instruction
from onchip.ir.graph import Graph
from onchip.verify.schedule.machine import AddressedMachine
from onchip.verify.schedule.streaming import StreamingReplay, TileOperand, tile_operands, tile_problem
from onchip.verify.schedule.tiles import TileOfNetwork
from support.schedule_programs import ProgramCase


def operands_of(graph: Graph) -> Mapping[str, Sequence[TileOperand]]:
    return {one.name: tile_operands(graph, TileOfNetwork(one, one, 0, 0)) for one in graph.operators}


def replayed(case: ProgramCase, instructions: Sequence[Instruction]) -> StreamingReplay:
    machine = AddressedMachine(case.accelerator)
    workspaces = {name: cost.workspace_bytes for name, cost in case.costs.items()}
    replay = StreamingReplay(tile_problem(case.graph, machine), machine, operands_of(case.graph), workspaces)
    for index, instruction in enumerate(instructions):
        replay.execute(index, instruction)
    replay.finish()
    return replay
