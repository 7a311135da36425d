"""Groups counted by tile types have the costs of groups composed tile by tile."""

from __future__ import annotations

import pytest

from onchip.answer.document import Reading
from onchip.answer.options.schedule_objective import ScheduleObjective
from onchip.answer.options.verb_options import FusionOptions
from onchip.answer.schedule import ScheduledStack
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.api.networks import read_network
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ops.fusable import pixels_in_tiles
from onchip.ops.layers_of import Precision
from onchip.scheduling.candidates.grouping import Grouper
from onchip.scheduling.mappings.mapped import KnownMappings
from onchip.scheduling.mappings.nest_mapper import BestMapper
from onchip.scheduling.program.attempt import AttemptMaker
from onchip.scheduling.program.composition import ScheduleQuestion
from onchip.search.budget.limits import Run


@pytest.mark.parametrize("mode", OverlapMode)
@pytest.mark.parametrize(
    ("machine", "tile"), [("meta-prototype-df", (5, 3)), ("meta-prototype-df", (10, 2)), ("simba", (4, 4))]
)
def test_tiles_counted_by_type_cost_what_they_cost_one_by_one(
    machine: str, tile: tuple[int, int], mode: OverlapMode
) -> None:
    """The groups are the first two convolutions of LeNet-5 and their pools; the two costs may differ by 5 %."""
    accelerator, run = load_accelerator(machine), Run()
    network = read_network("lenet5", Reading()).with_bits(8)
    question = ScheduleQuestion(network, accelerator, Precision(8).on(accelerator), ScheduleObjective.ENERGY)
    mapper = BestMapper(accelerator, question.objective.of_layers, run)
    maker = AttemptMaker(question, KnownMappings(mapper), mapper, run)
    names = tuple(one.name for one in network.operators)[:3]
    rows, columns = pixels_in_tiles(network, names)
    grouper = Grouper(maker, None, FusionOptions(tile=tile, mode=mode))
    with mapper.quick(is_quick=True, is_hurried=True):
        (counted,) = grouper.counted(names, run).options
        composed = grouper.composed(counted.stack, counted.places, run)
    assert counted.stack == ScheduledStack(names, Tiling(*tile, mode).within(columns, rows))
    assert composed is not None
    assert composed.figures.energy_fj == pytest.approx(counted.figures.energy_fj, rel=0.05)
    assert composed.figures.traffic_bytes == pytest.approx(counted.figures.traffic_bytes, rel=0.05)
