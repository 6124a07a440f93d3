#!/bin/bash
set -e
cd /app
echo 'The writer asks for a meeting on Monday.' > summary.txt
