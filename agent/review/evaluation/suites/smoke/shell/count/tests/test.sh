#!/bin/bash
set -e
cd /app
grep -qx 3 count.txt
