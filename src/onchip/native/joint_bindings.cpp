// Python bindings of `joint::Search`.

#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>
#include <utility>

#include "bindings.hpp"
#include "joint.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

void add_joint(nb::module_& module) {
    using namespace joint;
    nb::enum_<Outcome>(module, "JointOutcome",
                       "Reason why a joint search ended. EXHAUSTED: no plan costs less than the upper bound.")
        .value("FOUND", Outcome::found)
        .value("EXHAUSTED", Outcome::exhausted)
        .value("STOPPED", Outcome::stopped)
        .value("STATES_SPENT", Outcome::states_spent)
        .value("MEMORY_SPENT", Outcome::memory_spent);
    nb::class_<Tensor>(
        module, "JointTensor",
        "A tensor with its size in units of the alignment and its transfer costs.\n"
        "\n"
        "`store_cost` is 0 if DRAM has a copy whenever the tensor could leave. `may_end_short` is True if\n"
        "the tensor may end in the last, partial unit of the capacity.")
        .def(
            "__init__",
            [](Tensor* place, Units units, Cost load_cost, Cost store_cost, bool may_end_short) {
                new (place) Tensor{units, load_cost, store_cost, may_end_short};
            },
            nb::kw_only(), "units"_a, "load_cost"_a, "store_cost"_a, "may_end_short"_a);
    using Overwritables = std::vector<std::tuple<Index, Units, Index>>;
    nb::class_<Operator>(
        module, "JointOperator",
        "An operator with the numbers of its tensors and predecessors, each list ascending.\n"
        "\n"
        "Predecessors have lower numbers than the operator. `overwritables` are the inputs whose bytes the\n"
        "outputs may take, as tuples of tensor, units saved and group, sorted by group. At most one input\n"
        "of each group is overwritten.")
        .def(
            "__init__",
            [](Operator* place, std::vector<Index> reads, std::vector<Index> writes, std::vector<Index> predecessors,
               const Overwritables& overwritables) {
                std::vector<Overwritable> inputs;
                for (const auto& [tensor, units, group] : overwritables) inputs.push_back({tensor, units, group});
                new (place) Operator{std::move(reads), std::move(writes), std::move(predecessors), std::move(inputs)};
            },
            nb::kw_only(), "reads"_a, "writes"_a, "predecessors"_a, "overwritables"_a = Overwritables());
    nb::class_<Search>(
        module, "JointSearch",
        "Best-first search for the cheapest order and residencies with a cost below `upper_bound`.\n"
        "\n"
        "`capacity_units` is the scratchpad in units of the alignment. With `greed`, each executed operator\n"
        "counts as that much cost saved: plans are found sooner, and only an exhausted search proves a\n"
        "bound. `seed` breaks ties. The search ends if it needs more than `most_bytes` of memory. With one\n"
        "worker it is deterministic. Raises ValueError, with the entry, if a tensor, an operator or an option\n"
        "is invalid.")
        .def(
            "__init__",
            [](Search* place, std::vector<Tensor> tensors, std::vector<Operator> operators, Units capacity_units,
               Cost upper_bound, Cost greed, std::uint64_t seed, std::int64_t most_bytes, Index workers) {
                new (place) Search(Problem{std::move(tensors), std::move(operators), capacity_units},
                                   Options{upper_bound, greed, seed, most_bytes, workers});
            },
            "tensors"_a, "operators"_a, nb::kw_only(), "capacity_units"_a, "upper_bound"_a = unlimited, "greed"_a = 0,
            "seed"_a = 0, "most_bytes"_a = unlimited, "workers"_a = 1)
        .def("run", &Search::run, "stop"_a, "most_states"_a = unlimited, nb::call_guard<nb::gil_scoped_release>(),
             "Search on until `most_states` states are spent in all.\n"
             "\n"
             "A search whose states are spent can be resumed. Raises RuntimeError if it is running, or ended as\n"
             "STOPPED or MEMORY_SPENT.")
        .def("pause", &Search::pause, "Let `run` return between two states, as if its states were spent.")
        .def("lower_upper_bound", &Search::lower_upper_bound, "cost"_a,
             "Search only for plans that cost less, from now on.")
        .def_prop_ro("states", &Search::states,
                     "Number of states built and kept, plus choices listed.\n"
                     "\n"
                     "This property and `lower_bound` may be read while the search runs.")
        .def_prop_ro("lower_bound", &Search::lower_bound,
                     "Lower bound on the cost of every plan that the search may find.")
        .def_prop_ro("cost", &Search::cost,
                     "Cost of the plan found, or -1 if there is none.\n"
                     "\n"
                     "If several workers were stopped, the plan may not be proven to be the cheapest.")
        .def_prop_ro(
            "moves",
            [](const Search& search) {
                std::vector<std::pair<Index, std::vector<Index>>> moves;
                for (Move& one : search.moves()) moves.emplace_back(one.runs, std::move(one.evicted));
                return moves;
            },
            "Operators of the plan in execution order, each with the tensors evicted before it runs.");
}

}  // namespace onchip
