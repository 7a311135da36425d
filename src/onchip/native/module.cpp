// The module `onchip.native._core`. The build generates its type stub `_core.pyi` from the bindings.

#include "bindings.hpp"
#include "stop.hpp"

NB_MODULE(_core, module) {
    module.doc() =
        "The compiled searches; the header of each describes it.\n\n"
        "Every search releases the interpreter lock and checks its stop token in the innermost loop. It raises "
        "TypeError for "
        "integers of more than 64 bits (32 for counts), and ValueError for input that its header excludes.";
    nanobind::class_<onchip::StopToken>(module, "StopToken", "Ends a search that runs in another thread.")
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
