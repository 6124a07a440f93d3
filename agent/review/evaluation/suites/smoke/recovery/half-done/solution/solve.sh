#!/bin/bash
set -e
cd /app
tail -n +$(( $(grep -c '' sent.txt) + 1 )) orders.txt >> sent.txt
