// A cycle-accurate network on chip: a mesh of routers with endpoints on its ports that send packets and compute.
//
// Terms. A flit is the unit that a link carries per cycle; a packet is a head flit, body flits and a tail flit. The
// ports of a router are local, north, east, south and west; a port without a neighbour may have an endpoint. A channel
// connects two crossbars: a queue with a capacity in flits, a latency per flit, and a delay until the sender learns of
// a freed place (credit). A task of an endpoint sends packets to one or many endpoints, or computes; a barrier has no
// endpoint. Routers decide from the state of earlier cycles only, so the result does not depend on their order.
// docs/network_on_chip.md has the rules, `tests/oracles` a plain version.

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "stop.hpp"

namespace onchip::noc {

using Cycle = std::int64_t;
using Index = std::int32_t;
using EndpointSet = std::uint64_t;  // one bit per endpoint

inline constexpr Index none = -1;
inline constexpr Index ports = 5;  // local, north, east, south, west
inline constexpr Index most_endpoints = 64;
inline constexpr Cycle most_cycles = Cycle{1} << 60;

// The location of an actor. The tail of a packet waits until `read_cycles` after its head was created; a received
// packet counts `write_cycles` after its tail.
struct Endpoint {
    Index router = 0;
    Index port = 0;
    Cycle read_cycles = 0;
    Cycle write_cycles = 0;
};

struct Network {
    Index columns = 1;
    Index rows = 1;
    Index packet_flits = 1;
    Index buffer_flits = 1;     // per channel between routers
    Cycle hop_cycles = 1;       // from one crossbar to the next
    Cycle credit_cycles = 1;    // until the sender learns of a freed place
    Index injection_flits = 1;  // of the channel from an endpoint
    Cycle injection_cycles = 1;
    Cycle ejection_cycles = 1;
    std::vector<Endpoint> endpoints;

    // Throws std::invalid_argument, with the entry, if the network is invalid.
    void check() const;
};

enum class Kind { send, compute, barrier };

// `size` is in packets, or in cycles after the first one of a computation. A task starts when all tasks in `waits_for`
// have ended; for a receiver, a send has ended once its own packets are there. An actor starts its first ready task.
// `earliest` is only for tasks without predecessors.
struct Task {
    Kind kind = Kind::barrier;
    Index actor = none;
    Cycle size = 0;
    Cycle earliest = 0;
    EndpointSet receivers = 0;
    std::vector<Index> waits_for;
};

struct Flit {
    EndpointSet targets = 0;
    Index task = none;
    Index position = 0;
    bool is_multicast = false;
};

class Channel {
public:
    Channel(Index flits, Cycle latency, Cycle credit);
    // Returns true if `count` more flits may enter now.
    bool has_room(Cycle now, Index count) const;
    bool has_front(Cycle now) const { return popped_ < pushed_ && entered_[slot(popped_)] + latency_ <= now; }
    const Flit& front() const { return flits_[slot(popped_)]; }
    void push(Cycle now, const Flit& flit);
    void pop(Cycle now);

private:
    std::size_t slot(std::int64_t number) const { return static_cast<std::size_t>(number % capacity_); }

    std::int64_t capacity_;
    Cycle latency_;
    Cycle credit_;
    std::int64_t pushed_ = 0;
    std::int64_t popped_ = 0;
    std::vector<Flit> flits_;
    std::vector<Cycle> entered_;
    std::vector<Cycle> left_;
};

// The tail of a packet at its endpoint.
struct Delivery {
    Cycle cycle = 0;
    Index endpoint = 0;
    Index task = 0;
};

// The routers and channels. Unicast packets use wormhole switching: a flit moves if it has room. Multicast packets use
// cut-through: the head waits for room for the whole packet at all outputs.
class Mesh {
public:
    explicit Mesh(const Network& network);
    bool may_inject(Cycle now, Index endpoint) const;
    void inject(Cycle now, Index endpoint, const Flit& flit);
    // Steps each router once. Returns true if a flit moved.
    bool step(Cycle now);
    bool is_empty() const { return busy_ == 0; }
    std::queue<Delivery>& deliveries() { return deliveries_; }
    std::int64_t flit_hops() const { return flit_hops_; }

private:
    using Outputs = std::uint32_t;  // one bit per port
    struct Port {
        EndpointSet reach = 0;  // endpoints in this direction
        Index channel = none;   // the channel that it feeds
        Index endpoint = none;  // the endpoint that it feeds
        Index owner = none;     // the input whose packet passes
        Index next_input = 4;   // the input with the highest priority
        Outputs route = 0;      // as an input: outputs of the passing packet
        Index router_after = 0;
    };

