#!/bin/bash
set -e
cd /app
grep -qx 7 code.txt
