// Python bindings of `ZigzagCosts`.

#include <nanobind/stl/array.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "bindings.hpp"
#include "layer_rows.hpp"
#include "zigzag.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

void add_zigzag(nb::module_& module) {
    using namespace layer;
    nb::class_<Accounting>(module, "ZigzagAccounting",
                           "Options in which ZigZag and DeFiNES differ, named as in `cost.layer.accounting`.\n"
                           "\n"
                           "`is_systolic` is by dimension of the array.")
        .def(
            "__init__",
            [](Accounting* place, bool units_keep_operands, bool whole_operands_load_meanwhile, bool parts_are_cut_late,
               bool parts_have_whole_room, bool single_taps_are_channels, bool accesses_are_of_a_cycle,
               bool lone_transfers_never_stall, bool last_sums_overlap, std::vector<bool> is_systolic) {
                new (place) Accounting{units_keep_operands,        whole_operands_load_meanwhile,
                                       parts_are_cut_late,         parts_have_whole_room,
                                       single_taps_are_channels,   accesses_are_of_a_cycle,
                                       lone_transfers_never_stall, last_sums_overlap,
                                       std::move(is_systolic)};
            },
            nb::kw_only(), "units_keep_operands"_a, "whole_operands_load_meanwhile"_a, "parts_are_cut_late"_a,
            "parts_have_whole_room"_a, "single_taps_are_channels"_a, "accesses_are_of_a_cycle"_a,
            "lone_transfers_never_stall"_a, "last_sums_overlap"_a, "is_systolic"_a);
    nb::class_<ZigzagCosts> costs(
        module, "ZigzagCosts",
        "Cost model for mappings of one layer on one machine, as ZigZag or DeFiNES counts them.\n"
        "\n"
        "`bounds` are the bounds of the layer; the loops of a mapping may be longer. `is_shared` is True\n"
        "for each level, DRAM last, that holds inputs and weights. Raises ValueError if the arguments are\n"
        "inconsistent or too large.");
    costs.def(
        "__init__",
        [](ZigzagCosts* place, const Layer& layer, const std::array<Count, loops>& bounds, const Machine& machine,
           std::vector<bool> is_shared, const Accounting& accounting) {
            new (place) ZigzagCosts({layer, bounds, machine, std::move(is_shared), accounting});
        },
        nb::kw_only(), "layer"_a, "bounds"_a, "machine"_a, "is_shared"_a, "accounting"_a);
    add_of(costs);
}

}  // namespace onchip
