#!/bin/bash
set -e
cd /app
printf 'ada\nbo\ncy\n' | cmp - sorted.txt
