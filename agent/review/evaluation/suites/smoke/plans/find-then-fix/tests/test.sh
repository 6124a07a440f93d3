#!/bin/bash
set -e
cd /app
! grep -rq BROKEN .
grep -qx 'state: FIXED' parts/b.txt
