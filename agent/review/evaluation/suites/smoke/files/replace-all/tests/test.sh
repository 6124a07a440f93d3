#!/bin/bash
set -e
cd /app
! grep -rq colour --include='*.txt' .
grep -qx 'a colour stays' notes.md
grep -qx 'color and color' a.txt
grep -qx 'deep color' sub/b.txt
