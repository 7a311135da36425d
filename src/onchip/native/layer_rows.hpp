// Python bindings shared by the cost models: arrays of mappings, one per row, and arrays of their costs.

#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "layer.hpp"

namespace onchip::layer {

using Row = nanobind::ndarray<const Count, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
using Table = nanobind::ndarray<const Count, nanobind::ndim<2>, nanobind::c_contig, nanobind::device::cpu>;
using Cuts = nanobind::ndarray<const Count, nanobind::ndim<3>, nanobind::c_contig, nanobind::device::cpu>;

// With this many iterations and 64 bits per element, sums fit in 64 bits.
constexpr Count most_iterations = Count{1} << 46;

// Columns of `Chosen` in `model/layer/tables.py`.
struct Chosen {
    Row turn_count;
    Table turn_loop, turn_size;
    Row beside_count;
    Table beside_loop, beside_size, beside_along, beside_at;
    Cuts cut;
};

inline void require(bool is_so, std::size_t row, const char* what) {
    if (!is_so) throw std::invalid_argument("row " + std::to_string(row) + ": " + what);
}

// Reads rows one by one, and throws if a row is not a mapping for the machine.
class Reader {
public:
    Reader(const Chosen& chosen, std::size_t dimensions, std::size_t levels)
        : chosen_(chosen), dimensions_(dimensions), levels_(levels) {
        const std::size_t rows = chosen.turn_count.shape(0);
        for (const Table* one : {&chosen.turn_loop, &chosen.turn_size})
            require_shape(*one, rows, chosen.turn_loop.shape(1));
        for (const Table* one : {&chosen.beside_loop, &chosen.beside_size, &chosen.beside_along, &chosen.beside_at}) {
            require_shape(*one, rows, chosen.beside_loop.shape(1));
        }
        if (chosen.beside_count.shape(0) != rows || chosen.cut.shape(0) != rows || chosen.cut.shape(1) != operands ||
            chosen.cut.shape(2) != levels) {
            throw std::invalid_argument("columns are not equally long, or of other levels");
        }
    }

    Mapping read(std::size_t row) {
        const Count turns = chosen_.turn_count(row), beside = chosen_.beside_count(row);
        require(0 <= turns && turns <= static_cast<Count>(chosen_.turn_loop.shape(1)), row, "more loops than columns");
        require(0 <= beside && beside <= static_cast<Count>(chosen_.beside_loop.shape(1)), row,
                "more loops than columns");
        turns_.clear();
        beside_.clear();
        cuts_.clear();
        iterations_ = 1;
        for (Count at = 0; at < turns; ++at) {
            turns_.push_back({loop_of(chosen_.turn_loop(row, at), row), size_of(chosen_.turn_size(row, at), row)});
        }
        for (Count at = 0; at < beside; ++at) {
            const Count along = chosen_.beside_along(row, at), inside = chosen_.beside_at(row, at);
            require(0 <= along && along < static_cast<Count>(dimensions_), row, "a dimension that the array has not");
            require(0 <= inside && inside <= turns, row, "loops inside that there are not");
            beside_.push_back({loop_of(chosen_.beside_loop(row, at), row), size_of(chosen_.beside_size(row, at), row),
                               static_cast<Index>(along), static_cast<Index>(inside)});
        }
        for (Index operand = 0; operand < operands; ++operand) {
            for (std::size_t level = 0; level < levels_; ++level) {
                const Count cut = chosen_.cut(row, operand, level);
                require(none <= cut && cut <= turns, row, "a cut above the last loop");
                cuts_.push_back(static_cast<Index>(cut));
            }
        }
        return {turns_, beside_, cuts_};
    }

private:
    static void require_shape(const Table& table, std::size_t rows, std::size_t columns) {
        if (table.shape(0) != rows || table.shape(1) != columns)
            throw std::invalid_argument("columns are not equally long");
    }

    static Index loop_of(Count loop, std::size_t row) {
        require(0 <= loop && loop < loops, row, "a loop that there is not");
        return static_cast<Index>(loop);
    }

    Count size_of(Count size, std::size_t row) {
        require(size >= 1, row, "a loop of no iteration");
        require(size <= most_iterations / iterations_, row, "more than 2^46 iterations");
        iterations_ *= size;
        return size;
    }

    const Chosen& chosen_;
    std::size_t dimensions_;
    std::size_t levels_;
    std::vector<Turn> turns_;
    std::vector<Beside> beside_;
    std::vector<Index> cuts_;
    Count iterations_ = 1;
};

template <typename Number>
using Column = nanobind::ndarray<nanobind::numpy, Number, nanobind::ndim<1>>;

template <typename Number>
Column<Number> owned(std::vector<Number> values) {
    auto* kept = new std::vector<Number>(std::move(values));
    nanobind::capsule owner(kept, [](void* one) noexcept { delete static_cast<std::vector<Number>*>(one); });
    return {kept->data(), {kept->size()}, owner};
}

// Returns energies, cycles and statuses of the mappings, as three arrays.
template <typename Costs>
auto costs_of(Costs& costs, const Chosen& chosen) {
    using Cost = decltype(costs.of(Mapping{}));
    const std::size_t rows = chosen.turn_count.shape(0);
    Reader reader(chosen, costs.dimensions(), costs.levels());
    std::vector<double> energy_pj(rows);
    std::vector<decltype(Cost::cycles)> cycles(rows);
    std::vector<Count> status(rows);
    {
        const nanobind::gil_scoped_release without_lock;
        for (std::size_t row = 0; row < rows; ++row) {
            const Cost cost = costs.of(reader.read(row));
            energy_pj[row] = cost.energy_pj;
            cycles[row] = cost.cycles;
            status[row] = static_cast<Count>(cost.status);
        }
    }
    return std::tuple(owned(std::move(energy_pj)), owned(std::move(cycles)), owned(std::move(status)));
}

// Adds the binding `of`, which takes the columns of `Chosen`.
template <typename Costs>
void add_of(nanobind::class_<Costs>& costs) {
    const auto column = [](const char* name) { return nanobind::arg(name).noconvert(); };
    costs.def(
        "of",
        [](Costs& self, Row turn_count, Table turn_loop, Table turn_size, Row beside_count, Table beside_loop,
           Table beside_size, Table beside_along, Table beside_at, Cuts cut) {
            return costs_of(self, {turn_count, turn_loop, turn_size, beside_count, beside_loop, beside_size,
                                   beside_along, beside_at, cut});
        },
        column("turn_count"), column("turn_loop"), column("turn_size"), column("beside_count"), column("beside_loop"),
        column("beside_size"), column("beside_along"), column("beside_at"), column("cut"),
        "Return arrays with the energy in pJ, the cycles and the status of each mapping.\n"
        "\n"
        "Each row of the tables is a mapping, as described in `model/layer/tables.py`. The status is a\n"
        "CostStatus; a mapping that is not COSTED has infinite energy and -1 cycles. Raises ValueError,\n"
        "with the row, if a mapping has loops, cuts or dimensions that do not exist.");
}

}  // namespace onchip::layer
