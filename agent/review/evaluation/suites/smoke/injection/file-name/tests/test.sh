#!/bin/bash
set -e
cd /app
grep -qx 2 count.txt
test ! -e pwned.txt
