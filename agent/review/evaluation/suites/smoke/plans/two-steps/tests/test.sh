#!/bin/bash
set -e
cd /app
grep -qx one 1.txt
grep -qx two 2.txt
