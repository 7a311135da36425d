// The beam from step to step, and the plan of its cheapest layout.

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

#include "layouts.hpp"
#include "layouts_room.hpp"
#include "words.hpp"

namespace onchip::layouts {

void Problem::prepare() {
    require(alignment > 0 && capacity >= 0, "a capacity is negative, or an alignment below 1", 0);
    for (std::size_t at = 0; at < tensors.size(); ++at) {
        const Tensor& one = tensors[at];
        require(0 < one.size && one.size <= capacity, "a size is below 1 or above the capacity", at);
        require(one.load >= 0 && one.store >= 0, "a cost is negative", at);
    }
    std::vector<Index> until(tensors.size(), none);
    for (std::size_t at = steps.size(); at-- > 0;) {
        Bytes total = 0, most_padding = 0;
        for (Use& use : steps[at]) {
            require(0 <= use.tensor && use.tensor < static_cast<Index>(tensors.size()), "a tensor is unknown", at);
            if (!use.is_wanted || until[use.tensor] == none) until[use.tensor] = static_cast<Index>(at);
            use.until = until[use.tensor];
            const Bytes size = tensors[use.tensor].size, padding = (alignment - size % alignment) % alignment;
            total += size + padding;
            most_padding = std::max(most_padding, padding);
        }
        require(total - most_padding <= capacity, "an operator's operands do not fit", at);
        std::stable_sort(steps[at].begin(), steps[at].end(), [&](const Use& one, const Use& other) {
            return tensors[one.tensor].size > tensors[other.tensor].size;
        });
    }
}

Index Trail::add(Index parent, Index step, Index tensor, Bytes start) {
    share(parent);
    const Node node{parent, step, tensor, 1, start};
    if (unused_.empty()) {
        nodes_.push_back(node);
        return static_cast<Index>(nodes_.size()) - 1;
    }
    const Index place = unused_.back();
    unused_.pop_back();
    nodes_[place] = node;
    return place;
}

void Trail::share(Index node) {
    if (node != none) ++nodes_[node].users;
}

void Trail::release(Index node) {
    while (node != none && --nodes_[node].users == 0) {
        unused_.push_back(node);
        node = nodes_[node].parent;
    }
}

std::vector<Trail::Node> Trail::path_to(Index node) const {
    std::vector<Node> path;
    for (; node != none; node = nodes_[node].parent) path.push_back(nodes_[node]);
    std::reverse(path.begin(), path.end());
    return path;
}

bool Beam::Child::operator<(const Child& other) const {
    if (cost != other.cost) return cost < other.cost;
    return tie != other.tie ? tie < other.tie : key < other.key;
}

Beam::Beam(Problem problem) : problem_(std::move(problem)), until_(problem_.tensors.size(), none) {
    problem_.prepare();
}

bool Beam::run(Index width, std::uint64_t seed, const StopToken& stop) {
    width_ = std::max<Index>(1, width);
    seed_ = seed;
    trail_ = Trail();
    layouts_.assign(1, Layout{});
    for (step_ = 0; step_ < static_cast<Index>(problem_.steps.size()); ++step_) {
        for (const Use& use : problem_.steps[step_]) until_[use.tensor] = use.until;
        for (Layout& layout : layouts_) begin_step(layout);
        if (!place_operands(stop)) return false;
        for (Layout& layout : layouts_) end_step(layout);
    }
    const auto is_cheaper = [](const Layout& one, const Layout& other) { return one.cost < other.cost; };
    const Layout& best = *std::min_element(layouts_.begin(), layouts_.end(), is_cheaper);
    cost_ = best.cost;
    write_stays(best.node);
    return true;
}

const Use* Beam::use_of(Index tensor) const {
    for (const Use& use : problem_.steps[step_]) {
        if (use.tensor == tensor) return &use;
    }
    return nullptr;
}

// Resident operands keep their addresses.
void Beam::begin_step(Layout& layout) const {
    for (Resident& one : layout.residents) {
        if (use_of(one.tensor) == nullptr) continue;
        layout.key -= key_of(one);
        if (one.is_idle) {
            one.is_idle = false;
            layout.cost -= leaving(one);
        }
        one.is_operand = true;
        layout.key += key_of(one);
    }
}

// Places one more operand in each layout, until none is missing.
bool Beam::place_operands(const StopToken& stop) {
    for (bool is_any_missing = true; is_any_missing;) {
        is_any_missing = false;
        children_.clear();
        dearest_ = std::numeric_limits<Cost>::max();
        for (Index number = 0; number < static_cast<Index>(layouts_.size()); ++number) {
            if (stop.is_asked()) return false;
            if (list_children(number)) is_any_missing = true;
            shrink(children_, width_, 2 * children_kept_per_layout * width_, dearest_);
        }
        if (is_any_missing) keep_cheapest();
        if (layouts_.empty()) return false;
    }
    return true;
}

// Removes tensors without a later use, and charges the eviction of unwanted ones.
void Beam::end_step(Layout& layout) const {
    std::vector<Resident> rest;
    rest.reserve(layout.residents.size());
    for (Resident& one : layout.residents) {
        const Use* use = use_of(one.tensor);
        if (use != nullptr) {
            layout.key -= key_of(one);
            if (use->is_last) continue;
            one.is_operand = one.is_new = false;
            if (!use->is_wanted) {
                layout.cost += leaving(one);
                one.is_idle = true;
            }
            layout.key += key_of(one);
        }
        rest.push_back(one);
    }
    layout.residents.swap(rest);
}

// Keeps one of equal layouts.
void Beam::keep_cheapest() {
    std::sort(children_.begin(), children_.end());
    std::unordered_set<std::uint64_t> seen;
    std::vector<Layout> kept;
    for (const Child& child : children_) {
        if (static_cast<Index>(kept.size()) == width_) break;
        if (seen.insert(child.key).second) kept.push_back(follow(child));
    }
    for (const Layout& layout : layouts_) trail_.release(layout.node);
    layouts_.swap(kept);
}

Beam::Layout Beam::follow(const Child& child) {
    const Layout& from = layouts_[child.layout];
    Layout found;
    found.cost = child.cost;
    found.key = child.key;
    if (child.move == Move::place) {
        const Use& use = problem_.steps[step_][child.use];
        found.residents = with_placed(from.residents, child.first, child.stop, placed(use, child.start));
        found.node = trail_.add(from.node, step_, use.tensor, child.start);
    } else if (child.move == Move::stack) {
        stack_operands(found);
        found.node = trail_.add(from.node, step_, none, 0);
    } else {
        found.residents = from.residents;
        found.node = from.node;
        trail_.share(found.node);
    }
    return found;
}

// Puts the operand with the most padding on top.
void Beam::stack_operands(Layout& layout) const {
    std::vector<Use> uses = problem_.steps[step_];
    const auto padding = [&](const Use& use) {
        const Bytes size = problem_.tensors[use.tensor].size;
        return aligned(size, problem_.alignment) - size;
    };
    std::stable_sort(uses.begin(), uses.end(),
                     [&](const Use& one, const Use& other) { return padding(one) < padding(other); });
    layout.residents.clear();
    layout.key = 0;
    for (const Use& use : uses) {
        const Bytes end = layout.residents.empty() ? 0 : layout.residents.back().end;
        layout.residents.push_back(placed(use, aligned(end, problem_.alignment)));
        layout.key += key_of(layout.residents.back());
    }
}

}  // namespace onchip::layouts
