// A cycle-accurate network on chip: a mesh of routers with endpoints on its ports that send packets and compute.
//
// Terms. A flit is the unit that a link carries per cycle; a packet is a head flit, body flits and a tail flit. The
// ports of a router are local, north, east, south and west; a port without a neighbour may have an endpoint. A channel
// connects two crossbars: a queue with a capacity in flits, a latency per flit, and a delay until the sender learns of
// a freed place (credit). A task of an endpoint sends packets to one or many endpoints, or computes; a barrier has no
// endpoint. Routers decide from the state of earlier cycles only, so the result does not depend on their order.
// docs/network_on_chip.md has the rules, `tests/oracles` a plain version.
//
// `mesh.py` compiles this program, writes a network and its tasks to its standard input as integers, and reads the
// times of the tasks from its standard output.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <iostream>
#include <queue>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace noc {

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

class Simulation {
public:
    Simulation(Network network, std::vector<Task> tasks);
    Simulation(const Simulation&) = delete;
    Simulation& operator=(const Simulation&) = delete;

    // Returns false if tasks are left, but nothing can move.
    bool run();
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

constexpr Index local = 0, north = 1, east = 2, south = 3, west = 4;

Index opposite(Index port) {
    return port <= east ? port + 2 : port - 2;
}

// Returns the next port in the round-robin order of all five.
Index after(Index port) {
    return port == local ? west : port - 1;
}

Channel::Channel(Index flits, Cycle latency, Cycle credit)
    : capacity_(flits), latency_(latency), credit_(credit), flits_(flits), entered_(flits), left_(flits) {}

bool Channel::has_room(Cycle now, Index count) const {
    std::int64_t number = pushed_ + count - 1;
    return number < capacity_ || (popped_ > number - capacity_ && left_[slot(number)] + credit_ <= now);
}

void Channel::push(Cycle now, const Flit& flit) {
    entered_[slot(pushed_)] = now;
    flits_[slot(pushed_)] = flit;
    ++pushed_;
}

void Channel::pop(Cycle now) {
    left_[slot(popped_)] = now;
    ++popped_;
}

Mesh::Mesh(const Network& network)
    : network_(network), ports_(ports * network.columns * network.rows), waiting_(network.columns * network.rows) {
    Index routers = network.columns * network.rows;
    auto add_channel = [&](Index flits, Cycle latency) {
        channels_.emplace_back(flits, latency, network.credit_cycles);
        return static_cast<Index>(channels_.size()) - 1;
    };
    // The channel with the number of a port leads from that port into its router.
    std::vector<bool> is_endpoint(ports_.size());
    for (const Endpoint& endpoint : network.endpoints) is_endpoint[ports * endpoint.router + endpoint.port] = true;
    for (Index port = 0; port < static_cast<Index>(ports_.size()); ++port) {
        if (is_endpoint[port]) {
            add_channel(network.injection_flits, network.injection_cycles);
        } else {
            add_channel(network.buffer_flits, network.hop_cycles);
        }
    }
    for (Index router = 0; router < routers; ++router) {
        Index column = router % network.columns, row = router / network.columns;
        const std::array<std::pair<bool, Index>, ports> neighbours{{
            {false, 0},
            {row > 0, router - network.columns},
            {column + 1 < network.columns, router + 1},
            {row + 1 < network.rows, router + network.columns},
            {column > 0, router - 1},
        }};
        for (Index port = north; port < ports; ++port) {
            auto [is_there, neighbour] = neighbours[port];
            if (!is_there) continue;
            ports_[ports * router + port].channel = ports * neighbour + opposite(port);
            ports_[ports * router + port].router_after = neighbour;
        }
        for (Index number = 0; number < static_cast<Index>(network.endpoints.size()); ++number) {
            const Endpoint& endpoint = network.endpoints[number];
            Port& output = ports_[ports * router + output_port(router, endpoint)];
            output.reach |= EndpointSet{1} << number;
            if (endpoint.router == router) output.endpoint = number;
        }
    }
}

// XY routing: first along the row, then along the column.
Index Mesh::output_port(Index from, const Endpoint& to) const {
    Index across = to.router % network_.columns - from % network_.columns;
    Index down = to.router / network_.columns - from / network_.columns;
    if (across != 0) return across > 0 ? east : west;
    if (down != 0) return down > 0 ? south : north;
    return to.port;
}

bool Mesh::may_inject(Cycle now, Index endpoint) const {
    const Endpoint& from = network_.endpoints[endpoint];
    return channels_[ports * from.router + from.port].has_room(now, 1);
}

void Mesh::inject(Cycle now, Index endpoint, const Flit& flit) {
    const Endpoint& from = network_.endpoints[endpoint];
    channels_[ports * from.router + from.port].push(now, flit);
    ++waiting_[from.router];
    busy_ |= std::uint64_t{1} << from.router;
}

bool Mesh::step(Cycle now) {
    bool has_moved = false;
    for (std::uint64_t left = busy_; left != 0; left &= left - 1) {
        has_moved |= step_router(now, static_cast<Index>(std::countr_zero(left)));
    }
    return has_moved;
}

bool Mesh::step_router(Cycle now, Index router) {
    find_requests(now, router);
    Outputs taken = grant_multicasts(now, router);
    bool has_moved = grant_unicasts(now, router, taken);
    return has_moved || taken != 0;
}

Mesh::Outputs Mesh::outputs_of(Index router, const Flit& flit) const {
    Outputs outputs = 0;
    for (Index port = local; port < ports; ++port) {
        if ((flit.targets & ports_[ports * router + port].reach) != 0) outputs |= Outputs{1} << port;
    }
    return outputs;
}

bool Mesh::has_room(Cycle now, const Port& output, Index count) const {
    return output.endpoint != none || channels_[output.channel].has_room(now, count);
}

void Mesh::find_requests(Cycle now, Index router) {
    for (Index input = 0; input < ports; ++input) {
        requests_[input] = 0;
        const Channel& channel = channels_[ports * router + input];
        if (!channel.has_front(now)) continue;
        const Flit& flit = channel.front();
        bool is_head = flit.position == 0;
        Outputs outputs = is_head ? outputs_of(router, flit) : ports_[ports * router + input].route;
        Index need = is_head && flit.is_multicast ? network_.packet_flits : 1;
        is_multicast_[input] = flit.is_multicast;
        bool has_all = true;
        for (Outputs left = outputs; left != 0; left &= left - 1) {
            const Port& output = ports_[ports * router + std::countr_zero(left)];
            has_all &= output.owner == (is_head ? none : input) && has_room(now, output, need);
        }
        if (has_all) requests_[input] = outputs;
    }
}

// Grants inputs in order, with all outputs of a packet at once.
Mesh::Outputs Mesh::grant_multicasts(Cycle now, Index router) {
    Outputs taken = 0;
    for (Index input = 0; input < ports; ++input) {
        if (requests_[input] == 0 || !is_multicast_[input] || (requests_[input] & taken) != 0) continue;
        taken |= requests_[input];
        pass(now, router, input, requests_[input]);
    }
    return taken;
}

// Each output serves the inputs round robin, west first.
bool Mesh::grant_unicasts(Cycle now, Index router, Outputs taken) {
    Outputs asked = 0;
    for (Index input = 0; input < ports; ++input) {
        if (!is_multicast_[input]) asked |= requests_[input];
    }
    asked &= ~taken;
    for (Outputs left = asked; left != 0; left &= left - 1) {
        Outputs bit = left & -left;
        Port& output = ports_[ports * router + std::countr_zero(left)];
        Index input = output.next_input;
        while (is_multicast_[input] || (requests_[input] & bit) == 0) input = after(input);
        output.next_input = after(input);
        pass(now, router, input, bit);
    }
    return asked != 0;
}

void Mesh::pass(Cycle now, Index router, Index input, Outputs outputs) {
    Channel& from = channels_[ports * router + input];
    const Flit flit = from.front();
    from.pop(now);
    if (--waiting_[router] == 0) busy_ &= ~(std::uint64_t{1} << router);
    bool is_tail = flit.position + 1 == network_.packet_flits;
    ports_[ports * router + input].route = outputs;
    for (Outputs left = outputs; left != 0; left &= left - 1) {
        Port& output = ports_[ports * router + std::countr_zero(left)];
        output.owner = is_tail ? none : input;
        ++flit_hops_;
        if (output.endpoint != none) {
            if (is_tail) deliveries_.push({now + network_.ejection_cycles, output.endpoint, flit.task});
            continue;
        }
        Flit copy = flit;
        copy.targets &= output.reach;
        channels_[output.channel].push(now, copy);
        ++waiting_[output.router_after];
        busy_ |= std::uint64_t{1} << output.router_after;
    }
}

void refuse(const std::string& what, std::size_t entry) {
    throw std::invalid_argument(what + " (entry " + std::to_string(entry) + ")");
}

EndpointSet bit_of(Index endpoint) {
    return EndpointSet{1} << endpoint;
}

void Network::check() const {
    if (columns < 1 || rows < 1 || Cycle{columns} * rows > most_endpoints) refuse("1 to 64 routers", 0);
    if (packet_flits < 1 || buffer_flits < packet_flits || injection_flits < 1) refuse("a packet fits a buffer", 0);
    if (std::min({hop_cycles, credit_cycles, injection_cycles, ejection_cycles}) < 1) refuse("a cycle at least", 0);
    if (std::max({hop_cycles, credit_cycles, injection_cycles, ejection_cycles}) > most_cycles) {
        refuse("at most 2^60 cycles", 0);
    }
    if (endpoints.empty() || endpoints.size() > most_endpoints) refuse("1 to 64 endpoints", 0);
    std::vector<bool> is_taken(static_cast<std::size_t>(ports) * columns * rows);
    for (std::size_t entry = 0; entry < endpoints.size(); ++entry) {
        const Endpoint& one = endpoints[entry];
        if (one.router < 0 || one.router >= columns * rows || one.port < 0 || one.port >= ports) {
            refuse("an endpoint is at a port", entry);
        }
        Index column = one.router % columns, row = one.router / columns;
        const std::array<bool, ports> is_edge{true, row == 0, column + 1 == columns, row + 1 == rows, column == 0};
        std::size_t at = static_cast<std::size_t>(ports) * one.router + one.port;
        if (!is_edge[one.port] || is_taken[at]) refuse("an endpoint has a port of its own", entry);
        if (one.read_cycles < 0 || one.write_cycles < 0 || one.read_cycles > most_cycles ||
            one.write_cycles > most_cycles) {
            refuse("0 to 2^60 cycles", entry);
        }
        is_taken[at] = true;
    }
}

Simulation::Simulation(Network network, std::vector<Task> tasks)
    : network_((network.check(), std::move(network))), tasks_(std::move(tasks)), mesh_(network_) {
    check_tasks();
    actors_.resize(network_.endpoints.size());
    progress_.resize(tasks_.size());
    begins_.assign(tasks_.size(), -1);
    ends_.assign(tasks_.size(), -1);
    tasks_left_ = static_cast<Index>(tasks_.size());
    for (Index number = 0; number < tasks_left_; ++number) {
        const Task& task = tasks_[number];
        Progress& own = progress_[number];
        own.waiting_for = static_cast<Index>(task.waits_for.size());
        own.receivers_left = std::popcount(task.receivers);
        own.first_left = packets_left_.size();
        packets_left_.insert(packets_left_.end(), own.receivers_left, task.size);
        for (Index earlier : task.waits_for) progress_[earlier].dependents.push_back(number);
        if (task.waits_for.empty()) released_.push_back(number);
    }
    std::stable_sort(released_.begin(), released_.end(),
                     [&](Index left, Index right) { return tasks_[left].earliest < tasks_[right].earliest; });
    std::reverse(released_.begin(), released_.end());
}

void Simulation::check_tasks() const {
    EndpointSet all = network_.endpoints.size() == most_endpoints
                          ? ~EndpointSet{0}
                          : bit_of(static_cast<Index>(network_.endpoints.size())) - 1;
    if (tasks_.size() > static_cast<std::size_t>(1) << 30) refuse("at most 2^30 tasks", 0);
    for (std::size_t entry = 0; entry < tasks_.size(); ++entry) {
        const Task& task = tasks_[entry];
        bool is_barrier = task.kind == Kind::barrier;
        if (is_barrier ? task.actor != none
                       : task.actor < 0 || task.actor >= static_cast<Index>(network_.endpoints.size())) {
            refuse("a task has an actor, a barrier none", entry);
        }
        if (task.size < (is_barrier ? 0 : 1) || task.size > most_cycles) refuse("a task has a size", entry);
        if ((task.receivers != 0) != (task.kind == Kind::send) || (task.receivers & ~all) != 0) {
            refuse("what is sent has receivers", entry);
        }
        if (task.earliest < 0 || task.earliest > most_cycles || (task.earliest > 0 && !task.waits_for.empty())) {
            refuse("a task waits for a cycle or for tasks", entry);
        }
        for (Index earlier : task.waits_for) {
            if (earlier < 0 || earlier >= static_cast<Index>(entry)) refuse("a task waits for earlier ones", entry);
        }
    }
}

bool Simulation::run() {
    const Cycle patience = 2 * (network_.hop_cycles + network_.credit_cycles + network_.injection_cycles) + 2;
    while (tasks_left_ > 0) {
        happen(now_);
        bool has_moved = false;
        for (EndpointSet left = active_; left != 0; left &= left - 1) {
            has_moved |= act(now_, static_cast<Index>(std::countr_zero(left)));
        }
        has_moved |= mesh_.step(now_);
        if (has_moved) last_move_ = now_;
        if (tasks_left_ == 0) break;
        bool is_idle = mesh_.is_empty() && active_ == 0;
        Cycle next = next_happening();
        if (next > most_cycles && (is_idle || now_ > last_move_ + patience)) return false;
        now_ = is_idle ? next : now_ + 1;
    }
    return true;
}

Cycle Simulation::next_happening() {
    Cycle next = most_cycles + 1;
    if (!events_.empty()) next = events_.top().cycle;
    if (!mesh_.deliveries().empty()) next = std::min(next, mesh_.deliveries().front().cycle);
    if (!released_.empty()) next = std::min(next, tasks_[released_.back()].earliest);
    return next;
}

void Simulation::happen(Cycle now) {
    while (!released_.empty() && tasks_[released_.back()].earliest <= now) {
        Index task = released_.back();
        released_.pop_back();
        make_ready(now, task);
    }
    while (!mesh_.deliveries().empty() && mesh_.deliveries().front().cycle <= now) {
        Delivery one = mesh_.deliveries().front();
        mesh_.deliveries().pop();
        Cycle write_cycles = network_.endpoints[one.endpoint].write_cycles;
        if (write_cycles > 0) {
            events_.push({now + write_cycles, Event::written, one.endpoint, one.task});
        } else {
            receive(now, one.task, one.endpoint);
        }
    }
    while (!events_.empty() && events_.top().cycle <= now) {
        Timed one = events_.top();
        events_.pop();
        if (one.event == Event::written) {
            receive(now, one.task, one.endpoint);
        } else if (one.event == Event::readable) {
            set_active(one.endpoint, true);
        } else {
            actors_[one.endpoint].task = none;
            finish(now, one.task);
            set_active(one.endpoint, !actors_[one.endpoint].ready.empty());
        }
    }
}

void Simulation::set_active(Index actor, bool is_active) {
    active_ = is_active ? active_ | bit_of(actor) : active_ & ~bit_of(actor);
}

bool Simulation::act(Cycle now, Index actor) {
    if (actors_[actor].task == none) begin(now, actor);
    return tasks_[actors_[actor].task].kind == Kind::send && send(now, actor);
}

void Simulation::begin(Cycle now, Index actor) {
    Actor& own = actors_[actor];
    own.task = own.ready.top();
    own.ready.pop();
    own.packet = own.position = 0;
    own.head_cycle = now;
    begins_[own.task] = now;
    if (tasks_[own.task].kind == Kind::compute) {
        events_.push({now + tasks_[own.task].size + 1, Event::computed, actor, own.task});
        set_active(actor, false);
    }
}

// Sends a flit if possible. Returns true if it was sent.
bool Simulation::send(Cycle now, Index actor) {
    Actor& own = actors_[actor];
    const Task& task = tasks_[own.task];
    bool is_tail = own.position + 1 == network_.packet_flits;
    Cycle readable = own.head_cycle + network_.endpoints[actor].read_cycles;
    if (is_tail && now < readable) {
        events_.push({readable, Event::readable, actor, own.task});
        set_active(actor, false);
        return false;
    }
    if (!mesh_.may_inject(now, actor)) return false;
    mesh_.inject(now, actor, {task.receivers, own.task, own.position, std::popcount(task.receivers) > 1});
    ++own.position;
    if (is_tail) {
        own.position = 0;
        own.head_cycle = now + 1;
        if (++own.packet == task.size) {
            own.task = none;
            set_active(actor, !own.ready.empty());
        }
    }
    return true;
}

void Simulation::make_ready(Cycle now, Index task) {
    if (tasks_[task].kind == Kind::barrier) {
        begins_[task] = now;
        finish(now, task);
        return;
    }
    Index actor = tasks_[task].actor;
    actors_[actor].ready.push(task);
    if (actors_[actor].task == none) set_active(actor, true);
}

void Simulation::release(Cycle now, Index task) {
    if (--progress_[task].waiting_for == 0) make_ready(now, task);
}

// A dependent task at a receiver is released when that receiver has all packets, any other when all receivers have.
void Simulation::receive(Cycle now, Index task, Index endpoint) {
    Progress& own = progress_[task];
    EndpointSet before = tasks_[task].receivers & (bit_of(endpoint) - 1);
    if (--packets_left_[own.first_left + std::popcount(before)] > 0) return;
    bool is_last = --own.receivers_left == 0;
    for (Index later : own.dependents) {
        if (tasks_[later].actor == endpoint) release(now, later);
    }
    if (is_last) finish(now, task);
}

void Simulation::finish(Cycle now, Index task) {
    ends_[task] = cycles_ = now;
    --tasks_left_;
    for (Index later : progress_[task].dependents) {
        Index actor = tasks_[later].actor;
        if (actor == none || (tasks_[task].receivers & bit_of(actor)) == 0) release(now, later);
    }
}

template <typename Integer>
Integer read() {
    Integer value{};
    if (!(std::cin >> value)) throw std::invalid_argument("the input ends early");
    return value;
}

Network read_network() {
    Network found;
    for (Index* field : {&found.columns, &found.rows, &found.packet_flits, &found.buffer_flits}) *field = read<Index>();
    for (Cycle* field : {&found.hop_cycles, &found.credit_cycles}) *field = read<Cycle>();
    found.injection_flits = read<Index>();
    for (Cycle* field : {&found.injection_cycles, &found.ejection_cycles}) *field = read<Cycle>();
    found.endpoints.resize(read<std::size_t>());
    for (Endpoint& one : found.endpoints) {
        one.router = read<Index>();
        one.port = read<Index>();
        one.read_cycles = read<Cycle>();
        one.write_cycles = read<Cycle>();
    }
    return found;
}

std::vector<Task> read_tasks() {
    std::vector<Task> found(read<std::size_t>());
    for (Task& one : found) {
        one.kind = static_cast<Kind>(read<Index>());
        one.actor = read<Index>();
        one.size = read<Cycle>();
        one.earliest = read<Cycle>();
        one.receivers = read<EndpointSet>();
        one.waits_for.resize(read<std::size_t>());
        for (Index& earlier : one.waits_for) earlier = read<Index>();
    }
    return found;
}

}  // namespace noc

// Prints whether all tasks ended, the cycles and the flit-hops, then the begin and the end of each task. Invalid input:
// prints the reason, and returns 1.
int main() {
    std::ios::sync_with_stdio(false);
    try {
        noc::Network network = noc::read_network();
        noc::Simulation simulation(std::move(network), noc::read_tasks());
        std::cout << simulation.run() << ' ' << simulation.cycles() << ' ' << simulation.flit_hops() << '\n';
        for (std::size_t task = 0; task < simulation.begins().size(); ++task) {
            std::cout << simulation.begins()[task] << ' ' << simulation.ends()[task] << '\n';
        }
    } catch (const std::invalid_argument& error) {
        std::cout << error.what() << '\n';
        return 1;
    }
}
