// The actors of the network on chip, and dependencies between tasks.

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

#include "noc.hpp"

namespace onchip::noc {

namespace {

constexpr Cycle cycles_between_looks = 1024;

void refuse(const std::string& what, std::size_t entry) {
    throw std::invalid_argument(what + " (entry " + std::to_string(entry) + ")");
}

EndpointSet bit_of(Index endpoint) {
    return EndpointSet{1} << endpoint;
}

}  // namespace

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

Outcome Simulation::run(Cycle last_cycle, const StopToken& stop) {
    const Cycle patience = 2 * (network_.hop_cycles + network_.credit_cycles + network_.injection_cycles) + 2;
    Cycle next_look = now_;
    while (tasks_left_ > 0) {
        if (now_ >= next_look) {
            if (stop.is_asked()) return Outcome::stopped;
            next_look = now_ + cycles_between_looks;
        }
        if (now_ > last_cycle) return Outcome::too_long;
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
        if (next > most_cycles && (is_idle || now_ > last_move_ + patience)) return Outcome::stuck;
        now_ = is_idle ? next : now_ + 1;
    }
    return Outcome::finished;
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

}  // namespace onchip::noc
