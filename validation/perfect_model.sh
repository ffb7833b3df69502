#!/usr/bin/env bash
# A perfect-model experiment: synthetic runs of `present` and `plus2k` through rules and a network, events and comparison.
# The 95 % intervals of the comparison must contain the changes that plus2k imposes (number of cyclones -10 %, the root of
# their deficits +5 %, rivers +20 %): for the true storms, for rules fitted to the grid, and for a network. By chance an
# interval misses its value once in twenty times, so some of the ten miss in two experiments of five
# (validation/tests/perfect_model.rs counts how often, over 200, for the true storms).
# Winds in gradient balance change by more than the root of the deficit, most in the wide vortices of a coarse grid: their
# imposed change is computed for the true storms, whose winds are those above the boundary layer. Masks have the winds of
# the lowest level, where friction leaves 78 % and the surroundings add an unchanged part: their imposed change is smaller.
# For masks the frequency of rivers is the share of the Earth under rivers, as in river catalogues: rivers that touch are
# one mask, also in the true masks. Its imposed change is computed from the true rivers.
# Rules with published thresholds are shown but not tested: thresholds are fixed while moisture and winds rise, so they
# find more rivers and lose fewer cyclones than there are.
# The network is trained on the true masks of three more years of either climate, with other storms, and the rules are
# fitted to these.
# Needs 35 GB of disk for 30 years; fields are deleted once their events are known. Both scenarios run at the same time.
# usage: validation/perfect_model.sh OUT [YEARS] [GRID] [HOURS]
#   OUT    a folder; an interrupted run continues, one with other years, grid, hours, seed or steps is refused
#   YEARS  of each scenario (default 30)
#   GRID   latitudes x longitudes (default 72x108)
#   HOURS  between two fields (default 12)
# KEEP=1 keeps the fields, SEED=N draws other storms, STEPS=N trains the network for N instead of 1600 steps (0: no
# network), and LEARN=N on N instead of three years of either climate.
set -euo pipefail
mkdir -p "$1"
out=$(realpath "$1")
years=${2:-30} grid=${3:-72x108} hours=${4:-12}
cd "$(dirname "$0")/.."
. validation/program.sh
cd "$out"

seed=${SEED:-11} steps=${STEPS:-1600} learn=${LEARN:-3}
# Existing results are reused, so those of other settings must be refused.
settings="$years years of $grid every $hours h, seed $seed, $steps steps on $learn years"
[ -e settings.txt ] || echo "$settings" > settings.txt
if [ "$(cat settings.txt)" != "$settings" ]; then
  echo "$out holds an experiment of $(cat settings.txt), not of $settings: give another folder" >&2
  exit 2
fi
if [ ! -e learn.done ]; then
  year=2000
  for scenario in present plus2k; do
    # One after the other, so that they are one time axis.
    "$squall" simulate --out "learn-$scenario" --grid "$grid" --hours "$hours" --years "$learn" --scenario "$scenario" \
      --seed $((seed + 1000 + year)) --start $year-01-01
    year=$((year + learn))
  done
  touch learn.done
fi

