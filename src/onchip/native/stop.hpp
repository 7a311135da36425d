// How a search that runs without the interpreter lock is asked to end.

#pragma once

#include <atomic>

namespace onchip {

// May be asked from any thread; a search looks at it in its innermost loop.
class StopToken {
public:
    void ask() { is_asked_.store(true, std::memory_order_relaxed); }
    bool is_asked() const { return is_asked_.load(std::memory_order_relaxed); }

private:
    std::atomic<bool> is_asked_{false};
};

}  // namespace onchip
