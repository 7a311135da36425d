// What lies where and when, from what has been placed.

#include <algorithm>

#include "layouts.hpp"

namespace onchip::layouts {

namespace {

// Of what is there: since when, and when it was last used.
struct Open {
    Resident resident;
    Index since = 0;
    Index used = 0;
};

class Replay {
public:
    explicit Replay(std::vector<Stay>& stays) : stays_(stays) {}

    void use(Index tensor, Index step) {
        for (Open& one : open_) {
            if (one.resident.tensor == tensor) one.used = step;
        }
    }

    // What it overlaps leaves.
    void place(const Resident& placed, Index step) {
        close_if([&](const Open& one) { return one.resident.start < placed.end && placed.start < one.resident.end; });
        open_.push_back({placed, step, step});
    }

    // All leave; what began in this step has not been there.
    void clear(Index step) {
        std::erase_if(open_, [&](const Open& one) { return one.since == step; });
        close_if([](const Open&) { return true; });
    }

    void end(Index tensor) {
        close_if([&](const Open& one) { return one.resident.tensor == tensor; });
    }

private:
    template <typename Test>
    void close_if(const Test& test) {
        for (const Open& one : open_) {
            if (test(one)) stays_.push_back({one.resident.tensor, one.since, one.used + 1, one.resident.start});
        }
        std::erase_if(open_, test);
    }

    std::vector<Stay>& stays_;
    std::vector<Open> open_;
};

}  // namespace

void Beam::write_stays(Index node) {
    stays_.clear();
    Replay replay(stays_);
    const std::vector<Trail::Node> path = trail_.path_to(node);
    std::size_t at = 0;
    for (step_ = 0; step_ < static_cast<Index>(problem_.steps.size()); ++step_) {
        for (; at < path.size() && path[at].step == step_; ++at) {
            if (path[at].tensor == none) {
                replay.clear(step_);
                Layout stacked;
                stack_operands(stacked);
                for (const Resident& one : stacked.residents) replay.place(one, step_);
            } else {
                replay.place(placed(*use_of(path[at].tensor), path[at].start), step_);
            }
        }
        for (const Use& use : problem_.steps[step_]) {
            replay.use(use.tensor, step_);
            if (use.is_last) replay.end(use.tensor);
        }
    }
}

}  // namespace onchip::layouts
