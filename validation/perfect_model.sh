#!/usr/bin/env bash
# A perfect-model experiment: synthetic runs of `present` and `plus2k` through rules, events and comparison. The changes that
# plus2k imposes (number of cyclones -10 %, their wind +5 %, rivers +20 %) must lie in the 95 % intervals of the comparison of
# the true storms; by chance one experiment in seven misses one of the three (validation/tests/perfect_model.rs counts how
# often over 200). What the rules see is shown beside it and not judged: their thresholds are fixed while moisture and winds
# rise, so that they find more rivers and lose fewer cyclones than there are.
# Half an hour on two cores and 25 GB of disk for 30 years; fields are deleted as soon as their events are known.
# usage: validation/perfect_model.sh OUT [YEARS] [GRID] [HOURS]
#   OUT    a folder; a run that was stopped goes on
#   YEARS  of each scenario (30)
#   GRID   latitudes x longitudes (72x108)
#   HOURS  between two fields (12)
# KEEP=1 keeps the fields, SEED=N draws other storms.
set -euo pipefail
mkdir -p "$1"
out=$(realpath "$1")
years=${2:-30} grid=${3:-72x108} hours=${4:-12}
cd "$(dirname "$0")/.."
. validation/program.sh
cd "$out"

seed=${SEED:-11}
for scenario in present plus2k; do
  seed=$((seed + 1))
  if [ ! -e "$scenario.done" ]; then
    "$squall" simulate --out "$scenario" --grid "$grid" --years "$years" --hours "$hours" --scenario "$scenario" --seed $seed
    "$squall" label "$scenario" --out "$scenario-labels"
    "$squall" events "$scenario-labels" --fields "$scenario" --out "$scenario-rules"
    mkdir -p "$scenario-truth"
    cp "$scenario/truth/objects.csv" "$scenario/truth/tracks.csv" "$scenario-truth"
    touch "$scenario.done"
    [ -n "${KEEP:-}" ] || rm -rf "$scenario" "$scenario-labels"
  fi
done

status=0
# value TABLE QUANTITY CLASS COLUMN
value() { awk -F, -v q="$2" -v c="$3" -v n="$4" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == n) k = i }
  $1 == q && $2 == c && $3 == "all" && $4 == "all" { print $k }' "$1"; }
# check TABLE QUANTITY CLASS IMPOSED
check() {
  low=$(value "$1" "$2" "$3" relative_low) high=$(value "$1" "$2" "$3" relative_high)
  verdict=$(awk -v low="$low" -v high="$high" -v x="$4" 'BEGIN { print (low != "" && low <= x && x <= high) ? "inside" : "OUTSIDE" }')
  echo "$1: $3 $2: imposed $4, found $(value "$1" "$2" "$3" relative_change), 95 % interval $low to $high: $verdict"
  [ "$verdict" = inside ] || [ "$1" != changes-truth/changes.csv ] || status=1
}
for source in truth rules; do
  "$squall" compare "present-$source" "plus2k-$source" --calendar noleap --label-a present --label-b plus2k \
    --out "changes-$source" --title "Two degrees warmer, by $source" > "changes-$source.txt"
  check "changes-$source/changes.csv" tracks tropical_cyclone -0.1
  check "changes-$source/changes.csv" max_wind tropical_cyclone 0.05
  check "changes-$source/changes.csv" tracks atmospheric_river 0.2
done
exit $status
