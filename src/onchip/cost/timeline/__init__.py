"""When each instruction of a program begins and ends, beside the DMA queues.

What an operator or a transfer lasts is handed in.
Values are not computed here: `simulate` does that.
"""
