// The module `onchip.native._core`. The build generates its type stub `_core.pyi` from the bindings.

#include "bindings.hpp"
#include "stop.hpp"

NB_MODULE(_core, module) {
    module.doc() =
        "Compiled searches and cost models; the C++ header of each algorithm describes it.\n"
        "\n"
        "Every search releases the interpreter lock and checks its stop token in the innermost loop. Raises\n"
        "TypeError if an integer does not fit in 64 bits (32 for counts), and ValueError if an input\n"
        "violates the conditions in the header.";
    nanobind::class_<onchip::StopToken>(module, "StopToken",
                                        "Flag that asks a search in another thread to stop, or to wait.")
        .def(nanobind::init<>())
        .def("ask", &onchip::StopToken::ask, "Ask the search to stop as soon as it can.")
        .def("pause", &onchip::StopToken::pause, "Let the search wait in its innermost loop until it is resumed.")
        .def("resume", &onchip::StopToken::resume, "Let a paused search go on.")
        .def_prop_ro("is_asked", &onchip::StopToken::was_asked, "True once the search has been asked to stop.");
    onchip::add_packing(module);
    onchip::add_peak(module);
    onchip::add_layer(module);
    onchip::add_loma(module);
    onchip::add_chains(module);
    onchip::add_exact(module);
    onchip::add_uneven(module);
    onchip::add_zigzag(module);
    onchip::add_joint(module);
    onchip::add_latency(module);
    onchip::add_latency_bands(module);
    onchip::add_layouts(module);
    onchip::add_stays(module);
}
