// Python bindings of `LomaOrders`, which writes mappings into arrays, one per row.

#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <utility>

#include "bindings.hpp"
#include "loma.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

namespace {

using namespace layer;

using Row = nb::ndarray<Count, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<Count, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Cuts = nb::ndarray<Count, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

// Columns of `Chosen` in `model/layer/tables.py` that an order determines.
struct Rows {
    Row turn_count;
    Table turn_loop, turn_size, beside_at;
    Cuts cut;

    void check(const Filled& filled, std::size_t levels) const {
        const std::size_t rows = turn_count.shape(0);
        const bool has_rows = turn_loop.shape(0) == rows && turn_size.shape(0) == rows && beside_at.shape(0) == rows;
        const bool has_columns = turn_loop.shape(1) >= filled.turns.size() &&
                                 turn_size.shape(1) == turn_loop.shape(1) && beside_at.shape(1) >= filled.inside.size();
        const bool has_cuts = cut.shape(0) == rows && cut.shape(1) == operands && cut.shape(2) == levels;
        if (!has_rows || !has_columns || !has_cuts) throw std::invalid_argument("rows have no room for an order");
    }

    void write(std::size_t row, const Filled& filled) {
        turn_count(row) = static_cast<Count>(filled.turns.size());
        for (std::size_t at = 0; at < filled.turns.size(); ++at) {
            turn_loop(row, at) = filled.turns[at].loop;
            turn_size(row, at) = filled.turns[at].size;
        }
        for (std::size_t at = 0; at < filled.inside.size(); ++at) beside_at(row, at) = filled.inside[at];
        for (std::size_t at = 0; at < filled.cuts.size(); ++at) {
            cut(row, at / cut.shape(2), at % cut.shape(2)) = filled.cuts[at];
        }
    }
};

// Returns the number of rows written, which is below the number of rows only at the end.
std::size_t fill(Orders& orders, Rows rows) {
    rows.check(orders.filled(), orders.filling().levels.size());
    const nb::gil_scoped_release without_lock;
    std::size_t row = 0;
    for (; row < rows.turn_count.shape(0) && orders.next(); ++row) rows.write(row, orders.filled());
    return row;
}

}  // namespace

void add_loma(nb::module_& module) {
    nb::class_<Kind>(module, "FactorKind",
                     "Equal factors of a loop; one more of them inside a tile raises the number of the tile by `step`.")
        .def(
            "__init__",
            [](Kind* place, Index loop, Count size, Index step, Index count) {
                new (place) Kind{{loop, size}, step, count};
            },
            nb::kw_only(), "loop"_a, "size"_a, "step"_a, "count"_a);
    nb::class_<FilledLevel>(
        module, "FilledLevel",
        "A memory that tiles are filled into.\n"
        "\n"
        "`adds_beside` is True if sums of several instances are added up above it. `held` are the operands\n"
        "that it holds, in the order of the file, padded with -1 to three. `is_home` is True per operand\n"
        "that is whole in it. `elements` is the size of each tile per operand, in elements.")
        .def(
            "__init__",
            [](FilledLevel* place, Count capacity_bits, bool is_double_buffered, bool adds_beside,
               const std::array<Index, operands>& held, const std::array<bool, operands>& is_home,
               std::array<std::vector<double>, operands> elements) {
                new (place)
                    FilledLevel{capacity_bits, is_double_buffered, adds_beside, held, is_home, std::move(elements)};
            },
            nb::kw_only(), "capacity_bits"_a, "is_double_buffered"_a, "adds_beside"_a, "held"_a, "is_home"_a,
            "elements"_a);
    nb::class_<Orders>(
        module, "LomaOrders",
        "Iterator over all orders of the factors, each filled into the memories from the array upwards.\n"
        "\n"
        "Tiles are numbered in a mixed radix by how many factors of each kind are inside. `iterations`,\n"
        "`sums_are_left` and `is_left` are by tile: the product of the loops inside, True if loops outside\n"
        "add to the outputs, and per operand True if another tile follows. `last_apart` is, for each\n"
        "spatial loop, the last input level that does not serve it, or -1. Raises ValueError if a tile or\n"
        "an operand does not exist.")
        .def(
            "__init__",
            [](Orders* place, std::vector<Kind> kinds, const std::vector<Count>& iterations,
               const std::vector<bool>& sums_are_left, const std::array<std::vector<bool>, operands>& is_left,
               std::vector<FilledLevel> levels, const std::array<Count, operands>& bits, Count partial_bits,
               std::vector<Index> last_apart) {
                Filling filling{std::move(kinds), {}, std::move(levels), bits, partial_bits, std::move(last_apart)};
                for (std::size_t tile = 0; tile < iterations.size(); ++tile) {
                    filling.tiles.push_back({iterations[tile],
                                             sums_are_left.at(tile),
                                             {is_left[0].at(tile), is_left[1].at(tile), is_left[2].at(tile)}});
                }
                new (place) Orders(std::move(filling));
            },
            nb::kw_only(), "kinds"_a, "iterations"_a, "sums_are_left"_a, "is_left"_a, "levels"_a, "bits"_a,
            "partial_bits"_a, "last_apart"_a)
        .def(
            "fill",
            [](Orders& orders, Row turn_count, Table turn_loop, Table turn_size, Table beside_at, Cuts cut) {
                return fill(orders, {turn_count, turn_loop, turn_size, beside_at, cut});
            },
            "turn_count"_a.noconvert(), "turn_loop"_a.noconvert(), "turn_size"_a.noconvert(), "beside_at"_a.noconvert(),
            "cut"_a.noconvert(),
            "Write the next mappings into the arrays, one per row, and return their number.\n"
            "\n"
            "The number is below the number of rows only at the end. Raises ValueError if the arrays are too\n"
            "small.");
}

}  // namespace onchip
