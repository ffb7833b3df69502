#!/usr/bin/env bash
# Trains the small detectors, and the network of masks and boxes, on a synthetic run and scores their boxes on another one: validation/boxes.sh OUT [STEPS]
# SQUALL names the program, if it is built already.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:?a folder for the results}")
steps=${2:-600}
. validation/program.sh
mkdir -p "$out"
run() { "$squall" -q "$@"; }
[ -d "$out/seen" ] || run simulate --out "$out/seen" --grid 192x288 --days 300 --hours 12 --seed 1
[ -d "$out/unseen" ] || run simulate --out "$out/unseen" --grid 192x288 --days 80 --hours 12 --seed 2
[ -d "$out/store" ] || run stage "$out/seen" --labels "$out/seen/truth" --out "$out/store"
for recipe in detect detect-dense masks-and-boxes; do
  run train --recipe "$recipe" --data "$out/store" --out "$out/$recipe" \
    --set training.steps="$steps" --set training.validate_every_steps=150
  run infer "$out/unseen" --model "$out/$recipe/best.safetensors" --out "$out/$recipe-boxes"
  echo "== $recipe, $steps steps"
  truth=$out/unseen/truth/boxes.csv
  # The last gives masks, too.
  [ "$recipe" != masks-and-boxes ] || truth=$out/unseen/truth
  run score --prediction "$out/$recipe-boxes" --truth "$truth"
done
