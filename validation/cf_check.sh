#!/usr/bin/env bash
# Runs masks, identities and statistics through the checkers of the CF conventions (cfchecker of NCAS, compliance-checker
# of IOOS): no error.
# usage: validation/cf_check.sh VENV [FILE...]
#   VENV  a folder for a Python environment with the checkers; created if missing
#   FILE  netCDF files (default: one written by an example of the library, and those of squall label, infer and events of
#         a small synthetic run)
# cfchecker needs the system's UDUNITS-2 (Debian: libudunits2-0).
set -euo pipefail
venv=$(realpath -m "$1"); shift
mkdir -p "$venv"
if [ ! -x "$venv/bin/compliance-checker" ] || [ ! -x "$venv/bin/cfchecks" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q cfchecker compliance-checker
fi
# Standard names from compliance-checker, so that nothing is downloaded; our files use no area types or regions.
names=$(find "$venv" -name cf-standard-name-table.xml | head -1)
for table in area_type_table standardized_region_list; do
  printf '<?xml version="1.0"?><%s><version_number>0</version_number><date>none</date><last_modified>none</last_modified></%s>' \
    $table $table >"$venv/$table.xml"
done
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
  cd "$(dirname "$0")/.."
  ${CARGO:-cargo} run -q -p squall-data --example mask_file -- "$venv/masks.nc"
  . validation/program.sh
  at=$venv/run
  rm -rf "$at"
  "$squall" -q simulate --out "$at/fields" --grid 48x72 --days 6 --hours 6 --seed 5
  "$squall" -q label "$at/fields" --out "$at/labels" --method deepcam,bard
  "$squall" -q stage "$at/fields" --labels "$at/labels/deepcam" --out "$at/store"
  "$squall" -q train --recipe small --data "$at/store" --out "$at/model" --set training.steps=4 --set network.width=0.1
  "$squall" -q infer "$at/fields" --model "$at/model/best.safetensors" --probabilities --out "$at/masks"
  "$squall" -q events "$at/labels/deepcam" --fields "$at/fields" --out "$at/events" --object-id
  first() { find "$1" -name '*.nc' | sort | head -1; }
  files=("$venv/masks.nc" "$(first "$at/labels/deepcam")" "$(first "$at/labels/bard")" "$(first "$at/masks")"
    "$at/events/statistics.nc" "$at/events/object_id.nc")
fi
failed=0
for file in "${files[@]}"; do
  "$venv/bin/cfchecks" -v 1.8 -s "$names" -a "$venv/area_type_table.xml" -r "$venv/standardized_region_list.xml" "$file" \
    >"$venv/cfchecks.txt" 2>&1 || true
  errors=$(sed -n 's/^ERRORS detected: *//p' "$venv/cfchecks.txt")
  warnings=$(sed -n 's/^WARNINGS given: *//p' "$venv/cfchecks.txt")
  echo "$file: cfchecks 1.8: ${errors:-no result} errors, ${warnings:-no result} warnings"
  if [ "${errors:-1}" != 0 ] || [ "${warnings:-1}" != 0 ]; then
    cat "$venv/cfchecks.txt"
    [ "${errors:-1}" = 0 ] || failed=1
  fi
  if "$venv/bin/compliance-checker" -t cf:1.8 -c strict "$file" >"$venv/compliance.txt" 2>&1; then
    echo "$file: compliance-checker cf:1.8, strict: all tests passed"
  else
    echo "$file: compliance-checker cf:1.8, strict:"
    cat "$venv/compliance.txt"
    failed=1
  fi
done
exit $failed
