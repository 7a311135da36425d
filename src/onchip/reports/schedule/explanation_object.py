"""What `explain` says of a schedule, for `--json`."""

from __future__ import annotations

from typing import Final

from onchip.reports.explain.schedule_movements import TensorMovement
from onchip.reports.explain.schedule_room import Crowding
from onchip.reports.schedule.explanation import STREAMED, MovementSum, ScheduleExplanation
from onchip.reports.schedule.operator_figures import OperatorFigures
from onchip.reports.schedule.text import energies_object, latency_object, traffic_object
from onchip.reports.shared.page import Json

MOST_OTHERS: Final = 10


def schedule_explanation_object(explanation: ScheduleExplanation) -> Json:
    """Everything that is known of why the schedule, or the tensor that is named, costs what it does."""
    outcome = explanation.outcome
    head: Json = {"network": outcome.network.name, "accelerator": outcome.accelerator.name}
    if explanation.tensor is not None:
        return head | _of_tensor(explanation, explanation.tensor)
    result, figures = outcome.result, explanation.figures
    return {
        **head,
        "status": result.status,
        "objective": outcome.objective,
        "objective_unit": outcome.unit,
        "objective_value": result.objective_value,
        "lower_bound": result.lower_bound,
        "gap": result.gap,
        "energy_pj": figures.energy_pj,
        "energies": energies_object(figures),
        "latency_cycles": figures.latency_cycles,
        "latency_parts": latency_object(figures),
        "traffic": traffic_object(figures),
        "operators": [_operator_object(one) for one in explanation.operators],
        "copies": [_sum_object(explanation, one) for one in explanation.sums if one.kind not in STREAMED],
        "streamed": [_sum_object(explanation, one) for one in explanation.sums if one.kind in STREAMED],
    }


def _of_tensor(explanation: ScheduleExplanation, tensor: str) -> Json:
    history, network = explanation.history, explanation.outcome.network
    bands = {one.name for one in history.tiles.graph.tensors if tensor in (one.name, one.part_of)}
    whole = network.tensor.get(tensor) or history.tiles.graph.tensor[tensor]
    producer = network.producer.get(tensor)
    return {
        "tensor": tensor,
        "role": whole.role,
        "bytes": whole.size_bytes,
        "bands": len(bands),
        "written_by": producer and producer.name,
        "read_by": [one.name for one in network.readers.get(tensor, ())],
        "residencies": [
            {
                "band": one.tensor,
                "memory": one.memory,
                "offset_bytes": one.offset_bytes,
                "bytes": one.size_bytes,
                "start_step": one.start_step,
                "stop_step": one.stop_step,
                "began": one.began,
            }
            for one in history.residencies
            if one.tensor in bands
        ],
        "copies": [_sum_object(explanation, one) for one in explanation.sums if one.kind not in STREAMED],
        "streamed": [_sum_object(explanation, one) for one in explanation.sums if one.kind in STREAMED],
        "movements": [_movement_object(explanation, one) for one in explanation.own_movements],
    }


def _operator_object(one: OperatorFigures) -> Json:
    parts = sorted(one.energy_pj.items(), key=lambda part: -part[1])
    return {
        "operator": one.name,
        "kind": one.kind,
        "stack": one.stack,
        "tile_operators": one.tile_operators,
        "macs": one.macs,
        "energy_pj": one.stated_energy_pj,
        "cycles": one.cycles,
        "energies": [{"memory": memory, "cause": cause, "energy_pj": part} for (memory, cause), part in parts if part],
    }


def _sum_object(explanation: ScheduleExplanation, one: MovementSum) -> Json:
    return {
        "tensor": one.tensor,
        "kind": one.kind,
        "operator": one.operator,
        "memory": one.memory,
        "times": one.times,
        "bytes": one.size_bytes,
        "energy_pj": one.energy_pj,
        "reason": one.reason,
        "worst": _worst_object(explanation, one.worst),
    }


def _movement_object(explanation: ScheduleExplanation, one: TensorMovement) -> Json:
    return {
        "bands": list(one.bands),
        "kind": one.kind,
        "step": one.step,
        "operator": one.operator,
        "source": one.source,
        "target": one.target,
        "bytes": -(-one.bits // 8),
        "energy_pj": one.energy_pj,
        "reason": one.reason,
        "room": one.crowding and _crowding_object(explanation, one.crowding),
    }


def _worst_object(explanation: ScheduleExplanation, one: TensorMovement) -> Json | None:
    """With what else lies there."""
    if one.crowding is None:
        return None
    others = explanation.movements.room.others(one.crowding, one.bands)
    listed = [{"tensor": other.tensor, "bytes": other.size_bytes} for other in others[:MOST_OTHERS]]
    return _crowding_object(explanation, one.crowding) | {"others": listed}


def _crowding_object(explanation: ScheduleExplanation, crowding: Crowding) -> Json:
    return {
        "memory": crowding.memory.name,
        "capacity_bytes": crowding.memory.capacity_bytes,
        "step": crowding.step,
        "operator": explanation.history.operators[crowding.step],
        "need_bytes": crowding.need_bytes,
        "others_bytes": crowding.others_bytes,
        "missing_bytes": max(crowding.missing_bytes, 0),
    }
