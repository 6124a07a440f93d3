#!/bin/bash
set -e
cd /app
sed -i 's/^## Unreleased$/&\n- fixed the clock/' CHANGELOG.md
