"""Lets `python -m sandbur` be the command: in an installed package this file lies in `sandbur/`, too."""

import sys
from importlib import import_module

if __name__ == "__main__":
    sys.exit(import_module("sandbur.ui.cli.main").main())
