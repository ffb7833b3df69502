#!/usr/bin/env bash
# Boxes from a tenth of the labels, with and without the fields that have none: validation/semi_supervised.sh OUT [SEEDS] [STEPS]
# Prints mAP on an unseen run for every seed; validation/loss_curves.py makes a page of the curves. SQUALL names the program, if it is built already.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:?a folder for the results}")
seeds=${2:-5}
steps=${3:-300}
. validation/program.sh
mkdir -p "$out"
run() { "$squall" -q "$@"; }
[ -d "$out/seen" ] || run simulate --out "$out/seen" --grid 96x144 --days 300 --hours 12 --seed 1
[ -d "$out/unseen" ] || run simulate --out "$out/unseen" --grid 96x144 --days 80 --hours 12 --seed 2
[ -d "$out/store" ] || run stage "$out/seen" --labels "$out/seen/truth" --out "$out/store"
common=(--set training.steps="$steps" --set training.validate_every_steps=100 --set "network.blocks=[3]" --set detection.labelled_share=0.1)
for ((seed = 1; seed <= seeds; seed++)); do
  same=("${common[@]}" --set seed="$seed" --set detection.labelled_seed="$seed")
  # As many labelled samples a step on both sides.
  declare -A ways=(
    [supervised]="--set training.batch=4"
    [semi]="--set training.batch=8 --set detection.unlabelled_per_batch=4 --set detection.loss.reconstruction=10.0"
  )
  for way in supervised semi; do
    at=$out/$way-$seed
    # shellcheck disable=SC2086 # words
    run train --recipe detect --data "$out/store" --out "$at" "${same[@]}" ${ways[$way]}
    run infer "$out/unseen" --model "$at/best.safetensors" --out "$at-boxes"
    run score --prediction "$at-boxes" --truth "$out/unseen/truth/boxes.csv" --json >"$at.json"
    python3 - "$way" "$seed" "$at.json" <<'PY'
import json, sys
way, seed, path = sys.argv[1:]
mean = json.load(open(path))["mean"]
print(f"{way} seed {seed}: mAP {mean['at_10']:.3f} at an overlap of 0.1, {mean['at_50']:.3f} at 0.5", flush=True)
PY
  done
done
