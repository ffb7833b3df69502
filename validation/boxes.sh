#!/usr/bin/env bash
# Trains the small detectors, and the network with masks and boxes, on a synthetic run and scores their boxes on another.
# usage: validation/boxes.sh OUT [STEPS] [SEEDS] [RECIPES]
#   OUT      a folder; an interrupted run continues, and existing results are reused
#   STEPS    of each training (default 600)
#   SEEDS    their number (default 1), or a list in quotes
#   RECIPES  in quotes (default "detect detect-dense masks-and-boxes")
# validation/box_scores.py makes a page of all seeds. SQUALL is the path of a program that is already built.
set -euo pipefail
out=$(realpath -m "${1:?a folder for the results}")
cd "$(dirname "$0")/.."
steps=${2:-600}
seeds=${3:-1}
recipes=${4:-detect detect-dense masks-and-boxes}
[[ $seeds == *" "* ]] || seeds=$(seq 1 "$seeds")
. validation/program.sh
mkdir -p "$out"
run() { "$squall" -q "$@"; }
# Each command keeps complete output; the folder's existence alone may mean half a run.
run simulate --out "$out/seen" --grid 192x288 --days 300 --hours 12 --seed 1
run simulate --out "$out/unseen" --grid 192x288 --days 80 --hours 12 --seed 2
run stage "$out/seen" --labels "$out/seen/truth" --out "$out/store"
for seed in $seeds; do
  for recipe in $recipes; do
    at=$out/$recipe-$steps-$seed
    truth=$out/unseen/truth/boxes.csv
    # The last one also has masks.
    [ "$recipe" != masks-and-boxes ] || truth=$out/unseen/truth
    if [ ! -e "$at.json" ]; then
      run train --recipe "$recipe" --data "$out/store" --out "$at" --set seed="$seed" \
        --set training.steps="$steps" --set training.validate_every_steps=$((steps / 4))
      run infer "$out/unseen" --model "$at/best.safetensors" --out "$at-boxes"
      run score --prediction "$at-boxes" --truth "$truth" --json >"$at.json.part"
      mv "$at.json.part" "$at.json"
    fi
    echo "== $recipe, $steps steps, seed $seed"
    run score --prediction "$at-boxes" --truth "$truth"
  done
done
