// `LayerCosts` for Python: mappings come in arrays, a row each, and so do their costs.

#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "doors.hpp"
#include "layer.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

namespace {

using namespace layer;

using Row = nb::ndarray<const Count, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<const Count, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Cuts = nb::ndarray<const Count, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

// With so many, and 64 bits an element, no sum leaves 64 bits.
constexpr Count most_iterations = Count{1} << 46;

// Columns of `Chosen` in `cost/layer/tables.py`.
struct Chosen {
    Row turn_count;
    Table turn_loop, turn_size;
    Row beside_count;
    Table beside_loop, beside_size, beside_along, beside_at;
    Cuts cut;
};

void require(bool is_so, std::size_t row, const char* what) {
    if (!is_so) throw std::invalid_argument("row " + std::to_string(row) + ": " + what);
}

// Reads rows one by one, and refuses what no mapping of the machine is.
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
nb::ndarray<nb::numpy, Number, nb::ndim<1>> owned(std::vector<Number> values) {
    auto* kept = new std::vector<Number>(std::move(values));
    nb::capsule owner(kept, [](void* one) noexcept { delete static_cast<std::vector<Number>*>(one); });
    return {kept->data(), {kept->size()}, owner};
}

nb::tuple costs_of(Costs& costs, const Chosen& chosen) {
    const std::size_t rows = chosen.turn_count.shape(0);
    Reader reader(chosen, costs.dimensions(), costs.levels());
    std::vector<double> energy_pj(rows);
    std::vector<Count> cycles(rows), status(rows);
    {
        nb::gil_scoped_release without_lock;
        for (std::size_t row = 0; row < rows; ++row) {
            const Cost cost = costs.of(reader.read(row));
            energy_pj[row] = cost.energy_pj;
            cycles[row] = cost.cycles;
            status[row] = static_cast<Count>(cost.status);
        }
    }
    return nb::make_tuple(owned(std::move(energy_pj)), owned(std::move(cycles)), owned(std::move(status)));
}

void add_shapes(nb::module_& module) {
    nb::class_<Axis>(module, "LayerAxis")
        .def(
            "__init__",
            [](Axis* place, Count outputs, Count filters, Count stride, Count dilation, Count padding, Count size) {
                if (std::min({outputs, filters, stride, dilation, size}) < 1)
                    throw std::invalid_argument("an axis has a size below 1");
                new (place) Axis{outputs, filters, stride, dilation, padding, size};
            },
            nb::kw_only(), "outputs"_a, "filters"_a, "stride"_a, "dilation"_a, "padding"_a, "size"_a);
    nb::class_<Layer>(module, "LayerShape")
        .def(
            "__init__",
            [](Layer* place, const std::array<std::array<bool, loops>, operands>& relevant,
               const std::array<Index, loops>& side_of, const std::array<bool, loops>& is_channel,
               const std::array<Count, operands>& bits, const std::array<Count, operands>& elements, Count partial_bits,
               bool has_weight, double mac_energy_pj, const std::array<Axis, 2>& axes) {
                for (const Index side : side_of) {
                    if (side < none || side >= sides)
                        throw std::invalid_argument("a loop has a side that there is not");
                }
                new (place)
                    Layer{relevant, side_of, is_channel, bits, elements, partial_bits, has_weight, mac_energy_pj, axes};
            },
            nb::kw_only(), "relevant"_a, "side_of"_a, "is_channel"_a, "bits"_a, "elements"_a, "partial_bits"_a,
            "has_weight"_a, "mac_energy_pj"_a, "axes"_a);
}

void add_machines(nb::module_& module) {
    nb::class_<Level>(module, "MachineLevel")
        .def(
            "__init__",
            [](Level* place, std::vector<bool> serves, Count capacity_bits, bool is_double_buffered,
               Count shortest_bits, double read_pj, double write_pj, const std::array<Index, moves>& port) {
                if (shortest_bits < 1) throw std::invalid_argument("an access has no bits");
                new (place) Level{std::move(serves), capacity_bits, is_double_buffered, Unit(shortest_bits), read_pj,
                                  write_pj,          port};
            },
            nb::kw_only(), "serves"_a, "capacity_bits"_a, "is_double_buffered"_a, "shortest_bits"_a, "read_pj"_a,
            "write_pj"_a, "port"_a);
    nb::class_<Machine>(module, "LayerMachine")
        .def(
            "__init__",
            [](Machine* place, std::vector<Level> levels, std::vector<Count> units,
               const std::vector<Count>& bits_per_cycle, const std::array<Index, operands>& home) {
                Machine machine{std::move(levels), std::move(units), {}, home};
                for (const Count bits : bits_per_cycle) {
                    if (bits < 1) throw std::invalid_argument("a port moves no bits");
                    machine.bits_per_cycle.emplace_back(bits);
                }
                machine.check();
                new (place) Machine(std::move(machine));
            },
            nb::kw_only(), "levels"_a, "units"_a, "bits_per_cycle"_a, "home"_a);
}

}  // namespace

void add_layer(nb::module_& module) {
    add_shapes(module);
    add_machines(module);
    nb::class_<Costs>(module, "LayerCosts")
        .def(nb::init<Layer, Machine>(), "layer"_a, "machine"_a)
        .def(
            "of",
            [](Costs& costs, Row turn_count, Table turn_loop, Table turn_size, Row beside_count, Table beside_loop,
               Table beside_size, Table beside_along, Table beside_at, Cuts cut) {
                return costs_of(costs, {turn_count, turn_loop, turn_size, beside_count, beside_loop, beside_size,
                                        beside_along, beside_at, cut});
            },
            nb::arg().noconvert(), nb::arg().noconvert(), nb::arg().noconvert(), nb::arg().noconvert(),
            nb::arg().noconvert(), nb::arg().noconvert(), nb::arg().noconvert(), nb::arg().noconvert(),
            nb::arg().noconvert());
}

}  // namespace onchip
