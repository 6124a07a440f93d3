#!/bin/bash
set -e
cd /app
grep -qx 4 errors.txt
test -e keep.txt
