"""Lower bounds on cycles with the network on chip: no simulation of a mapping ends before them."""

from __future__ import annotations

import pytest
from cosa.layer_floor import floor_of_layer

from onchip.answer.layer_mapping import LayerMapping, Loop
from onchip.answer.layer_problem import LayerProblem
from onchip.backends.noc.layer import element_rounds, floor_of_rounds, layer_on_network
from onchip.errors import InputError
from onchip.formats.own.accelerator_yaml import load_accelerator
from onchip.ir.layer import Layer
from support.network_mappings import SIMBA, mappings_for_the_network
from support.series import series

WHOLE = 1 << 20


@pytest.mark.parametrize("seed", series(range(40), 13))
@pytest.mark.parametrize("has_refills", [False, True])
def test_no_simulation_ends_before_the_floors_of_its_mapping_and_of_its_layer(seed: int, has_refills: bool) -> None:
    problem, mappings = mappings_for_the_network(seed)
    least = floor_of_layer(problem)
    for mapping in mappings[:3]:
        rounds = element_rounds(problem, mapping, has_refills=has_refills)
        run = layer_on_network(problem, mapping, WHOLE, has_refills=has_refills)
        assert run is not None
        assert run.rounds_simulated == run.rounds
        floor = floor_of_rounds(rounds)
        assert least <= floor, mapping
        assert floor <= run.cycles, mapping


def test_a_product_whose_weights_come_once_is_close_to_its_floor() -> None:
    """DRAM reads take nearly all of the time."""
    problem = LayerProblem(Layer(k=64, c=64), SIMBA)
    mapping = LayerMapping((Loop("C", 8, "lane"), Loop("K", 8, "vector"), Loop("K", 8, "pe"), Loop("C", 8)))
    run = layer_on_network(problem, mapping)
    assert run is not None
    assert floor_of_layer(problem) <= run.cycles <= 1.25 * floor_of_layer(problem)


def test_rows_that_a_stride_skips_need_not_come() -> None:
    dense, strided = Layer(c=512, p=8, q=8), Layer(c=512, p=8, q=8, stride=(2, 2))
    floors = [floor_of_layer(LayerProblem(one, SIMBA)) for one in (dense, strided)]
    assert floors[0] == floors[1]


def test_a_machine_without_a_shared_memory_above_all_elements_has_no_floor() -> None:
    with pytest.raises(InputError, match="no elements with memories of their own"):
        floor_of_layer(LayerProblem(Layer(k=2), load_accelerator("meta-prototype-df")))
