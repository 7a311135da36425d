// `NetworkSimulation` for Python.

#include <nanobind/stl/vector.h>

#include <utility>

#include "bindings.hpp"
#include "noc.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace onchip {

void add_noc(nb::module_& module) {
    using namespace noc;
    nb::enum_<Outcome>(module, "NetworkOutcome",
                       "Why a run of a network ended; stuck: nothing can happen any more, and tasks are left.")
        .value("FINISHED", Outcome::finished)
        .value("STOPPED", Outcome::stopped)
        .value("STUCK", Outcome::stuck)
        .value("TOO_LONG", Outcome::too_long);
    nb::enum_<Kind>(module, "NetworkTaskKind",
                    "What an endpoint does: send packets, compute; a barrier is done by nobody, and at once.")
        .value("SEND", Kind::send)
        .value("COMPUTE", Kind::compute)
        .value("BARRIER", Kind::barrier);
    nb::class_<Endpoint>(module, "NetworkEndpoint",
                         "A place on a router's port (local, north, east, south, west).\n"
                         "\n"
                         "The tail of a packet it sends waits `read_cycles` after the head was made; one it receives "
                         "counts `write_cycles`\n"
                         "after its tail.")
        .def(
            "__init__",
            [](Endpoint* place, Index router, Index port, Cycle read_cycles, Cycle write_cycles) {
                new (place) Endpoint{router, port, read_cycles, write_cycles};
            },
            nb::kw_only(), "router"_a, "port"_a, "read_cycles"_a, "write_cycles"_a);
    nb::class_<Network>(module, "NetworkShape",
                        "A mesh of at most 64 routers, row by row, with its channels and at most 64 endpoints.")
        .def(
            "__init__",
            [](Network* place, Index columns, Index rows, Index packet_flits, Index buffer_flits, Cycle hop_cycles,
               Cycle credit_cycles, Index injection_flits, Cycle injection_cycles, Cycle ejection_cycles,
               std::vector<Endpoint> endpoints) {
                new (place) Network{columns,         rows,
                                    packet_flits,    buffer_flits,
                                    hop_cycles,      credit_cycles,
                                    injection_flits, injection_cycles,
                                    ejection_cycles, std::move(endpoints)};
            },
            nb::kw_only(), "columns"_a, "rows"_a, "packet_flits"_a, "buffer_flits"_a, "hop_cycles"_a, "credit_cycles"_a,
            "injection_flits"_a, "injection_cycles"_a, "ejection_cycles"_a, "endpoints"_a);
    nb::class_<Task>(
        module, "NetworkTask",
        "`size` is packets or cycles, `receivers` a set of endpoints as bits; it waits for earlier tasks or a cycle.")
        .def(
            "__init__",
            [](Task* place, Kind kind, Index actor, Cycle size, Cycle earliest, EndpointSet receivers,
               std::vector<Index> waits_for) {
                new (place) Task{kind, actor, size, earliest, receivers, std::move(waits_for)};
            },
            "kind"_a, "actor"_a, "size"_a, "earliest"_a, "receivers"_a, "waits_for"_a);
    nb::class_<Simulation>(module, "NetworkSimulation", "Runs tasks on a network, cycle by cycle.")
        .def(
            "__init__",
            [](Simulation* place, Network network, std::vector<Task> tasks) {
                new (place) Simulation(std::move(network), std::move(tasks));
            },
            "network"_a, "tasks"_a)
        .def("run", &Simulation::run, "last_cycle"_a, "stop"_a, nb::call_guard<nb::gil_scoped_release>(),
             "Run on until all tasks have ended, or to a cycle.")
        .def_prop_ro("cycles", &Simulation::cycles, "When the last task ended that has ended.")
        .def_prop_ro("flit_hops", &Simulation::flit_hops, "How many flits passed how many outputs of routers.")
        .def_prop_ro("begins", &Simulation::begins, "When each task began; -1 of one that has not.")
        .def_prop_ro("ends", &Simulation::ends, "When each task ended; -1 of one that has not.");
}

}  // namespace onchip
