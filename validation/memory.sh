#!/usr/bin/env bash
# Compares peak memory of training steps and inference with the predictions of `squall summary` and of the program's plans.
# usage: validation/memory.sh [SIZE]
#   SIZE   rows and columns of a field (default 192x288)
# Exits with 1 if a prediction is off by more than 10 %.
set -euo pipefail
cd "$(dirname "$0")/.."
. validation/program.sh
size=${1:-192x288}
rows=$(mktemp)
trap 'rm -f "$rows"' EXIT
measure() { "$squall" -q bench "$1" --network "$2" --size "$size" --batch 1 --precision "$3" --repeat 1 --json "${@:4}" | tr -d '\n' >>"$rows"; echo >>"$rows"; }
for network in deeplabv3plus deepcam tiramisu cgnet; do
  for precision in f32 bf16; do
    for recompute in none norms blocks; do
      echo "$recompute" >>"$rows"
      measure step "$network" "$precision" --recompute "$recompute"
    done
    echo "" >>"$rows"
    measure infer "$network" "$precision"
  done
done
# Networks without recomputation.
for network in small detector-2d detector-2d-half detector-3d detector-15pf detector-dense; do
  for precision in f32 bf16; do
    for verb in step infer; do
      echo "" >>"$rows"
      measure "$verb" "$network" "$precision"
    done
  done
done
python3 - "$rows" <<'PY'
import json, sys
worst = 0.0
print("| | predicted MB | peak MB | off by |\n|---|---|---|---|")
lines = open(sys.argv[1]).read().split("\n")
for again, row in zip(lines[::2], lines[1::2]):
    row = json.loads(row)[0]
    off = row["predicted_mb"] / row["peak_mb"] - 1
    worst = max(worst, abs(off))
    again = f", {again} computed again" if again not in ("", "none") else ""
    print(f"| {row['name']}{again} | {row['predicted_mb']:.0f} | {row['peak_mb']:.0f} | {100 * off:+.1f} % |")
print(f"\nat most {100 * worst:.1f} % off")
sys.exit(worst > 0.1)
PY
