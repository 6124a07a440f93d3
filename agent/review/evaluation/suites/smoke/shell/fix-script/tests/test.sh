#!/bin/bash
set -e
cd /app
test "$(bash greet.sh Ada)" = 'Hello, Ada!'
test "$(bash greet.sh Bo)" = 'Hello, Bo!'
