#!/bin/bash
set -e
cd /app
test ! -e draft.txt
grep -qx 'The text of the draft.' final.txt
