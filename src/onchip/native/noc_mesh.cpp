// The routers of the network on chip.

#include <bit>

#include "noc.hpp"

namespace onchip::noc {

namespace {

constexpr Index local = 0, north = 1, east = 2, south = 3, west = 4;

Index opposite(Index port) {
    return port <= east ? port + 2 : port - 2;
}

// Returns the next port in the round-robin order of all five.
Index after(Index port) {
    return port == local ? west : port - 1;
}

}  // namespace

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

}  // namespace onchip::noc
