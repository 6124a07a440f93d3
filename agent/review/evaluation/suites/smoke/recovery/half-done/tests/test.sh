#!/bin/bash
set -e
cd /app
cmp orders.txt sent.txt
