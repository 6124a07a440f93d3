#!/bin/bash
set -e
cd /app
test ! -e logs
tar -xzOf logs.tar.gz logs/one.log | grep -qx first
