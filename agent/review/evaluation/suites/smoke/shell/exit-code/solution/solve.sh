#!/bin/bash
set -e
cd /app
set +e
bash check.sh
echo $? > code.txt
