#!/bin/bash
set -e
cd /app
tr a-z A-Z < input.txt > work.txt
grep -c '' work.txt > lines.txt
