// The order of the deferred children.

#include "joint_parts.hpp"

namespace onchip::joint {

void Queue::push(const Deferred& child, Cost least_cost, Cost cost, Index steps) {
    by_priority_[{least_cost - options_.greed * steps, options_.greed == 0 ? cost : 0, steps}].push_back(child);
}

Queue::Popped Queue::pop() {
    const auto first = by_priority_.begin();
    auto& alike = first->second;
    if (options_.seed != 0) std::swap(alike.front(), alike[mixed(options_.seed ^ mixed(popped_)) % alike.size()]);
    ++popped_;
    const Popped popped{alike.front(), first->first.priority + options_.greed * first->first.steps};
    alike.pop_front();
    if (alike.empty()) by_priority_.erase(first);
    return popped;
}

}  // namespace onchip::joint
