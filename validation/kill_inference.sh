#!/usr/bin/env bash
# An inference on one to four ranks, killed at random, beside one that is left alone: the same bytes, although each time another
# number of ranks continues it.
# usage: validation/kill_inference.sh OUT [KILLS]
#   OUT    a folder for the runs
#   KILLS  how often a random rank is killed; 20 if not given
set -euo pipefail
mkdir -p "$1"
out=$(realpath "$1")
kills=${2:-20}
cd "$(dirname "$0")/.."
. validation/program.sh
cd "$out"

if [ ! -f run/best.safetensors ]; then
  rm -rf fields labels store run
  "$squall" -q simulate --out fields --grid 32x64 --days 20 --hours 6 --seed 5
  "$squall" -q label fields --out labels
  "$squall" -q stage fields --labels labels --out store
  "$squall" -q train --recipe small --data store --out run --set training.steps=20 --set training.validate_every_steps=20 \
    --set network.width=0.1
fi
# A year in small files, so that there is something to kill.
[ -d year ] || "$squall" -q simulate --out year --grid 32x64 --days 365 --hours 6 --seed 6
infer() { # RANKS OUT
  echo mpirun -n "$1" "$squall" -q infer "$out/year" --model "$out/run/best.safetensors" --out "$2" --probabilities
}
rm -rf alone killed
started=$SECONDS
"$squall" -q infer year --model run/best.safetensors --out alone --probabilities
echo "alone: $(ls alone | grep -c '^masks') files, $((SECONDS - started)) s"

kill=0
while ((kill < kills)); do
  # Each start has another number of ranks; what it finishes stays.
  ranks=$((1 + RANDOM % 4))
  [ "$kill" -gt 0 ] || ranks=4
  $(infer "$ranks" "$out/killed") 2>>killed.log &
  job=$!
  sleep "0.$((RANDOM % 10))"
  sleep "$((1 + RANDOM % 2)).$((RANDOM % 10))"
  mapfile -t found < <(pgrep -f "^$squall -q infer .*--out $out/killed" || true)
  if [ ${#found[@]} -gt 0 ]; then
    victim=${found[RANDOM % ${#found[@]}]}
    if kill -9 "$victim" 2>/dev/null; then
      kill=$((kill + 1))
      echo "kill $kill: one of $ranks ranks, $(ls killed 2>/dev/null | grep -c '^masks' || true) files are there"
    fi
  fi
  if wait "$job"; then
    # It ended before the kill: a new folder, so that all kills meet work.
    cmp alone/manifest.json killed/manifest.json
    [ "$kill" -ge "$kills" ] || rm -rf killed
  fi
done
$(infer 3 "$out/killed")
compared=0
for file in alone/*; do
  cmp "$file" "killed/$(basename "$file")"
  compared=$((compared + 1))
done
[ "$(ls alone | wc -l)" -eq "$(ls killed | wc -l)" ]
[ -z "$(find killed -name '.claims-*' -o -name '*.tmp')" ]
echo "$kill kills: $compared files, the same bytes"
