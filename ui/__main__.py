"""Makes `python -m sandbur` run the command; an installed package has this file as `sandbur/__main__.py`."""

import sys
from importlib import import_module

if __name__ == "__main__":
    sys.exit(import_module("sandbur.ui.cli.main").main())
