// `least_chain` for Python.

#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

#include <vector>

#include "chains.hpp"
#include "doors.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

namespace {

using Table = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

double least_chain(const std::vector<std::size_t>& shape, const std::vector<std::vector<Table>>& operands) {
    std::vector<std::vector<chains::Costs>> costs;
    for (const auto& own : operands) {
        auto& found = costs.emplace_back();
        for (const Table& table : own) found.emplace_back(table.data(), table.shape(0));
    }
    const nb::gil_scoped_release without_lock;
    return chains::least_cost(shape, costs);
}

}  // namespace

void add_chains(nb::module_& module) {
    module.def("least_chain", &least_chain, "shape"_a, "operands"_a);
}

}  // namespace onchip
