"""The bound on the cost of limited capacity, against brute force on tiny cases."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest

from onchip.answer.options.mapping_objective import MappingObjective
from onchip.answer.schedule import ScheduledStack, ScheduleError
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.arch.accelerator import Accelerator
from onchip.arch.memory import Access, Memory, MemoryLevel, Operand
from onchip.bounds.layer.needed import needed_pixels
from onchip.bounds.network.crowding import CrowdedNetwork, CrowdedOperator, RoomPrices
from onchip.bounds.network.relaxation import relaxation
from onchip.ir.graph import Graph
from onchip.ir.operator import AttributeValue, Operator
from onchip.ir.tensor import Role, Tensor
from onchip.model.program.figures import ScheduleFigures, schedule_figures
from onchip.ops.views import joined_maps
from onchip.scheduling.mappings.mapped import KnownMappings
from onchip.scheduling.mappings.nest_mapper import BestMapper
from onchip.scheduling.program.composition import Composer, NoMappingError
from onchip.scheduling.program.places import Places
from onchip.scheduling.program.runs import TiledNetwork
from onchip.search.budget.limits import Run
from onchip.transform.groups.tiled import tile_graph
from support.small_schedules import PRECISION, skip_chip, skip_network


def random_case(chance: random.Random) -> RoomPrices:
    """Return prices for up to three maps of few bits; each operator sees a random subset of the maps."""
    names = [f"m{at}" for at in range(chance.randint(1, 3))]
    sizes = {name: chance.randint(1, 7) for name in names}
    operators = []
    for _ in range(chance.randint(1, 4)):
        seen = {
            name: chance.choice((sizes[name], chance.randint(0, sizes[name])))
            for name in names
            if chance.random() < 0.7
        }
        price = Fraction(chance.randint(0, 12), chance.choice((1, 3)))
        is_whole = chance.random() < 0.3
        moved = frozenset(name for name in seen if is_whole and chance.random() < 0.3)
        operators.append(CrowdedOperator(None if is_whole else price, seen, moved))
    return RoomPrices(
        operators, {name: Fraction(chance.randint(0, 9), 2) for name in names}, chance.choice((0, 1, 2, 5, 20))
    )


def least_of_all(case: RoomPrices) -> Fraction | None:
    """Return the minimum by brute force over the numbers of tiles and of bits moved."""
    sizes = {name: max((one.map_bits.get(name, 0) for one in case.operators), default=0) for name in case.map_prices}
    least: Fraction | None = None
    for moved in product(*(range(size + 1) for size in sizes.values())):
        bits_moved = dict(zip(sizes, moved, strict=True))
        paid = sum((case.map_prices[name] * bits for name, bits in bits_moved.items()), Fraction(0))
        for one in case.operators:
            stay = sum(max(bits - bits_moved[name], 0) for name, bits in one.map_bits.items())
            tiles = 1 if stay == 0 else -(-stay // case.room_bits) if case.room_bits else None
            is_cut = tiles is not None and tiles > 1
            if (
                tiles is None
                or (is_cut and one.tile_price is None)
                or any(bits_moved[name] < one.map_bits[name] for name in one.moved)
            ):
                break
            paid += (tiles - 1) * (one.tile_price or 0)
        else:
            least = paid if least is None else min(least, paid)
    return least


@pytest.mark.parametrize("part", range(4))
def test_nothing_that_can_be_done_is_cheaper_than_the_least_price(part: int) -> None:
    met = 0
    for seed in range(part * 100, part * 100 + 100):
        case = random_case(random.Random(seed))
        least, bound = least_of_all(case), case.least_price()
        assert least is not None
        assert 0 <= bound <= least, seed
        met += bound > 0 and bound * 2 >= least
    assert met > 10, met


def test_any_prices_of_room_prove_something_that_holds() -> None:
    for seed in range(150):
        chance = random.Random(seed)
        case = random_case(chance)
        least = least_of_all(case)
        assert least is not None
        prices = [Fraction(chance.randint(-2, 20), 7) for _ in case.operators]
        assert case.proven(prices) <= least


def test_a_map_of_ten_bits_between_two_operators_moves_or_stays_in_more_tiles() -> None:
    """Five bits of room: two tiles of each at a price of 4 together, or five bits moved at 1 each."""
    two = tuple(CrowdedOperator(Fraction(price), {"m": 10}) for price in (1, 3))
    assert RoomPrices(two, {"m": Fraction(1)}, 5).least_price() == pytest.approx(4)
    assert RoomPrices(two, {"m": Fraction(1, 2)}, 5).least_price() == pytest.approx(5 / 2)
    assert RoomPrices(two, {"m": Fraction(1)}, 10).least_price() == 0


def chip_of_maps(near_bytes: int, far_bytes: int) -> Accelerator:
    """Return a chip with two memories for maps; the units hold all weights, which come from DRAM for every tile."""
    chip, kinds = skip_chip(near_bytes, far_bytes), (Operand.INPUT, Operand.OUTPUT)
    own = MemoryLevel(Memory("weights", 64, holds=(Operand.WEIGHT,)), (), access=Access(8, 1, 1))
    levels = tuple(replace(one, memory=replace(one.memory, holds=kinds)) for one in chip.levels)
    return replace(chip, levels=(own, *levels), scratchpads=(levels[-1].memory,))


NETWORK = skip_network(12, 12)
WHOLE = tile_graph(NETWORK, [ScheduledStack((one.name,)) for one in NETWORK.operators], PRECISION)
LAYERS = ("first", "second", "add")


def some_stacks(chance: random.Random) -> tuple[ScheduledStack, ...]:
    """Return stacks: the three layers together in tiles, the first in tiles, or all alone, whole or in tiles."""
    tiling = Tiling(chance.choice((12, 12, 5)), chance.randint(1, 7), chance.choice(list(OverlapMode)))
    together = chance.choice((LAYERS, LAYERS, ("first",), ()))
    tiled = [ScheduledStack(together, tiling)] if together else []
    alone = [ScheduledStack((one,), chance.choice((tiling, None))) for one in LAYERS if one not in together]
    return (*tiled, *alone, ScheduledStack(("soft",)))


def figures_of_some(chip: Accelerator, chance: random.Random) -> ScheduleFigures | None:
    """Return the figures of random stacks and places of `NETWORK`, or None if they do not fit."""
    try:
        tiles = tile_graph(NETWORK, stacks := some_stacks(chance), PRECISION)
        mapper = BestMapper(chip, MappingObjective.ENERGY, Run())
        with mapper.quick():
            composer = Composer(stacks, TiledNetwork.of(tiles), chip, KnownMappings(mapper))
            found = composer.addressed(composer.composed(random_places(chance, len(stacks))))
    except (NoMappingError, ScheduleError):
        return None
    return schedule_figures(tiles.graph, chip, found.schedule.program, found.costs)


@pytest.mark.parametrize("sizes", [(1, 12), (8, 100), (8, 300)])
def test_no_schedule_pays_less_for_room(sizes: tuple[int, int]) -> None:
    """Random stacks, tiles and places on chips that have too little room for all maps."""
    chip = chip_of_maps(*sizes)
    nests = {name: one.nests for name, one in WHOLE.operators.items()}
    bounds = [relaxation(WHOLE.graph, nests, chip, every_memory_keeps=keeps) for keeps in (False, True)]
    assert bounds[1].crowding.traffic_bits > 0
    found = [one for seed in range(12) if (one := figures_of_some(chip, random.Random(seed))) is not None]
    assert len(found) > 2
    for bound, one in product(bounds, found):
        assert bound.traffic_bytes <= one.traffic_bytes
        assert bound.energy_fj <= one.energy_fj
        assert bound.latency_cycles <= one.latency_cycles


def side_by_side(pixels: int) -> Graph:
    """Return two convolutions over x, and a third convolution over their joined outputs."""
    shapes = {"x": (1, 2), "a": (1, 2), "b": (1, 4), "j": (1, 6), "y": (1, 2)}
    roles = {"x": Role.INPUT, "y": Role.OUTPUT}
    maps = [
        Tensor.of_shape(name, (*shape, pixels, pixels), 8, roles.get(name, Role.ACTIVATION))
        for name, shape in shapes.items()
    ]
    sizes = (("u", (2, 2)), ("v", (4, 2)), ("w", (2, 6)))
    weights = [Tensor.of_shape(name, (*size, 3, 3), 8, Role.PARAMETER) for name, size in sizes]
    window: dict[str, AttributeValue] = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    operators = (
        Operator("left", "Conv", ("x",), ("a",), ("u",), window),
        Operator("right", "Conv", ("x",), ("b",), ("v",), window),
        Operator("join", "Concat", ("a", "b"), ("j",), (), {"axis": 1}),
        Operator("last", "Conv", ("j",), ("y",), ("w",), window),
    )
    return Graph("side by side", (*maps, *weights), operators)


def figures_side_by_side(
    network: Graph, chip: Accelerator, chance: random.Random, views: Collection[str]
) -> ScheduleFigures | None:
    """Return the figures of random stacks and places of `network`, or None if they do not fit."""
    tiling = Tiling(chance.choice((8, 8, 3)), chance.randint(1, 4), chance.choice(list(OverlapMode)))
    names = tuple(network.operator)
    alone = [ScheduledStack((name,), chance.choice((tiling, None)) if name != "join" else None) for name in names]
    stacks = chance.choice((tuple(alone), (ScheduledStack(names, tiling),)))
    keys = [(stack, name) for stack in range(len(stacks)) for name in "xabjy"]
    read, written = ({key: chance.choice(("near", "far")) for key in keys if chance.random() < 0.7} for _ in range(2))
    try:
        tiles = tile_graph(network, stacks, PRECISION, views)
        mapper = BestMapper(chip, MappingObjective.ENERGY, Run())
        with mapper.quick():
            composer = Composer(stacks, TiledNetwork.of(tiles), chip, KnownMappings(mapper))
            found = composer.addressed(composer.composed(Places(read, written, {})))
    except (NoMappingError, ScheduleError):
        return None
    return schedule_figures(tiles.graph, chip, found.schedule.program, found.costs)


@pytest.mark.parametrize(
    "sizes", [(1, 40), *(pytest.param(one, marks=pytest.mark.slow) for one in [(8, 150), (8, 300)])]
)
def test_of_joined_maps_no_schedule_pays_less_whether_it_copies_them_or_not(sizes: tuple[int, int]) -> None:
    """A part that passes DRAM is paid for once, by its writer and by the readers of the joined map."""
    network, chip = side_by_side(8), chip_of_maps(*sizes)
    whole = tile_graph(network, [ScheduledStack((one.name,)) for one in network.operators], PRECISION)
    nests = {name: one.nests for name, one in whole.operators.items()}
    bounds = [relaxation(whole.graph, nests, chip, every_memory_keeps=keeps) for keeps in (False, True)]
    assert bounds[1].crowding.traffic_bits > 0
    assert bounds[1].without_nest_pj == 0
    for views in ((), ("join",)):
        chances = (random.Random(seed) for seed in range(14))
        found = [one for chance in chances if (one := figures_side_by_side(network, chip, chance, views)) is not None]
        assert len(found) > 2
        for bound, one in product(bounds, found):
            assert bound.traffic_bytes <= one.traffic_bytes
            assert bound.energy_fj <= one.energy_fj
            assert bound.latency_cycles <= one.latency_cycles


def test_a_reader_of_joined_maps_has_room_for_their_parts() -> None:
    """The joined map is not a separate map, which would have to pass DRAM in addition to its parts."""
    network = side_by_side(8)
    whole = tile_graph(network, [ScheduledStack((one.name,)) for one in network.operators], PRECISION)
    nests = {name: one.nests for name, one in whole.operators.items()}
    joined = joined_maps(network, {"join"})
    needed = needed_pixels(whole.graph, nests)
    crowded = CrowdedNetwork(whole.graph, nests, chip_of_maps(1, 40), needed, {}, joined)
    maps = [one.map_bits for one in crowded._in_tiles({"u": 1, "v": 1, "w": 1})]
    assert maps == [{"a": 8 * 2 * 64, "b": 8 * 4 * 64}]  # slices of channels write the others band by band


def two_convolutions(channels: int, pixels: int) -> Graph:
    """Return two convolutions of one tap: x, a and y have `channels` channels of `pixels` x `pixels`."""
    roles = {"x": Role.INPUT, "a": Role.ACTIVATION, "y": Role.OUTPUT}
    maps = [Tensor.of_shape(name, (1, channels, pixels, pixels), 8, role) for name, role in roles.items()]
    weights = [Tensor.of_shape(name, (channels, channels, 1, 1), 8, Role.PARAMETER) for name in ("v", "w")]
    operators = Operator("first", "Conv", ("x",), ("a",), ("v",)), Operator("second", "Conv", ("a",), ("y",), ("w",))
    return Graph("two", (*maps, *weights), operators)


def least_of_some(network: Graph, chip: Accelerator) -> tuple[int, int]:
    """Return the least DRAM bits and femtojoules: both layers in bands with the map on the chip, or both streamed."""
    found = []
    rows = (network.tensor["a"].shape or ())[-1]
    bands = [Tiling(rows, at, OverlapMode.RECOMPUTE) for at in range(1, rows)]
    together = [(ScheduledStack(("first", "second"), band),) for band in bands]
    stays = Places({(0, "a"): "far"}, {(0, "a"): "far"}, {})
    for stacks in (*together, (ScheduledStack(("first",)), ScheduledStack(("second",)))):
        tiles = tile_graph(network, stacks, PRECISION)
        mapper = BestMapper(chip, MappingObjective.ENERGY, Run())
        with mapper.quick():
            composer = Composer(stacks, TiledNetwork.of(tiles), chip, KnownMappings(mapper))
            try:
                found.append(composer.addressed(composer.composed(stays if len(stacks) == 1 else Places())))
            except NoMappingError:
                continue
    return 8 * min(one.traffic_bytes for one in found), min(one.energy_fj for one in found)


@pytest.mark.parametrize(("channels", "pixels", "near", "far"), [(2, 12, 8, 100), (8, 4, 8, 24)])
def test_the_least_that_is_paid_for_room_is_nearly_reached(channels: int, pixels: int, near: int, far: int) -> None:
    """Once by three tiles, each with room for a third of the map; once by moving all of it, as weights are large."""
    network, chip = two_convolutions(channels, pixels), chip_of_maps(near, far)
    whole = tile_graph(network, [ScheduledStack((one.name,)) for one in network.operators], PRECISION)
    nests = {name: one.nests for name, one in whole.operators.items()}
    bound = relaxation(whole.graph, nests, chip, every_memory_keeps=True)
    traffic_bits, energy_fj = least_of_some(network, chip)
    paid_bits = traffic_bits - bound.dram_read_bits - bound.dram_written_bits
    assert bound.crowding.traffic_bits <= paid_bits <= 1.4 * bound.crowding.traffic_bits
    assert bound.energy_fj <= energy_fj <= 1.5 * bound.energy_fj
    assert bound.crowding.energy_pj == pytest.approx(bound.crowding.traffic_bits * 100 / 8, rel=0.01)
    assert bound.crowding.dram_cycles == pytest.approx(bound.crowding.traffic_bits / 16, rel=0.01)


def random_places(chance: random.Random, stacks: int) -> Places:
    keys = [(stack, name) for stack in range(stacks) for name in ("x", "a", "b", "c", "y")]
    read = {key: chance.choice(("near", "far")) for key in keys if chance.random() < 0.8}
    written = {key: chance.choice(("near", "far")) for key in keys if chance.random() < 0.8}
    return Places(read, written, {})


def test_where_a_memory_keeps_all_weights_maps_move_for_operators_without_tiles_alone() -> None:
    """The softmax reads 32 bytes at once: they have room in the far memory, or pass DRAM."""
    network = skip_network()
    whole = tile_graph(network, [ScheduledStack((one.name,)) for one in network.operators], PRECISION)
    nests = {name: one.nests for name, one in whole.operators.items()}
    small, large = (
        relaxation(whole.graph, nests, skip_chip(near, far), every_memory_keeps=True).crowding
        for near, far in ((10, 31), (100, 100))
    )
    assert small.traffic_bits == 2 * 8 * 32
    assert large.traffic_bits == large.energy_pj == large.dram_cycles == 0


def test_operators_with_too_little_room_for_their_maps_run_in_tiles_and_some_bits_pass() -> None:
    """Maps of 32 bytes meet 30 bytes of room, 20 of them in one memory.

    `soft` has no tiles: all of c passes DRAM. The other operators run in two tiles, which read 72 bytes of weights
    again. In a tile there is no room for all of the windows in a and the new rows of b, so that 24 bytes are moved.
    """
    network = skip_network()
    whole = tile_graph(network, [ScheduledStack((one.name,)) for one in network.operators], PRECISION)
    nests = {name: one.nests for name, one in whole.operators.items()}
    bound = relaxation(whole.graph, nests, chip_of_maps(10, 20), every_memory_keeps=True)
    assert bound.crowding.traffic_bits == 8 * (2 * 32 + 72 + 24)
    assert bound.traffic_bytes == 32 + 36 + 36 + 32 + 2 * 32 + 72 + 24
