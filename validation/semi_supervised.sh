#!/usr/bin/env bash
# Boxes from a tenth of the labels, with and without the fields that have none.
# usage: validation/semi_supervised.sh OUT [SEEDS] [STEPS] [LAMBDAS]
#   OUT      a folder; what is there already is not computed again
#   SEEDS    how many (5)
#   STEPS    of each training (300)
#   LAMBDAS  weights of the reconstruction in the loss, in quotes (0 10); 0 is without the fields that have no labels
# Prints mAP on an unseen run for every seed; validation/loss_curves.py makes a page of the curves. SQUALL names the program, if it is built already.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:?a folder for the results}")
seeds=${2:-5}
steps=${3:-300}
lambdas=${4:-0 10}
. validation/program.sh
mkdir -p "$out"
run() { "$squall" -q "$@"; }
[ -d "$out/seen" ] || run simulate --out "$out/seen" --grid 96x144 --days 300 --hours 12 --seed 1
[ -d "$out/unseen" ] || run simulate --out "$out/unseen" --grid 96x144 --days 80 --hours 12 --seed 2
[ -d "$out/store" ] || run stage "$out/seen" --labels "$out/seen/truth" --out "$out/store"
common=(--set training.steps="$steps" --set training.validate_every_steps=100 --set "network.blocks=[3]" --set detection.labelled_share=0.1)
for ((seed = 1; seed <= seeds; seed++)); do
  same=("${common[@]}" --set seed="$seed" --set detection.labelled_seed="$seed")
  for lambda in $lambdas; do
    at=$out/lambda$lambda-$seed
    # As many labelled samples a step with and without the others.
    ways=(--set training.batch=4)
    [ "$lambda" = 0 ] || ways=(--set training.batch=8 --set detection.unlabelled_per_batch=4 --set detection.loss.reconstruction="$lambda.0")
    if [ ! -e "$at.json" ]; then
      run train --recipe detect --data "$out/store" --out "$at" "${same[@]}" "${ways[@]}"
      run infer "$out/unseen" --model "$at/best.safetensors" --out "$at-boxes"
      run score --prediction "$at-boxes" --truth "$out/unseen/truth/boxes.csv" --json >"$at.json.part"
      mv "$at.json.part" "$at.json"
    fi
    python3 - "$lambda" "$seed" "$at.json" <<'PY'
import json, sys
lamb, seed, path = sys.argv[1:]
mean = json.load(open(path))["mean"]
print(f"lambda {lamb}, seed {seed}: mAP {mean['at_10']:.3f} at an overlap of 0.1, {mean['at_50']:.3f} at 0.5", flush=True)
PY
  done
done
