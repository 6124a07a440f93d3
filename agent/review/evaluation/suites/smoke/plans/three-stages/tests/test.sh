#!/bin/bash
set -e
cd /app
printf 'ONE\nTWO\n' | cmp - work.txt
grep -qx 2 lines.txt
grep -qx one input.txt