    Index output_port(Index from, const Endpoint& to) const;
    Outputs outputs_of(Index router, const Flit& flit) const;
    bool has_room(Cycle now, const Port& output, Index count) const;
    bool step_router(Cycle now, Index router);
    // Finds the outputs that each input with a flit requests and could get.
    void find_requests(Cycle now, Index router);
    Outputs grant_multicasts(Cycle now, Index router);
    bool grant_unicasts(Cycle now, Index router, Outputs taken);
    void pass(Cycle now, Index router, Index input, Outputs outputs);

    const Network& network_;
    std::vector<Port> ports_;  // of all routers
    std::vector<Channel> channels_;
    std::vector<std::int64_t> waiting_;  // flits at each router
    std::uint64_t busy_ = 0;             // the routers with flits
    std::queue<Delivery> deliveries_;
    std::int64_t flit_hops_ = 0;
    std::array<Outputs, ports> requests_{};
    std::array<bool, ports> is_multicast_{};
};

enum class Outcome { finished, stopped, stuck, too_long };

class Simulation {
public:
    Simulation(Network network, std::vector<Task> tasks);
    Simulation(const Simulation&) = delete;
    Simulation& operator=(const Simulation&) = delete;

    // Continues to the end or to a cycle. Stuck: tasks are left, but nothing can move.
    Outcome run(Cycle last_cycle, const StopToken& stop);
    Cycle cycles() const { return cycles_; }
    std::int64_t flit_hops() const { return mesh_.flit_hops(); }
    // By task; -1 if it has not started or ended.
    const std::vector<Cycle>& begins() const { return begins_; }
    const std::vector<Cycle>& ends() const { return ends_; }

private:
    enum class Event { computed, written, readable, released };
    struct Timed {
        Cycle cycle;
        Event event;
        Index endpoint;
        Index task;
        bool operator>(const Timed& other) const {
            return std::pair(cycle, event) > std::pair(other.cycle, other.event);
        }
    };
    struct Progress {
        Index waiting_for = 0;
        Index receivers_left = 0;
        std::size_t first_left = 0;  // into `packets_left_`
        std::vector<Index> dependents;
    };
    struct Actor {
        std::priority_queue<Index, std::vector<Index>, std::greater<>> ready;
        Index task = none;
        Cycle packet = 0;
        Index position = 0;
        Cycle head_cycle = 0;
    };

    void check_tasks() const;
    void happen(Cycle now);
    bool act(Cycle now, Index actor);
    bool send(Cycle now, Index actor);
    void begin(Cycle now, Index actor);
    void make_ready(Cycle now, Index task);
    void release(Cycle now, Index task);
    void receive(Cycle now, Index task, Index endpoint);
    void finish(Cycle now, Index task);
    Cycle next_happening();
    void set_active(Index actor, bool is_active);

    Network network_;
    std::vector<Task> tasks_;
    Mesh mesh_;
    std::vector<Progress> progress_;
    std::vector<Actor> actors_;
    EndpointSet active_ = 0;  // actors that could start a task or send a flit
    std::vector<Cycle> packets_left_;
    std::priority_queue<Timed, std::vector<Timed>, std::greater<>> events_;
    std::vector<Index> released_;  // tasks by decreasing earliest cycle, not yet released
    std::vector<Cycle> begins_;
    std::vector<Cycle> ends_;
    Index tasks_left_ = 0;
    Cycle now_ = 0;
    Cycle last_move_ = 0;
    Cycle cycles_ = 0;
};

}  // namespace onchip::noc
