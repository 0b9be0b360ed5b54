"""`python -m duly`: the command line. It decides nothing, and must never grow options."""

from __future__ import annotations

import sys

from duly._cli.main import main

if __name__ == "__main__":
    sys.exit(main())
