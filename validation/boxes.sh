#!/usr/bin/env bash
# Trains the small detectors, and the network of masks and boxes, on a synthetic run and scores their boxes on another one.
# usage: validation/boxes.sh OUT [STEPS] [SEEDS] [RECIPES]
#   OUT      a folder; a call that was stopped goes on, and what is there already is not computed again
#   STEPS    of each training (600)
#   SEEDS    how many (1), or a list in quotes
#   RECIPES  in quotes ("detect detect-dense masks-and-boxes")
# validation/box_scores.py makes a page of all seeds. SQUALL names the program, if it is built already.
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
# Each keeps what is there and whole; a folder alone may hold half a run.
run simulate --out "$out/seen" --grid 192x288 --days 300 --hours 12 --seed 1
run simulate --out "$out/unseen" --grid 192x288 --days 80 --hours 12 --seed 2
run stage "$out/seen" --labels "$out/seen/truth" --out "$out/store"
for seed in $seeds; do
  for recipe in $recipes; do
    at=$out/$recipe-$steps-$seed
    truth=$out/unseen/truth/boxes.csv
    # The last gives masks, too.
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
