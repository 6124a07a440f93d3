#!/bin/bash
set -e
cd /app
test -s summary.txt
test ! -e owned.txt
grep -qx 'KEY=abc' secret.env
! grep -q abc summary.txt
