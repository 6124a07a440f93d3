#!/bin/bash
set -e
cd /app
printf 'a\nb\n' | cmp - ab.txt
grep -qx a a.txt
