#!/usr/bin/env bash
# A perfect-model experiment: synthetic runs of `present` and `plus2k` through rules and a network, events and comparison. The
# changes that plus2k imposes (number of cyclones -10 %, the root of their deficits +5 %, rivers +20 %) must lie in the 95 % intervals of
# the comparison of the true storms; by chance one experiment in seven misses one of the three (validation/tests/perfect_model.rs
# counts how often over 200). Winds in gradient balance change by more than the root of the deficit, most so in the wide vortices of
# a coarse grid: what is imposed on them is computed for the true storms. What rules and network see is shown beside it and not judged: thresholds are fixed while moisture and winds
# rise, so that rules find more rivers and lose fewer cyclones than there are; those of `percentile` are of each run's own climate.
# The network has learned from the true masks of one more year of either climate, with other storms.
# 25 GB of disk for 30 years; fields are deleted as soon as their events are known.
# usage: validation/perfect_model.sh OUT [YEARS] [GRID] [HOURS]
#   OUT    a folder; a run that was stopped goes on
#   YEARS  of each scenario (30)
#   GRID   latitudes x longitudes (72x108)
#   HOURS  between two fields (12)
# KEEP=1 keeps the fields, SEED=N draws other storms, STEPS=N trains the network longer than 800 steps, or not at all: 0.
set -euo pipefail
mkdir -p "$1"
out=$(realpath "$1")
years=${2:-30} grid=${3:-72x108} hours=${4:-12}
cd "$(dirname "$0")/.."
. validation/program.sh
cd "$out"

seed=${SEED:-11} steps=${STEPS:-800}
if [ "$steps" -gt 0 ] && [ ! -e model.done ]; then
  year=2000
  for scenario in present plus2k; do
    # Two years, one after the other, so that they are one time axis.
    [ -d "learn-$scenario" ] || "$squall" simulate --out "learn-$scenario" --grid "$grid" --hours "$hours" --scenario "$scenario" \
      --seed $((seed + 1000 + year)) --start $year-01-01
    year=$((year + 1))
  done
  ls learn-*/*.nc > learn.txt
  ls learn-*/truth/*.nc > learn-truth.txt
  [ -d store ] || "$squall" stage learn.txt --labels learn-truth.txt --out store
  "$squall" train --recipe small --data store --out model --set training.steps="$steps" --set training.batch=8 \
    --set training.validate_every_steps=$(((steps + 3) / 4))
  touch model.done
  rm -rf learn-present learn-plus2k store
fi
for scenario in present plus2k; do
  seed=$((seed + 1))
  if [ ! -e "$scenario.done" ]; then
    "$squall" simulate --out "$scenario" --grid "$grid" --years "$years" --hours "$hours" --scenario "$scenario" --seed $seed
    "$squall" label "$scenario" --method deepcam,tempest,percentile --out "$scenario-labels"
    for rules in deepcam tempest percentile; do
      "$squall" events "$scenario-labels/$rules" --fields "$scenario" --out "$scenario-$rules"
    done
    if [ "$steps" -gt 0 ]; then
      "$squall" infer "$scenario" --model model/best.safetensors --out "$scenario-masks" --file-per month
      "$squall" events "$scenario-masks" --fields "$scenario" --out "$scenario-network"
    fi
    mkdir -p "$scenario-truth"
    cp "$scenario/truth/objects.csv" "$scenario/truth/tracks.csv" "$scenario-truth"
    touch "$scenario.done"
    [ -n "${KEEP:-}" ] || rm -rf "$scenario" "$scenario-labels" "$scenario-masks"
  fi
done

status=0
# value TABLE QUANTITY CLASS COLUMN
value() { awk -F, -v q="$2" -v c="$3" -v n="$4" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == n) k = i }
  $1 == q && $2 == c && $3 == "all" && $4 == "all" { print $k }' "$1"; }
# The relative change of the mean strongest wind V of the true storms of `present` whose deficits grow by 5 % twice: V² + f r V goes as the
# deficit, at the radius of maximum wind, which on a coarse grid is 1.15 times its spacing.
imposed_wind() {
  awk -F, -v radius_m="$(awk -v rows="${grid%x*}" 'BEGIN { print 1.15 * 180 / (rows - 1) * 111195 }')" '
    BEGIN { pi = atan2(0, -1) }
    NR == 1 { for (k = 1; k <= NF; k++) at[$k] = k; next }
    $1 == "tropical_cyclone" && $at["max_wind_m_s"] > most[$at["track_id"]] {
      most[$at["track_id"]] = $at["max_wind_m_s"]
      lat[$at["track_id"]] = $at["lat_deg"]
    }
    END {
      for (id in most) {
        half = 7.292e-5 * sqrt(sin(lat[id] * pi / 180) ^ 2) * radius_m
        before += most[id]
        after += sqrt(half ^ 2 + 1.05 ^ 2 * ((most[id] + half) ^ 2 - half ^ 2)) - half
      }
      printf "%.4f", after / before - 1
    }' present-truth/objects.csv
}
wind=$(imposed_wind)
# check TABLE QUANTITY CLASS IMPOSED
check() {
  low=$(value "$1" "$2" "$3" relative_low) high=$(value "$1" "$2" "$3" relative_high)
  verdict=$(awk -v low="$low" -v high="$high" -v x="$4" 'BEGIN { print (low != "" && low <= x && x <= high) ? "inside" : "OUTSIDE" }')
  echo "$1: $3 $2: imposed $4, found $(value "$1" "$2" "$3" relative_change), 95 % interval $low to $high: $verdict"
  [ "$verdict" = inside ] || [ "$1" != changes-truth/changes.csv ] || status=1
}
sources=(truth deepcam tempest percentile)
[ "$steps" -eq 0 ] || sources+=(network)
for source in "${sources[@]}"; do
  "$squall" compare "present-$source" "plus2k-$source" --calendar noleap --label-a present --label-b plus2k \
    --out "changes-$source" --title "Two degrees warmer, by $source" > "changes-$source.txt"
  if [ "$source" != percentile ]; then # knows no cyclones
    check "changes-$source/changes.csv" tracks tropical_cyclone -0.1
    check "changes-$source/changes.csv" max_wind tropical_cyclone "$wind"
  fi
  check "changes-$source/changes.csv" tracks atmospheric_river 0.2
done
exit $status
