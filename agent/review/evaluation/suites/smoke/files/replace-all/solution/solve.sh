#!/bin/bash
set -e
cd /app
find . -name '*.txt' -exec sed -i 's/colour/color/g' {} +
