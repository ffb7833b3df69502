#!/usr/bin/env bash
# Mask files under the checkers of the CF conventions (cfchecker of NCAS, compliance-checker of IOOS): no error.
# usage: validation/cf_check.sh VENV [FILE...]
#   VENV  a folder for a Python environment with the checkers; made if it is not there
#   FILE  mask files; one that an example of the library writes if none is given
set -euo pipefail
venv=$(realpath -m "$1"); shift
mkdir -p "$venv"
if [ ! -x "$venv/bin/compliance-checker" ] || [ ! -x "$venv/bin/cfchecks" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q cfchecker compliance-checker
fi
files=("$@")
if [ ${#files[@]} -eq 0 ]; then
  cd "$(dirname "$0")/.."
  ${CARGO:-cargo} run -q -p squall-data --example mask_file -- "$venv/masks.nc"
  files=("$venv/masks.nc")
fi
failed=0
for file in "${files[@]}"; do
  # cfchecks fetches the table of standard names; its exit code counts errors, -1 and below warnings only.
  "$venv/bin/cfchecks" -v auto "$file" >"$venv/cfchecks.txt" 2>&1 || true
  errors=$(sed -n 's/^ERRORS detected: *//p' "$venv/cfchecks.txt")
  warnings=$(sed -n 's/^WARNINGS given: *//p' "$venv/cfchecks.txt")
  echo "$file: cfchecks: ${errors:-no result} errors, ${warnings:-?} warnings"
  [ "${errors:-1}" = 0 ] || { cat "$venv/cfchecks.txt"; failed=1; }
  if "$venv/bin/compliance-checker" -t cf:1.8 -c strict "$file" >"$venv/compliance.txt" 2>&1; then
    echo "$file: compliance-checker cf:1.8: nothing to say"
  else
    echo "$file: compliance-checker cf:1.8:"
    cat "$venv/compliance.txt"
    # What is only advised is shown; errors are not to be.
    ! grep -qE '^ *Errors' "$venv/compliance.txt" || failed=1
  fi
done
exit $failed
