// Python bindings of `UnevenSearch`.

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
    nb::class_<Cut>(module, "UnevenCut",
                    "One cut of an operand, with tables by tile.\n"
                    "\n"
                    "`need_bits` are the bits that it needs in each shared memory: first if partial sums arrive, then\n"
                    "if complete sums arrive. `leaves_complete` is True if the sums leave the cut complete.")
        .def(
            "__init__",
            [](Cut* place, std::vector<double> energy_pj, std::array<std::vector<std::vector<Count>>, 2> need_bits,
               std::vector<bool> leaves_complete) {
                new (place) Cut{std::move(energy_pj), std::move(need_bits), std::move(leaves_complete)};
            },
            nb::kw_only(), "energy_pj"_a, "need_bits"_a, "leaves_complete"_a);
    nb::class_<UnevenSearch>(
        module, "UnevenSearch",
        "Label-setting search for the mapping of least energy over all orders and all cuts of each operand.\n"
        "\n"
        "`kinds` number the tiles in a mixed radix. `cuts` and `least_to_come` are by operand;\n"
        "`least_to_come` is a lower bound in pJ on the cuts still to be placed, by number of cuts placed\n"
        "and tile. `capacity_bits` is the room of each memory that more than one cut needs. `is_open` is\n"
        "True, by cuts placed and memory, if a cut that needs the memory is still to be placed. `worst_pj`\n"
        "is the energy of the best known mapping. Raises ValueError if a table has the wrong size.")
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
             "Process `tiles` more tiles; return False once the last one is done.")
        .def(
            "best",
            [](const UnevenSearch& search) {
                UnevenSearch::Best found = search.best();
                return std::pair(found.energy_pj, std::move(found.actions));
            },
            "Return energy in pJ and actions of the best label, or infinity and no actions if none fits.\n"
            "\n"
            "An action is the number of a factor kind that is added, or, after the kinds, of an operand of\n"
            "which a cut is placed. Valid once the last tile is done.");
}

}  // namespace onchip
