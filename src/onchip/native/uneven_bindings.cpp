// `UnevenSearch` for Python.

#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "bindings.hpp"
#include "uneven.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

void add_uneven(nb::module_& module) {
    using namespace layer;
    nb::class_<Cut>(
        module, "UnevenCut",
        "One cut of an operand, by tile; `need_bits` where sums arrive incomplete, and complete, by shared memory.")
        .def(
            "__init__",
            [](Cut* place, std::vector<double> energy_pj, std::array<std::vector<std::vector<Count>>, 2> need_bits,
               std::vector<bool> leaves_complete) {
                new (place) Cut{std::move(energy_pj), std::move(need_bits), std::move(leaves_complete)};
            },
            nb::kw_only(), "energy_pj"_a, "need_bits"_a, "leaves_complete"_a);
    nb::class_<UnevenSearch>(
        module, "UnevenSearch",
        "Labels from the empty tile on; lists of each operand, `least_to_come` by cuts placed and tile.")
        .def(
            "__init__",
            [](UnevenSearch* place, std::vector<Kind> kinds, std::array<std::vector<Cut>, operands> cuts,
               std::array<std::vector<std::vector<double>>, operands> least_to_come, std::vector<Count> capacity_bits,
               std::vector<std::vector<bool>> is_open, double worst_pj, bool starts_complete) {
                UnevenProblem problem{std::move(kinds),   {},       std::move(capacity_bits),
                                      std::move(is_open), worst_pj, starts_complete};
                for (Index operand = 0; operand < operands; ++operand) {
                    problem.of[operand] = {std::move(cuts[operand]), std::move(least_to_come[operand])};
                }
                new (place) UnevenSearch(std::move(problem));
            },
            nb::kw_only(), "kinds"_a, "cuts"_a, "least_to_come"_a, "capacity_bits"_a, "is_open"_a, "worst_pj"_a,
            "starts_complete"_a)
        .def("go_on", &UnevenSearch::go_on, "tiles"_a, nb::call_guard<nb::gil_scoped_release>(),
             "Go on for so many tiles; False once the last is done.")
        .def(
            "best",
            [](const UnevenSearch& search) {
                UnevenSearch::Best found = search.best();
                return std::pair(found.energy_pj, std::move(found.actions));
            },
            "Energy in pJ and actions of the best label, infinite where there is none; once the last tile is done.\n"
            "\n"
            "An action is a kind of factors that is added, or, after the kinds, an operand of which a cut is placed.");
}

}  // namespace onchip
