#!/usr/bin/env bash
# What a GPU must show: check.sh SQUALL OUT [--quick | --tiny] [--minutes N] [--only STEP,...]
# OUT/check.md and OUT/check.json hold the results; README.md reads them. check.py is the script.
exec python3 "$(dirname "$0")/check.py" "$@"
