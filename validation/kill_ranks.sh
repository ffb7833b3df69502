#!/usr/bin/env bash
# Kills random ranks of a training on four ranks under `squall supervise`: it must end with the bits of an undisturbed one.
# usage: validation/kill_ranks.sh OUT [KILLS]
#   OUT    a folder for the runs
#   KILLS  number of kills (default 20)
set -euo pipefail
mkdir -p "$1"
out=$(realpath "$1")
kills=${2:-20}
cd "$(dirname "$0")/.."
. validation/program.sh
cd "$out"

# Each command keeps complete output; the folder's existence alone may mean half of it.
"$squall" -q simulate --out run --grid 32x64 --days 20 --hours 6 --seed 5
"$squall" -q label run --out labels
"$squall" -q stage run --labels labels --out store
train=(mpirun -n 4 "$squall" -q train --recipe small --data "$out/store"
  --set distributed.global_batch=4 --set training.steps=$((200 * kills)) --set training.validate_every_steps=$((60 * kills))
  --set training.checkpoint_every_steps=5 --set distributed.check_every_steps=20 --set network.width=0.1)
rm -rf alone killed
"${train[@]}" --out "$out/alone"

"$squall" supervise --tries 40 --pause 0.5 -- "${train[@]}" --out "$out/killed" &
supervisor=$!
kill=0
while ((kill < kills)) && kill -0 "$supervisor" 2>/dev/null; do
  sleep "$((2 + RANDOM % 5)).$((RANDOM % 10))"
  mapfile -t ranks < <(pgrep -f "^$squall -q train .*--out $out/killed" || true)
  [ ${#ranks[@]} -gt 0 ] || continue
  victim=${ranks[RANDOM % ${#ranks[@]}]}
  if kill -9 "$victim" 2>/dev/null; then
    kill=$((kill + 1))
    echo "kill $kill: process $victim"
  fi
done
wait "$supervisor"
for file in last.safetensors best.safetensors metrics.jsonl; do
  cmp "alone/$file" "killed/$file"
  echo "$file: the same bytes"
done
[ "$kill" -eq "$kills" ] || { echo "kill_ranks: the run ended after $kill kills" >&2; exit 1; }
