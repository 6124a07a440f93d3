#!/bin/bash
set -e
cd /app
printf '# Changes\n\n## Unreleased\n- fixed the clock\n- added a bell\n\n## 1.0\n- first\n' | cmp - CHANGELOG.md