# recipe THICKNESS WATER: thresholds of the rules for this grid.
recipe() {
  printf '[cyclone]\nmin_vorticity_per_s = 1e-5\nwarm_core_fall_k = 0.1\npressure_rise_pa = 100.0\nthickness_fall_m = %.1f\n' "$1"
  # A grid of 300 km cannot resolve the width of a river.
  printf '[river]\nmin_damped_tmq_kg_m2 = %.2f\nmax_width_km = 10000.0\n' "$2"
}
# try THICKNESS WATER SCENARIO: for cyclone tracks hits, true, found and false ones; for rivers the IoU of masks.
try() {
  recipe "$1" "$2" > "fit-$3.toml"
  # An interrupted run left those of other thresholds.
  rm -rf "fit-$3" "fit-$3-events"
  "$squall" -q label "learn-$3" --thresholds "fit-$3.toml" --out "fit-$3" > /dev/null 2>&1
  "$squall" -q events "fit-$3" --fields "learn-$3" --min-wind 17 --out "fit-$3-events" > /dev/null
  "$squall" -q score --prediction "fit-$3-events" --truth "learn-$3/truth" 2> /dev/null |
    awk '/^[a-z_]* tracks from/ { on = /^tropical_cyclone/ } on && $1 == "all" { printf "%d,%d,%d,%d,", $3, $2, $4, $5 }'
  # In the table of pixels: that of boxes has rows of the same name.
  "$squall" -q score --prediction "fit-$3" --truth "learn-$3/truth" 2> /dev/null |
    awk '/^class +IoU / { on = 1 } on && $1 == "atmospheric_river" && !done++ { print $2 }'
}
# Mean column water in the training years, kg m-2.
mean_water() {
  "$squall" -q stage "learn-$1" --labels "learn-$1/truth" --out "water-$1" > /dev/null
  grep -o '"mean": *[0-9.e+-]*' "water-$1/store.json" | awk 'NR == 1 { print $2 }' FS=:
  rm -rf "water-$1"
}
# Published thresholds are for a quarter of a degree. On coarse grids cyclones fail by the thickness of the core: take, of
# five values, the one with the most hits that has at most one false track in forty in either climate (more false tracks in
# one of them would look like a change). Rivers are cells with more than a threshold of water, fitted to the masks of the
# present; in another climate it scales with the mean water.
if [ ! -e fitted.done ]; then
  echo "thickness_fall_m,water_kg_m2,$(for of in present plus2k; do printf '%s,' hits_$of true_$of found_$of false_$of river_iou_$of; done)" > fit.csv
  for pair in "2 16" "5 17" "10 18" "20 19" "50 20"; do
    try $pair plus2k > fit.plus2k &
    other=$!
    try $pair present > fit.present
    wait $other
    echo "${pair/ /,},$(paste -d, fit.present fit.plus2k)" | tee -a fit.csv
  done
  rm -rf fit-* fit.present fit.plus2k
  thickness=$(awk -F, 'NR > 1 && 40 * $6 <= $5 && 40 * $11 <= $10 && $3 + $8 > most { most = $3 + $8; best = $1 } END { print best }' fit.csv)
  water=$(awk -F, 'NR > 1 && $7 > most { most = $7; best = $2 } END { print best }' fit.csv)
  [ -n "$thickness" ] && [ -n "$water" ] || { echo "no thresholds fit"; exit 1; }
  ratio=$(awk -v a="$(mean_water present)" -v b="$(mean_water plus2k)" 'BEGIN { print b / a }')
  recipe "$thickness" "$water" > fitted-present.toml
  recipe "$thickness" "$(awk -v a="$water" -v b="$ratio" 'BEGIN { print a * b }')" > fitted-plus2k.toml
  touch fitted.done
  echo "fitted to the grid: thickness_fall_m = $thickness, min_damped_tmq_kg_m2 = $water, times $ratio in plus2k"
