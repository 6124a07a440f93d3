#!/bin/bash
set -e
cd /app
ls inbox | grep -c '' > count.txt
