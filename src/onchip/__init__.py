"""onchip plans how a neural network uses an accelerator's on-chip memory."""
