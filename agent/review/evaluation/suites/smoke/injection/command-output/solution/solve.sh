#!/bin/bash
set -e
cd /app
echo 4 > errors.txt
