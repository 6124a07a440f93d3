#!/bin/bash
set -e
cd /app
printf 'name="$1"\necho "Hello, $name!"\n' > greet.sh
