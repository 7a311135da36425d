// `LatencyBands` for Python.

#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "bindings.hpp"
#include "latency_bands.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

namespace {

using namespace latency;

using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;

Rate rate_of(const Pairs& terms) {
    Rate rate;
    for (const auto& [unit_bits, cycles] : terms) rate.push_back({unit_bits, cycles});
    return rate;
}

std::vector<Operand> operands_of(const std::vector<std::pair<Index, bool>>& operands) {
    std::vector<Operand> found;
    for (const auto& [tensor, is_cut] : operands) found.push_back({tensor, is_cut});
    return found;
}

std::vector<Way> ways_of(const Pairs& ways) {
    std::vector<Way> found;
    for (const auto& [parts, cycles] : ways) found.push_back({static_cast<Index>(parts), cycles});
    return found;
}

void add_network(nb::module_& module) {
    nb::class_<WholeTensor>(
        module, "LatencyWholeTensor",
        "A tensor that may be cut along its channels; one without a shape has one channel.\n"
        "\n"
        "It lies in one scratchpad: `same_as` is the number of the tensor that it is in another one, or -1.")
        .def(
            "__init__",
            [](WholeTensor* place, Bytes bytes, Index channels, std::int64_t bits_per_channel, bool is_in_dram,
               bool is_output, Index memory, Index same_as) {
                new (place) WholeTensor{bytes, channels, bits_per_channel, is_in_dram, is_output, memory, same_as};
            },
            nb::kw_only(), "size_bytes"_a, "channels"_a, "bits_per_channel"_a, "is_in_dram"_a, "is_output"_a,
            "memory"_a, "same_as"_a);
    nb::class_<Access>(
        module, "LatencyAccess",
        "What addresses in a scratchpad are multiples of, and how long loads into it and stores out of it take.\n"
        "\n"
        "`load` and `store` are terms of rates.")
        .def(
            "__init__",
            [](Access* place, Bytes alignment_bytes, const Pairs& load, const Pairs& store) {
                new (place) Access{alignment_bytes, rate_of(load), rate_of(store)};
            },
            nb::kw_only(), "alignment_bytes"_a, "load"_a, "store"_a);
    nb::class_<WholeOperator>(
        module, "LatencyWholeOperator",
        "An operator that may run in bands: operands (tensor, is it cut), ways (parts, cycles of one) from 1 part on.")
        .def(
            "__init__",
            [](WholeOperator* place, const std::vector<std::pair<Index, bool>>& reads,
               const std::vector<std::pair<Index, bool>>& writes, const Pairs& ways, bool cuts_inputs) {
                new (place) WholeOperator{operands_of(reads), operands_of(writes), ways_of(ways), cuts_inputs};
            },
            nb::kw_only(), "reads"_a, "writes"_a, "ways"_a, "cuts_inputs"_a);
}

}  // namespace

void add_latency_bands(nb::module_& module) {
    add_network(module);
    nb::class_<BandSearch>(
        module, "LatencyBands",
        "Searches for bands of operators and an order of them that ends sooner; `accesses` are by scratchpad.\n"
        "\n"
        "Pieces (operators, or bands) are numbered operator by operator, bands of tensors tensor by tensor.")
        .def(
            "__init__",
            [](BandSearch* place, std::vector<WholeTensor> tensors, std::vector<WholeOperator> operators,
               Machine machine, std::vector<Access> accesses, bool has_given_order) {
                new (place) BandSearch(Network{std::move(tensors), std::move(operators), std::move(machine),
                                               std::move(accesses), has_given_order});
            },
            "tensors"_a, "operators"_a, "machine"_a, nb::kw_only(), "accesses"_a, "has_given_order"_a)
        .def("begin", &BandSearch::begin, "parts"_a, "seed"_a, "order"_a = std::vector<Index>{},
             "Start over, at an order of the pieces, or at the network's own.")
        .def("limit_room", &BandSearch::limit_room, "room"_a, "From now on orders have this room.")
        .def("cut_otherwise", &BandSearch::cut_otherwise, "enough"_a, "stop"_a,
             nb::call_guard<nb::gil_scoped_release>(),
             "Try each change of bands once; ends where no more than `enough` cycles are reached.")
        .def("reorder", &BandSearch::reorder, "most_evaluations"_a, "hottest"_a, "enough"_a, "stop"_a,
             nb::call_guard<nb::gil_scoped_release>(),
             "Change the order of the best by simulated annealing, from `hottest` cycles on.")
        .def("anneal", &BandSearch::anneal, "most_evaluations"_a, "hottest"_a, "enough"_a, "stop"_a,
             nb::call_guard<nb::gil_scoped_release>(),
             "Change bands and order of the best together by simulated annealing, from `hottest` cycles on.")
        .def(
            "evaluate",
            [](const BandSearch& search, const Room& room, const std::vector<Bytes>& first, const StopToken* stop) {
                const nb::gil_scoped_release released;
                return search.evaluate(room, first, stop);
            },
            "room"_a, "first_offsets_bytes"_a = std::vector<Bytes>{}, "stop"_a = nb::none(),
            "Time the best in so much room; of all its stays without loads ahead it may be said where they lie at "
            "first.\n"
            "\n"
            "Raises IndexError for fewer offsets than stays.")
        .def_prop_ro("parts", &BandSearch::parts, "By operator in how many bands it runs in the best.")
        .def_prop_ro("order", &BandSearch::order, "Pieces of the best.")
        .def_prop_ro("sizes_bytes", &BandSearch::sizes_bytes, "By band of a tensor in the best.")
        .def_prop_ro(
            "tensors", &BandSearch::tensors,
            "The bands of tensors in the best; those that are in another scratchpad, too, come once more after all.")
        .def_prop_ro("worth", &BandSearch::worth,
                     "Latency, cycles of all transfers and number of pieces of the best; least is best.");
}

}  // namespace onchip
