// Python bindings of `NetworkSimulation`.

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
                       "Reason why a simulation ended.\n"
                       "\n"
                       "STUCK: tasks are left, and nothing can move. TOO_LONG: the last cycle is reached.")
        .value("FINISHED", Outcome::finished)
        .value("STOPPED", Outcome::stopped)
        .value("STUCK", Outcome::stuck)
        .value("TOO_LONG", Outcome::too_long);
    nb::enum_<Kind>(module, "NetworkTaskKind",
                    "Kind of a task: send packets, compute, or a barrier, which has no endpoint and takes no time.")
        .value("SEND", Kind::send)
        .value("COMPUTE", Kind::compute)
        .value("BARRIER", Kind::barrier);
    nb::class_<Endpoint>(
        module, "NetworkEndpoint",
        "An endpoint at a port of a router (0 local, 1 north, 2 east, 3 south, 4 west).\n"
        "\n"
        "The tail of a packet that it sends leaves at least `read_cycles` after the head. A packet that it\n"
        "receives counts `write_cycles` after its tail.")
        .def(
            "__init__",
            [](Endpoint* place, Index router, Index port, Cycle read_cycles, Cycle write_cycles) {
                new (place) Endpoint{router, port, read_cycles, write_cycles};
            },
            nb::kw_only(), "router"_a, "port"_a, "read_cycles"_a, "write_cycles"_a);
    nb::class_<Network>(
        module, "NetworkShape",
        "A mesh of at most 64 routers, numbered row by row, with at most 64 endpoints.\n"
        "\n"
        "Between two routers lie `buffer_flits` flits, each of which takes `hop_cycles`; a freed place is\n"
        "known to the sender after `credit_cycles`.")
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
        "A task of an endpoint; it starts when the tasks in `waits_for` have ended, or at cycle `earliest`.\n"
        "\n"
        "`size` is a number of packets or of cycles. `receivers` is a bit set of endpoints. `actor` is -1\n"
        "for a barrier.")
        .def(
            "__init__",
            [](Task* place, Kind kind, Index actor, Cycle size, Cycle earliest, EndpointSet receivers,
               std::vector<Index> waits_for) {
                new (place) Task{kind, actor, size, earliest, receivers, std::move(waits_for)};
            },
            "kind"_a, "actor"_a, "size"_a, "earliest"_a, "receivers"_a, "waits_for"_a);
    nb::class_<Simulation>(module, "NetworkSimulation",
                           "Cycle-accurate simulation of tasks on a mesh.\n"
                           "\n"
                           "Raises ValueError, with the entry, if the network or a task is invalid.")
        .def(
            "__init__",
            [](Simulation* place, Network network, std::vector<Task> tasks) {
                new (place) Simulation(std::move(network), std::move(tasks));
            },
            "network"_a, "tasks"_a)
        .def("run", &Simulation::run, "last_cycle"_a, "stop"_a, nb::call_guard<nb::gil_scoped_release>(),
             "Continue until all tasks have ended, or to `last_cycle`.")
        .def_prop_ro("cycles", &Simulation::cycles, "Cycle in which the latest of the ended tasks ended.")
        .def_prop_ro("flit_hops", &Simulation::flit_hops,
                     "Number of flit-hops: flits that passed an output of a router.")
        .def_prop_ro("begins", &Simulation::begins, "Cycle in which each task started, or -1.")
        .def_prop_ro("ends", &Simulation::ends, "Cycle in which each task ended, or -1.");
}

}  // namespace onchip
