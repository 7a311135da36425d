// The Python door: `onchip.native`. Its types are said in `_core.pyi`.

#include "doors.hpp"
#include "stop.hpp"

NB_MODULE(_core, module) {
    module.doc() = "What onchip searches, compiled.";
    nanobind::class_<onchip::StopToken>(module, "StopToken")
        .def(nanobind::init<>())
        .def("ask", &onchip::StopToken::ask)
        .def_prop_ro("is_asked", &onchip::StopToken::is_asked);
    onchip::add_packing(module);
    onchip::add_peak(module);
    onchip::add_arena(module);
    onchip::add_layer(module);
    onchip::add_loma(module);
    onchip::add_chains(module);
    onchip::add_exact(module);
    onchip::add_uneven(module);
    onchip::add_zigzag(module);
    onchip::add_joint(module);
    onchip::add_noc(module);
    onchip::add_latency(module);
    onchip::add_latency_bands(module);
    onchip::add_layouts(module);
    onchip::add_stays(module);
}
