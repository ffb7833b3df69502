#!/usr/bin/env bash
# Runs a century of 3-hourly fields through labels, events and statistics, and forty years of river masks through `squall
# events`, and measures memory and time of every decade. Memory must be flat: the peak of the last decade within 2 % of
# that of the first. Weather differs between decades, and so does memory, for the lows in progress; WEATHER=same gives all
# decades the weather of the first, to isolate accumulation. The rivers must be tracked in less than 2 GB.
# Fields are computed as they are read: on disk are only tables and, for the rivers, forty files of masks.
# usage: validation/century.sh OUT [YEARS] [GRID] [HOURS] [RIVERS]
#   OUT     a folder
#   YEARS   of fields (default 100)
#   GRID    latitudes x longitudes of the fields (default 48x72)
#   HOURS   between two fields (default 3)
#   RIVERS  latitudes x longitudes of the river masks (default 361x576, every 6 hours)
# SQUALL and CENTURY are paths of programs that are already built: squall, and the example century of squall-climate.
set -euo pipefail
mkdir -p "$1"
out=$(realpath "$1")
years=${2:-100} grid=${3:-48x72} hours=${4:-3} rivers=${5:-361x576}
cd "$(dirname "$0")/.."
# With a heap per thread glibc's memory occasionally grows by a megabyte and a half, by chance, more than 2 %. And unless
# its thresholds are set, glibc adapts them to the requests, and keeps more and more freed memory.
export MALLOC_ARENA_MAX=1 MALLOC_MMAP_THRESHOLD_=65536 MALLOC_TRIM_THRESHOLD_=65536
[ -n "${CENTURY:-}" ] || cargo build --release -p squall-climate --example century
century=$(realpath "${CENTURY:-${CARGO_TARGET_DIR:-target}/release/examples/century}")
. validation/program.sh
cd "$out"

echo "fields of $grid, every $hours h, $years years: labels, events, statistics"
rm -rf events
# Fails if memory grew.
"$century" fields "${grid%x*}" "${grid#*x}" "$years" "$hours" events ${WEATHER:-} | tee fields.csv

echo "rivers of $rivers, every 6 h, 40 years: events, statistics"
# The file names their grid, so that masks of another grid are not measured instead.
if [ "$(cat rivers.done 2>/dev/null)" != "$rivers" ]; then
  rm -rf rivers.done rivers
  "$century" rivers "${rivers%x*}" "${rivers#*x}" 40 6 rivers
  echo "$rivers" > rivers.done
fi
rm -rf rivers-events
now() { date +%s.%N; }
# Resident and peak resident memory of a process, kB.
memory() { awk '/^VmRSS:/ { now = $2 } /^VmHWM:/ { most = $2 } END { if (most) print now "," most }' "/proc/$1/status" 2>/dev/null; }
started=$(now)
echo "unix_s,steps_done,resident_kb,peak_kb" > samples.csv
echo "$started,0,0,0" >> samples.csv
# It logs its progress every ten seconds and saves its state often, so these figures include the time of saving.
"$squall" events rivers --out rivers-events --save-every 0.5 --json > rivers.json 2> rivers.log &
process=$!
while kill -0 $process 2>/dev/null; do
  next=$(grep -o 'events: [0-9]*/' rivers.log | tail -1 | grep -o '[0-9]*' || true)
  if found=$(memory $process); then
    echo "$(now),${next:-0},$found" >> samples.csv
  fi
  sleep 0.2
done
wait $process || { cat rivers.log; exit 1; }
# The first sample of each tenth of the run.
steps=$((40 * 365 * 4))
awk -F, -v steps=$steps '
  NR == 1 { print "tenth,steps_done,ms_per_step,resident_kb,peak_kb"; next }
  NR == 2 { at = $1; done = 0; tenth = 1; next }
  $2 >= 0.99 * steps * tenth / 10 && $2 > done {
    printf "%d,%d,%.3f,%d,%d\n", tenth, $2, 1000 * ($1 - at) / ($2 - done), $3, $4
    at = $1; done = $2; tenth = int(10 * $2 / steps + 0.1) + 1
  }' samples.csv | tee rivers.csv
peak=$(awk -F, 'NR > 1 && $4 > most { most = $4 } END { print most + 0 }' samples.csv)
echo "$steps masks in $(awk -v a="$started" -v b="$(now)" 'BEGIN { printf "%.0f", b - a }') s, peak $((peak / 1024)) MB: $(tr -d '\n' < rivers.json)"
[ "$peak" -gt 0 ] && [ "$peak" -lt 2000000 ] || { echo "that is not below 2 GB"; exit 1; }
