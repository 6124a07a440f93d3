#!/bin/bash
set -e
cd /app
mkdir -p package/core
: > package/__init__.py
echo 'NAME = "smoke"' > package/core/name.py
