#!/bin/bash
set -e
cd /app
grep -c ' 500 ' access.log > count.txt
