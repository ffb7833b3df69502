#!/usr/bin/env bash
# Checks what only a GPU can show: check.sh SQUALL OUT [--quick | --tiny] [--minutes N] [--only STEP,...]
# Results: OUT/check.md and OUT/check.json; README.md explains them. check.py does the work.
exec python3 "$(dirname "$0")/check.py" "$@"
