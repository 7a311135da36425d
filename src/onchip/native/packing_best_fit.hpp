// Best fit without a capacity: buffers in an order, each into the smallest gap between those that live with it.

#pragma once

#include <vector>

#include "packing.hpp"

namespace onchip::packing {

struct Life {
    Index start = 0;  // half-open steps
    Index stop = 0;
    Units size = 0;
};

class BestFit {
public:
    // Throws std::invalid_argument for a size or an alignment below 1.
    BestFit(std::vector<Life> lives, Units alignment);

    // Offsets by buffer; empty where it had to stop. The order has each buffer once.
    std::vector<Units> place(const std::vector<Index>& order, const StopToken& stop) const;

private:
    std::vector<Life> lives_;
    Units alignment_;
};

}  // namespace onchip::packing
