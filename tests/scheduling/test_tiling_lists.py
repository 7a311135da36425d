"""The tilings that are tried for a group, and the descent to one of them."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from onchip.answer.options.verb_options import FusionOptions, TileSizes
from onchip.answer.stacks import OverlapMode, Tiling
from onchip.ops.fusable import FeatureMap
from onchip.scheduling.candidates.tile_sizes import TilingList

sizes = st.integers(1, 40)


@given(sizes, sizes, st.sampled_from(TileSizes), st.none() | st.sampled_from(OverlapMode))
def test_every_tiling_of_the_list_appears_once_in_its_simplest_mode(
    columns: int, rows: int, tile_sizes: TileSizes, mode: OverlapMode | None
) -> None:
    options = FusionOptions(mode=mode, tile_sizes=tile_sizes)
    found = list(TilingList.of(FeatureMap("m", 1, rows, columns), options).every())
    pairs = product(tile_sizes.along_columns(columns), tile_sizes.along_rows(rows))
    expected = {Tiling(*pair, one).within(columns, rows) for pair in pairs for one in options.modes}
    assert len(found) == len(set(found))
    assert set(found) == expected


@given(sizes, sizes, st.tuples(st.integers(1, 60), st.integers(1, 60)))
def test_a_given_tile_is_cut_to_the_map(columns: int, rows: int, tile: tuple[int, int]) -> None:
    found = TilingList.of(FeatureMap("m", 1, rows, columns), FusionOptions(tile=tile)).every()
    assert {(one.columns, one.rows) for one in found} == {(min(tile[0], columns), min(tile[1], rows))}


@given(sizes, sizes, st.integers(1, 2000), st.integers(0, 10**6), st.booleans())
def test_a_descent_leads_to_the_best_tiling_that_it_priced(
    columns: int, rows: int, most: int, seed: int, is_coarse: bool
) -> None:
    """Prices are random; some tilings do not fit. Priced tilings are in the list, and each is priced once."""
    tilings = TilingList.of(FeatureMap("m", 1, rows, columns), FusionOptions(tile_sizes=TileSizes.HALVES))
    every, asked = list(tilings.every()), dict[Tiling, int | None]()

    def price_of(tiling: Tiling) -> int | None:
        assert tiling not in asked
        number = hash((seed, tiling.columns, tiling.rows, tiling.mode.caches_rows, tiling.mode.caches_columns)) % 100
        asked[tiling] = None if number < 20 else number
        return asked[tiling]

    found = tilings.descend(most, price_of, is_coarse=is_coarse)

    assert set(asked) <= set(every)
    values = [value for value in asked.values() if value is not None]
    if found is None:
        assert not values
    else:
        assert asked[found] == min(values)


def test_the_first_tiles_have_about_as_many_pixels_as_asked_for() -> None:
    tilings = TilingList.of(FeatureMap("m", 1, 540, 960), FusionOptions(tile_sizes=TileSizes.HALVES))
    asked: list[Tiling] = []

    def no_price(tiling: Tiling) -> None:
        asked.append(tiling)

    assert tilings.descend(10_000, no_price) is None
    assert asked[0].columns == 960
    assert all(one.columns * one.rows <= 10_000 for one in asked)
    columns = [one.columns for one in asked]
    again = next(at for at in range(1, len(columns)) if columns[at] > columns[at - 1])
    assert columns[:again] == sorted(columns[:again], reverse=True)
    assert all(4 * one.columns * one.rows <= 10_000 for one in asked[again:])
