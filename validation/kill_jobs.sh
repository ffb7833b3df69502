#!/usr/bin/env bash
# Runs labels, inference and events, the last two on several ranks, and repeatedly kills a random rank. The results must
# have the same bytes as undisturbed runs, although each restart may use another number of ranks.
# usage: validation/kill_jobs.sh OUT [KILLS] [JOBS] [RANKS]
#   OUT    a folder for the runs
#   KILLS  number of kills per job (default 20)
#   JOBS   in quotes (default "label infer events"); labels run in one process
#   RANKS  of every start (default: up to four, another number each time)
set -euo pipefail
mkdir -p "$1"
out=$(realpath "$1")
kills=${2:-20} jobs=${3:-label infer events} fixed=${4:-}
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
# A year in small files, so that kills hit work in progress; the tracker is faster and gets finer masks.
"$squall" -q simulate --out year --grid 32x64 --days 365 --hours 6 --seed 6
"$squall" -q simulate --out fine --grid 96x144 --days 365 --hours 6 --seed 7

# The command of JOB with output FOLDER, as the words of `call`.
words() { # JOB FOLDER
  case $1 in
    infer) call=("$squall" -q infer "$out/year" --model "$out/run/best.safetensors" --probabilities --out "$2") ;;
    label) call=("$squall" -q label "$out/fine" --save-every 0 --out "$2") ;;
    events) call=("$squall" -q events "$out/fine/truth" --fields "$out/fine" --save-every 0 --out "$2") ;;
    *) echo "error: there is no job $1" >&2 && exit 2 ;;
  esac
}

for job in $jobs; do
  alone=$out/$job-alone killed=$out/$job-killed
  rm -rf "$alone" "$killed"
  words "$job" "$alone"
  started=$(date +%s%N)
  "${call[@]}"
  took=$((($(date +%s%N) - started) / 1000000))
  echo "$job alone: $(ls "$alone" | wc -l) files, $took ms"
  kill=0 finished=0
  words "$job" "$killed"
  while ((kill < kills)); do
    ranks=${fixed:-$((1 + RANDOM % 4))}
    [ "$job" != label ] || ranks=1
    mpirun -n "$ranks" "${call[@]}" 2>>"$job.log" &
    start=$!
    # At a random time within, or shortly after, the undisturbed duration.
    sleep "$(printf '%d.%03d' $((took / 1000)) $((took % 1000)) | awk -v r=$RANDOM '{ print 0.3 + 1.2 * $1 * r / 32768 }')"
    mapfile -t found < <(pgrep -f "^$squall -q $job .*--out $killed" || true)
    if [ ${#found[@]} -gt 0 ] && kill -9 "${found[RANDOM % ${#found[@]}]}" 2>/dev/null; then
      kill=$((kill + 1))
      echo "kill $kill: one of $ranks ranks, $(ls -A "$killed" 2>/dev/null | wc -l) files are there"
    fi
    if wait "$start"; then
      # It ended before the kill: a new folder, so that every kill hits work in progress.
      diff -r -x .lock "$alone" "$killed"
      finished=$((finished + 1))
      [ "$kill" -ge "$kills" ] || rm -rf "$killed"
    fi
  done
  ranks=${fixed:-3}
  [ "$job" != label ] || ranks=1
  mpirun -n "$ranks" "${call[@]}"
  diff -r -x .lock "$alone" "$killed"
  [ -z "$(find "$killed" -name '.claims-*' -o -name '*.tmp')" ]
  echo "$job: $kill kills, $finished ends between them, $(ls "$alone" | wc -l) files with the same bytes"
done
