"""`python -m onchip`."""

from onchip.cli import main

main()
