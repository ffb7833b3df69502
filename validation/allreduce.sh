#!/usr/bin/env bash
# Sums over ranks on shaped links and inside a node, compared with the MPI library's own, by default and with each of its
# algorithms forced.
# usage: validation/allreduce.sh OUT [REPEAT [ALGORITHMS]]
#   OUT          a folder for allreduce.md and logs
#   REPEAT       timed sums of each method (default 3)
#   ALGORITHMS   numbers of the Open MPI algorithms to force (default "123456"); the first three take most of the time
# Needs root for network namespaces (validation/netlab.sh), and Open MPI. Exits with 1 if a sum failed.
set -euo pipefail
mkdir -p "$1"
out=$(realpath "$1")
repeat=${2:-3} algorithms=${3:-123456}
cd "$(dirname "$0")/.."
netlab=$PWD/validation/netlab.sh
. validation/program.sh
cd "$out"
table=$out/allreduce.md
: >"$table"
say() { echo "$*" | tee -a "$table"; }

# HEADING COMMAND...: a block of the table, a line per method.
measure() {
  local heading=$1; shift
  if ! timeout 900 "$@" --json >last.json 2>last.log; then
    say "| $heading | failed: $(tail -1 last.log) | | |"
    return
  fi
  python3 - "$heading" <<'PY' | tee -a "$table"
import json, sys
for row in json.load(open("last.json")):
    bound = row["ceiling_percent"]
    over = f"{100 / bound:.2f}" if bound else "-"
    ratio = f"{row['ratio']:.2f}" if row["ratio"] else "-"
    print(f"| {sys.argv[1]} | {row['name'].split(',')[0]} | {row['ours']:.3f} | {over} | {ratio} |")
PY
}
head_of() { # HEADING BOUND
  say ""
  say "$1"
  say ""
  say "| ranks | method | s | times $2 | faster than the library's best in this run by |"
  say "|---|---|---|---|---|"
}
bench=("$squall" -q bench allreduce --repeat "$repeat")

say "Open MPI $(mpirun --version | awk 'NR == 1 {print $NF}'), $(nproc) cores, $(date +%F)"
head_of "Inside a node, 43.67 million f32, five runs" "one pass of all ranks over their values"
for run in 1 2 3 4 5; do
  measure "4 in one node, run $run" mpirun -n 4 "${bench[@]}" --millions 43.67 --methods library,hierarchical,ring --wires f32
done

"$netlab" down 2>/dev/null || true
trap '"$netlab" down 2>/dev/null || true' EXIT
for shape in "4 8 100mbit 100" "2 12 100mbit 100"; do
  read -r hosts ranks rate mbit <<<"$shape"
  "$netlab" up "$hosts" "$rate"
  head_of "$hosts hosts, $ranks ranks, links of $mbit Mbit/s, 4.3 million values" "the link's bound"
  lab=("$netlab" run -n "$ranks")
  link=("${bench[@]}" --millions 4.3 --link-mbit "$mbit")
  for by in slot node; do
    measure "$hosts x $((ranks / hosts)) by $by" "${lab[@]}" -by "$by" "${link[@]}" --methods library,hierarchical,ring --wires f32
  done
  measure "$hosts x $((ranks / hosts)) by slot" "${lab[@]}" "${link[@]}" --methods hierarchical --wires f32,bf16,f16
  for forced in "1 linear" "2 nonoverlapping" "3 recursive doubling" "4 ring" "5 segmented ring" "6 rabenseifner"; do
    read -r number name <<<"$forced"
    [[ $algorithms == *$number* ]] || continue
    measure "$hosts x $((ranks / hosts)) by slot, library's $name" "${lab[@]}" -mca coll_tuned_use_dynamic_rules 1 \
      -mca coll_tuned_allreduce_algorithm "$number" "${link[@]}" --methods library,hierarchical --wires f32
  done
  "$netlab" down
done
! grep -q "| failed: " "$table"