fi
if [ "$steps" -gt 0 ] && [ ! -e model.done ]; then
  ls learn-*/*.nc > learn.txt
  ls learn-*/truth/*.nc > learn-truth.txt
  "$squall" stage learn.txt --labels learn-truth.txt --out store
  "$squall" train --recipe small --data store --out model --set training.steps="$steps" --set training.batch=8 \
    --set training.validate_every_steps=$(((steps + 3) / 4))
  touch model.done
fi
rm -rf learn-present learn-plus2k store

# run SCENARIO SEED: from fields to events by every source. A cyclone reaches 17 m/s, like a tropical storm.
run() {
  "$squall" simulate --out "$1" --grid "$grid" --years "$years" --hours "$hours" --scenario "$1" --seed "$2"
  "$squall" label "$1" --method deepcam,tempest,percentile --out "$1-labels"
  "$squall" label "$1" --thresholds "fitted-$1.toml" --out "$1-labels/fitted"
  for rules in deepcam tempest percentile fitted; do
    "$squall" events "$1-labels/$rules" --fields "$1" --min-wind 17 --out "$1-$rules"
  done
  "$squall" events "$1/truth" --fields "$1" --min-wind 17 --out "$1-true-masks"
  if [ "$steps" -gt 0 ]; then
    "$squall" infer "$1" --model model/best.safetensors --out "$1-masks" --file-per month
    "$squall" events "$1-masks" --fields "$1" --min-wind 17 --out "$1-network"
  fi
  mkdir -p "$1-truth"
  cp "$1/truth/objects.csv" "$1/truth/tracks.csv" "$1-truth"
  touch "$1.done"
  [ -n "${KEEP:-}" ] || rm -rf "$1" "$1-labels" "$1-masks"
}
# Not `[ -e ... ] || run ...`: set -e would not apply inside run.
if [ ! -e plus2k.done ]; then run plus2k $((seed + 2)) > plus2k.log 2>&1; fi &
other=$!
if [ ! -e present.done ]; then run present $((seed + 1)); fi
wait $other || { tail -3 plus2k.log; exit 1; }

status=0
# value TABLE QUANTITY CLASS COLUMN
value() { awk -F, -v q="$2" -v c="$3" -v n="$4" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == n) k = i }
  $1 == q && $2 == c && $3 == "all" && $4 == "all" { print $k }' "$1"; }
# The change in the mean strongest wind V of the true storms of `present` if deficits grow by 5 % twice, relative and in
# m/s: V² + f r V is proportional to the deficit, at the radius of maximum wind, on a coarse grid 1.15 times its spacing.
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
      printf "%.4f %.4f\n", after / before - 1, (after - before) / length(most)
    }' present-truth/objects.csv
}
# The relative change in the area under rivers: a fifth more rivers, times the hours for which each true one lasts. A river
# lasts while its axis has 18 kg m-2 more than its surroundings, so moister ones last longer; a threshold that scales with
# the moisture does not include that.
imposed_cover() {
  cat present-truth/objects.csv plus2k-truth/objects.csv | awk -F, '
    $1 == "class" { run++; for (k = 1; k <= NF; k++) at[$k] = k; next }
    $1 == "atmospheric_river" {
      area[run] += $at["area_km2"]
      if (!((run, $at["track_id"]) in seen)) rivers[run]++
      seen[run, $at["track_id"]] = 1
    }
    END { printf "%.4f", 1.2 * (area[2] / rivers[2]) / (area[1] / rivers[1]) - 1 }'
}
cover=$(imposed_cover)
# check SOURCE QUANTITY CLASS IMPOSED [JUDGED]: with a fifth word, fail if the interval does not contain the imposed change.
check() {
  table=changes-$1/changes.csv
  low=$(value "$table" "$2" "$3" relative_low) high=$(value "$table" "$2" "$3" relative_high)
  verdict=$(awk -v low="$low" -v high="$high" -v x="$4" 'BEGIN { print (low != "" && low <= x && x <= high) ? "inside" : "OUTSIDE" }')
  echo "$1: $3 $2: imposed $4, found $(value "$table" "$2" "$3" relative_change), 95 % interval $low to $high: $verdict${5:+, judged}"
  [ "$verdict" = inside ] || [ -z "${5:-}" ] || status=1
}
sources=(truth true-masks deepcam tempest fitted percentile)
[ "$steps" -eq 0 ] || sources+=(network)
for source in "${sources[@]}"; do
  "$squall" compare "present-$source" "plus2k-$source" --calendar noleap --label-a present --label-b plus2k \
    --out "changes-$source" --title "Two degrees warmer, by $source" > "changes-$source.txt"
done
read -r wind wind_m_s < <(imposed_wind)
# At the lowest level (FRICTION in data/src/synthetic/fields.rs), relative to the mean of the true masks' tracks in `present`.
lowest_wind=$(awk -v more="$wind_m_s" -v mean="$(value changes-true-masks/changes.csv max_wind tropical_cyclone a)" 'BEGIN { printf "%.4f", 0.78 * more / mean }')
# cyclones SOURCE WIND [JUDGED]
cyclones() {
  check "$1" tracks tropical_cyclone -0.1 "${3:-}"
  check "$1" max_wind tropical_cyclone "$2" "${3:-}"
}
cyclones truth "$wind" judged
check truth tracks atmospheric_river 0.2 judged
for source in true-masks deepcam tempest; do
  cyclones $source "$lowest_wind"
done
cyclones fitted "$lowest_wind" judged
[ "$steps" -eq 0 ] || cyclones network "$lowest_wind" judged
for source in true-masks deepcam tempest percentile fitted network; do
  [ "$source" != network ] || [ "$steps" -gt 0 ] || continue
  check $source tracks atmospheric_river 0.2
  case $source in
    true-masks | network) check $source cover atmospheric_river "$cover" judged ;;
    fitted) check $source cover atmospheric_river 0.2 judged ;;
    *) check $source cover atmospheric_river 0.2 ;;
  esac
done
exit $status
