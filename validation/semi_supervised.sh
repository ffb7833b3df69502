#!/usr/bin/env bash
# Boxes from a tenth of the labels, with and without the unlabelled fields.
# usage: validation/semi_supervised.sh OUT [SEEDS] [STEPS] [WAYS] [GRID]
#   OUT    a folder; an interrupted run continues, and existing results are reused
#   SEEDS  their number (default 5), or a list in quotes; each draws another tenth
#   STEPS  of each training (default 1500)
#   WAYS   in quotes (default "supervised longer self-training lambda1 lambda10"):
#          supervised     only the labels
#          longer         the same for twice as many steps, as many as teacher and student together
#          self-training  also boxes that the network of `supervised` finds in the other fields, at a confidence of 0.5
#          lambdaL        also the reconstruction of the other fields, with weight L (arXiv:1612.02095)
#   GRID   default 192x288
# All ways have the same number of labelled samples per step. Prints mAP on an unseen run for every seed;
# validation/loss_curves.py makes a page of all. SQUALL is the path of a program that is already built.
set -euo pipefail
out=$(realpath -m "${1:?a folder for the results}")
cd "$(dirname "$0")/.."
seeds=${2:-5}
steps=${3:-1500}
ways=${4:-supervised longer self-training lambda1 lambda10}
grid=${5:-192x288}
[[ $seeds == *" "* ]] || seeds=$(seq 1 "$seeds")
. validation/program.sh
mkdir -p "$out"
run() { "$squall" -q "$@"; }
# Each command keeps complete output; the folder's existence alone may mean half a run.
run simulate --out "$out/seen" --grid "$grid" --days 300 --hours 12 --seed 1
run simulate --out "$out/unseen" --grid "$grid" --days 80 --hours 12 --seed 2
run stage "$out/seen" --labels "$out/seen/truth" --out "$out/store"
# Cells have the same size in degrees on every grid.
case $grid in 192x288) blocks=4 ;; 96x144) blocks=3 ;; *) echo "error: GRID is 192x288 or 96x144" >&2 && exit 2 ;; esac

# WAY SEED: trains and scores; prints nothing if done before.
try() {
  local way=$1 seed=$2 at="$out/$1-$steps-$2" count=$steps how
  [ ! -e "$at.json" ] || return 0
  local beside=(--set training.batch=8 --set detection.unlabelled_per_batch=4)
  case $way in
    supervised) how=(--set training.batch=4) ;;
    longer) how=(--set training.batch=4) && count=$((2 * steps)) ;;
    self-training)
      try supervised "$seed"
      local teacher="$out/supervised-$steps-$seed"
      run infer "$out/store" --split train --model "$teacher/best.safetensors" --out "$teacher-seen"
      how=("${beside[@]}" --set "detection.pseudo_labels=\"$teacher-seen/boxes.csv\"" --set detection.pseudo_min_confidence=0.5)
      ;;
    lambda*) how=("${beside[@]}" --set detection.loss.reconstruction="${way#lambda}") ;;
    *) echo "error: there is no way $way" >&2 && exit 2 ;;
  esac
  run train --recipe detect --data "$out/store" --out "$at" --set training.steps="$count" --set "network.blocks=[$blocks]" \
    --set training.validate_every_steps=$((count / 6)) --set detection.labelled_share=0.1 --set detection.labelled_seed="$seed" \
    --set seed="$seed" "${how[@]}"
  run infer "$out/unseen" --model "$at/best.safetensors" --out "$at-boxes"
  run score --prediction "$at-boxes" --truth "$out/unseen/truth/boxes.csv" --json >"$at.json.part"
  mv "$at.json.part" "$at.json"
}

for seed in $seeds; do
  for way in $ways; do
    try "$way" "$seed"
    python3 - "$way" "$seed" "$out/$way-$steps-$seed.json" <<'PY'
import json, sys
way, seed, path = sys.argv[1:]
mean = json.load(open(path))["mean"]
print(f"{way}, seed {seed}: mAP {mean['at_10']:.3f} at an overlap of 0.1, {mean['at_50']:.3f} at 0.5", flush=True)
PY
  done
done
