#!/bin/bash
set -e
cd /app
grep -qx 'b.log' answer.txt
