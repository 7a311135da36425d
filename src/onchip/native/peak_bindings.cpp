// `peak::Search` for Python.

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <utility>

#include "bindings.hpp"
#include "peak.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

namespace {

using Indices = std::vector<peak::Index>;
using Overwritables = std::vector<std::tuple<peak::Index, peak::Index, Indices>>;

peak::Operator operator_of(Indices reads, Indices writes, Indices predecessors, const Overwritables& overwritables) {
    std::vector<peak::Overwritable> inputs;
    for (const auto& [tensor, group, inside] : overwritables) inputs.push_back({tensor, group, inside});
    return {std::move(reads), std::move(writes), std::move(predecessors), std::move(inputs)};
}

}  // namespace

void add_peak(nb::module_& module) {
    using namespace peak;
    nb::enum_<Outcome>(module, "PeakOutcome",
                       "Why a search for an order ended; exhausted: no order needs as little as was allowed.")
        .value("FOUND", Outcome::found)
        .value("EXHAUSTED", Outcome::exhausted)
        .value("STOPPED", Outcome::stopped)
        .value("STATES_SPENT", Outcome::states_spent)
        .value("MEMORY_SPENT", Outcome::memory_spent);
    nb::class_<Operator>(module, "PeakOperator",
                         "An operator: tensors and other operators by their numbers, each list rising.\n"
                         "\n"
                         "`overwritables` are what it reads and may write to the bytes of: (tensor, group, what then "
                         "lies within others).")
        .def(
            "__init__",
            [](Operator* place, Indices reads, Indices writes, Indices predecessors,
               const Overwritables& overwritables) {
                new (place)
                    Operator(operator_of(std::move(reads), std::move(writes), std::move(predecessors), overwritables));
            },
            nb::kw_only(), "reads"_a, "writes"_a, "predecessors"_a, "overwritables"_a = Overwritables());
    nb::class_<Search>(
        module, "PeakSearch",
        "Searches for an order without spills of which no operator needs more than `most_bytes`, and the least does.\n"
        "\n"
        "Below `least_bytes` no order is told from another.")
        .def(
            "__init__",
            [](Search* place, const std::vector<Bytes>& sizes_bytes, std::vector<Operator> operators,
               Bytes alignment_bytes, Bytes least_bytes, Bytes most_bytes, std::int64_t most_memory_bytes) {
                new (place) Search(problem_of(sizes_bytes, std::move(operators), alignment_bytes),
                                   Options{least_bytes, most_bytes, most_memory_bytes});
            },
            "sizes_bytes"_a, "operators"_a, nb::kw_only(), "alignment_bytes"_a = 1, "least_bytes"_a = 0,
            "most_bytes"_a = unlimited, "most_memory_bytes"_a = unlimited)
        .def("run", &Search::run, "stop"_a, "most_states"_a, nb::call_guard<nb::gil_scoped_release>(),
             "Search on until it ends, or has looked at so many states in all.")
        .def_prop_ro("states", &Search::states, "States looked at; may be read while it runs, as may `lower_bound`.")
        .def_prop_ro("lower_bound", &Search::lower_bound,
                     "A bound on the peak of every order, at least `least_bytes`, which is taken for one.")
        .def_prop_ro("order", &Search::order, "The order found; empty before.");
    module.def(
        "peak_needs",
        [](const std::vector<Bytes>& sizes_bytes, std::vector<Operator> operators, Bytes alignment_bytes,
           const Indices& order) {
            return needs_of(problem_of(sizes_bytes, std::move(operators), alignment_bytes), order);
        },
        "sizes_bytes"_a, "operators"_a, "alignment_bytes"_a, "order"_a,
        "What each step of an order needs, in bytes, without spills.");
}

}  // namespace onchip
