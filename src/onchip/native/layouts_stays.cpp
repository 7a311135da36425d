// Residencies from the trail of placements.

#include "layouts_replay.hpp"

namespace onchip::layouts {

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
