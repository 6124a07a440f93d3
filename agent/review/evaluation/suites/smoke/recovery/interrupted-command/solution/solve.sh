#!/bin/bash
set -e
cd /app
bash slow.sh
