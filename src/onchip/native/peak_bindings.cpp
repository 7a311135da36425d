// Python bindings of `peak::Search`.

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
                       "Reason why a search for an order ended. EXHAUSTED: every order needs more than `most_bytes`.")
        .value("FOUND", Outcome::found)
        .value("EXHAUSTED", Outcome::exhausted)
        .value("STOPPED", Outcome::stopped)
        .value("STATES_SPENT", Outcome::states_spent)
        .value("MEMORY_SPENT", Outcome::memory_spent);
    nb::class_<Operator>(
        module, "PeakOperator",
        "An operator with the numbers of its tensors and predecessors, each list ascending.\n"
        "\n"
        "`overwritables` are inputs whose bytes the outputs may take after their last use, as tuples of the\n"
        "tensor, its group and the outputs that then need no room of their own. In each group the first\n"
        "possible input is overwritten.")
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
        "Best-first search for an order without spills whose peak is least and at most `most_bytes`.\n"
        "\n"
        "Orders with a peak of at most `least_bytes` count as equal. The search ends if it needs more than\n"
        "`most_memory_bytes`. Raises ValueError if a size, an alignment or an index is invalid.")
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
             "Continue until the search ends or has expanded `most_states` states in total.")
        .def_prop_ro("states", &Search::states,
                     "Number of expanded states.\n"
                     "\n"
                     "This property and `lower_bound` may be read while the search runs.")
        .def_prop_ro("lower_bound", &Search::lower_bound,
                     "Lower bound on the peak of every order in bytes, if no order needs less than `least_bytes`.")
        .def_prop_ro("order", &Search::order, "Operators of the order found, or an empty list.");
    module.def(
        "peak_needs",
        [](const std::vector<Bytes>& sizes_bytes, std::vector<Operator> operators, Bytes alignment_bytes,
           const Indices& order) {
            return needs_of(problem_of(sizes_bytes, std::move(operators), alignment_bytes), order);
        },
        "sizes_bytes"_a, "operators"_a, "alignment_bytes"_a, "order"_a,
        "Return the bytes that each step of an order needs without spills.\n"
        "\n"
        "Raises ValueError if `order` is not a legal order.");
}

}  // namespace onchip
