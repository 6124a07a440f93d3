#!/bin/bash
set -e
cd /app
ls -S data | head -n 1 > answer.txt
