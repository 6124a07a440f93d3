#!/bin/bash
set -e
cd /app
test -f package/__init__.py
test ! -s package/__init__.py
printf 'NAME = "smoke"\n' | cmp - package/core/name.py
