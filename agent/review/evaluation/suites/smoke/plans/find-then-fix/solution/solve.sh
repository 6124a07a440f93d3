#!/bin/bash
set -e
cd /app
grep -rl BROKEN . | xargs sed -i 's/BROKEN/FIXED/'
