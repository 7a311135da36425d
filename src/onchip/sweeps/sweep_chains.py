"""Which points of a study follow from others: those that differ in the capacity of a memory alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from onchip.answer.problem import Objective, Order
from onchip.formats.own.accelerator_yaml import accelerator_from_yaml
from onchip.formats.own.accelerator_yaml_writer import accelerator_sha256
from onchip.sweeps.point import SweepPoint
from onchip.sweeps.study import Study
from onchip.sweeps.values import number_of
from onchip.sweeps.verbs import VERBS, SweptVerb

EXACT: Final = "exact"
TIMED: Final = "timed"
COSTS_OF_PLANS: Final = ("traffic", "peak", "dma-cycles", "dma-energy", "recomputation")
"""Objectives whose value for a plan does not depend on the capacity in which it is, whatever runs again in it."""
NEVER_SPLIT: Final = ("never", False)
"""Of a plan's `split` and `cap_tensors`: what is planned does not depend on the capacity."""
SEARCHED_CYCLES: Final = "mapping"
"""The cost of operators by mappings that are searched for: a limit of time may cut that off elsewhere each time."""


def chains_of(study: Study, points: Mapping[str, SweepPoint], *, prunes: bool) -> list[list[str]]:
    """The points in chains that differ in one capacity alone, least first; each alone where nothing follows of it."""
    axis = _capacity_axis(study) if prunes else None
    if axis is None:
        return [[key] for key in points]
    chains: dict[str, list[SweepPoint]] = {}
    alone: list[list[str]] = []
    for key, point in points.items():
        if not follows_of_capacity(point):
            alone.append([key])
            continue
        others = {name: value for name, value in point.parameters.items() if name != axis}
        place = (point.network, point.accelerator, point.objective, point.options, others, _rest_of_machine(point))
        chains.setdefault(repr(place), []).append(point)
    chained = [sorted(chain, key=lambda one: number_of(one.parameters[axis])) for chain in chains.values()]
    return [*([point.key for point in chain] for chain in chained), *alone]


def _capacity_axis(study: Study) -> str | None:
    """The capacity with the most values; None where the study has none."""
    axes = [parameter for parameter in study.parameters if parameter.is_capacity]
    return max(axes, key=lambda one: len(one.values)).name if axes else None


def follows_of_capacity(point: SweepPoint) -> bool:
    """Whether more capacity never makes this point's answer dearer, and its bound holds for all answers.

    That is so of plans by a method that proves its bound, of a problem that does not depend on the capacity: its
    network is not split to fit, its order is not one of those that are found for it, and operators last as long.
    """
    if point.verb is not SweptVerb.PLAN:
        return False
    options = {**VERBS[point.verb].defaults(point.objective), **point.options}
    if (options["split"], options["cap_tensors"]) != NEVER_SPLIT or options["order"] == Order.MIN_PEAK:
        return False
    if point.objective == Objective.LATENCY:
        is_settled = options["time_limit"] is None or options["cost"] != SEARCHED_CYCLES
        return options["method"] == TIMED and is_settled
    return options["method"] == EXACT and point.objective in COSTS_OF_PLANS


def _rest_of_machine(point: SweepPoint) -> str:
    """What of a machine decides how long operators last, where that matters: all but the sizes of its scratchpads."""
    if point.objective != Objective.LATENCY:
        return ""
    machine = accelerator_from_yaml(point.machine.yaml, point.machine.name)
    sized = tuple(
        replace(level, memory=replace(level.memory, capacity_bytes=1)) if level.is_scratchpad else level
        for level in machine.levels
    )
    scratchpads = tuple(level.memory for level in sized if level.is_scratchpad)
    return accelerator_sha256(replace(machine, levels=sized, scratchpads=scratchpads))
