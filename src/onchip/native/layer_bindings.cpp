// Python bindings of `LayerCosts`, with the layers and machines that several bindings share.

#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "bindings.hpp"
#include "layer_rows.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

namespace {

using namespace layer;

void add_shapes(nb::module_& module) {
    nb::class_<Axis>(module, "LayerAxis",
                     "A dimension of the input.\n"
                     "\n"
                     "`outputs` positions of the output see `size` stored positions through `filters` taps. Raises\n"
                     "ValueError if a size is below 1.")
        .def(
            "__init__",
            [](Axis* place, Count outputs, Count filters, Count stride, Count dilation, Count padding, Count size) {
                if (std::min({outputs, filters, stride, dilation, size}) < 1)
                    throw std::invalid_argument("an axis has a size below 1");
                new (place) Axis{outputs, filters, stride, dilation, padding, size};
            },
            nb::kw_only(), "outputs"_a, "filters"_a, "stride"_a, "dilation"_a, "padding"_a, "size"_a);
    nb::class_<Layer>(
        module, "LayerShape",
        "A layer as it is executed.\n"
        "\n"
        "Operands are input, weight and output; loops are in the order of LOOPS. `relevant` is True per\n"
        "operand and loop if the loop leads to other elements of the operand. `side_of` is the place of\n"
        "each loop among P, R, Q, S, or -1. `is_channel` is True for a loop that leads to other elements of\n"
        "the input along no axis. `axes` are height and width. `mac_energy_pj` is the energy of all\n"
        "multiply-accumulates. Raises ValueError if a side does not exist.")
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
    nb::class_<Level>(
        module, "MachineLevel",
        "An on-chip memory, or DRAM.\n"
        "\n"
        "`serves` is True per dimension of the array if one instance serves all units along it. Energies\n"
        "are per access of `shortest_bits`. `port` is the number of the port of each move, or -1. Raises\n"
        "ValueError if an access has no bits.")
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
    nb::class_<Machine>(
        module, "LayerMachine",
        "The memory levels and the array of an accelerator.\n"
        "\n"
        "The last level is DRAM, which has room for everything. `units` is the size of each dimension of\n"
        "the array, `bits_per_cycle` the width of each port, and `home` the level in which each operand is\n"
        "whole. Raises ValueError if a level or a port does not exist.")
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
    nb::class_<Costs> costs(module, "LayerCosts", "Cost model for mappings of one layer on one machine.");
    costs.def(nb::init<Layer, Machine>(), "layer"_a, "machine"_a);
    add_of(costs);
}

}  // namespace onchip
