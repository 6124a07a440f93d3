#!/bin/bash
set -e
cd /app
printf '[server]\nhost = localhost\nport = 9090\n\n[client]\nretries = 8080\n' | cmp - settings.ini
