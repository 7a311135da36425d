"""`python -m adversary`."""

import sys

from adversary.session import main

if __name__ == "__main__":
    sys.exit(main())
