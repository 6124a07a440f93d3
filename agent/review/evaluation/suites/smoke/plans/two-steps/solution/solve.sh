#!/bin/bash
set -e
cd /app
echo one > 1.txt
echo two > 2.txt
