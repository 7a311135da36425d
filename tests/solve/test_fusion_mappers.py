"""A layer that a method refuses is no layer without mappings."""

from __future__ import annotations

import pytest

from onchip.arch.accelerator import Accelerator
from onchip.errors import InputError
from onchip.frontends.accelerator_yaml import load_accelerator
from onchip.ir.loopnest import Layer
from onchip.plan.mapping import Mapping
from onchip.plan.result import Result
from onchip.solve.fusion.mappers import LayerMapper, UnmappableError
from onchip.solve.limits import Run
from onchip.solve.mapping.objective import MappingObjective
from onchip.solve.mapping.registry import MappingMethod


def _refuse(layer: Layer, accelerator: Accelerator, objective: MappingObjective, run: Run) -> Result[Mapping]:
    raise InputError("it is too large", place="layer", expected="a smaller one")


def test_what_a_method_refuses_is_said_and_not_taken_for_impossible() -> None:
    mapper = LayerMapper(MappingMethod("picky", "", _refuse), MappingObjective.ENERGY, Run())
    with pytest.raises(UnmappableError, match="--method picky: it is too large; expected a smaller one"):
        mapper(Layer(), load_accelerator("simba"))
