// Functions that add the bindings of each algorithm to the module.

#pragma once

#include <nanobind/nanobind.h>

namespace onchip {

void add_packing(nanobind::module_& module);
void add_peak(nanobind::module_& module);
void add_layer(nanobind::module_& module);
void add_loma(nanobind::module_& module);
void add_chains(nanobind::module_& module);
void add_exact(nanobind::module_& module);
void add_uneven(nanobind::module_& module);
void add_zigzag(nanobind::module_& module);
void add_joint(nanobind::module_& module);
void add_latency(nanobind::module_& module);
void add_latency_bands(nanobind::module_& module);
void add_layouts(nanobind::module_& module);
void add_stays(nanobind::module_& module);

}  // namespace onchip
