// Residencies from a sequence of placements.

#pragma once

#include <algorithm>
#include <vector>

#include "layouts.hpp"

namespace onchip::layouts {

class Replay {
public:
    explicit Replay(std::vector<Stay>& stays) : stays_(stays) {}

    void use(Index tensor, Index step) {
        for (Open& one : open_) {
            if (one.resident.tensor == tensor) one.used = step;
        }
    }

    // Overlapping residents leave.
    void place(const Resident& placed, Index step) {
        close_if([&](const Open& one) { return one.resident.start < placed.end && placed.start < one.resident.end; });
        open_.push_back({placed, step, step});
    }

    // All residents leave; those placed in this step are dropped.
    void clear(Index step) {
        std::erase_if(open_, [&](const Open& one) { return one.since == step; });
        close_if([](const Open&) { return true; });
    }

    void end(Index tensor) {
        close_if([&](const Open& one) { return one.resident.tensor == tensor; });
    }

private:
    // A resident, its first step here, and its last use.
    struct Open {
        Resident resident;
        Index since = 0;
        Index used = 0;
    };

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

}  // namespace onchip::layouts
