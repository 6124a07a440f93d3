#!/bin/bash
set -e
cd /app
tar -czf logs.tar.gz logs
rm -r logs
