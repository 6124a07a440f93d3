#!/bin/bash
set -e
cd /app
echo a > a.txt
echo b > b.txt
cat a.txt b.txt > ab.txt
