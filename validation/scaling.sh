#!/usr/bin/env bash
# Training on several ranks of this machine: weak scaling, loss curves of 1, 2 and 4 ranks on one page, and the share of
# communication between two shaped hosts that is hidden by computation.
# usage: validation/scaling.sh OUT
#   OUT    a folder for the runs, scaling.md, curves.html and curves.svg
# The last part needs root for network namespaces (validation/netlab.sh); without it, it says why it is missing.
set -euo pipefail
mkdir -p "$1"
out=$(realpath "$1")
cd "$(dirname "$0")/.."
netlab=$PWD/validation/netlab.sh
plot=$PWD/validation/rank_curves.py
hidden=$PWD/validation/hidden.py
recipes=$PWD/jobs/recipes
. validation/program.sh
cd "$out"

# Each command keeps complete output; the folder's existence alone may mean half of it.
"$squall" -q simulate --out fields --grid 96x144 --days 20 --hours 6 --seed 5
"$squall" -q label fields --out labels
"$squall" -q stage fields --labels labels --out store
train=("$squall" -q train --recipe small --data "$out/store" --json --set training.validate_every_steps=1000000)
# A value of a run's summary.
of() { python3 -c "import json,sys; v=json.load(open('$1.json'))
for k in '$2'.split('.'): v=v[k]
print(v)"; }
table=$out/scaling.md
say() { echo "$*" | tee -a "$table"; }
: >"$table"
say "$(nproc) cores, $(date +%F), $("$squall" --version | head -1)"

say ""
say "A core for each rank, as long as there are cores; a sample for each rank and step."
say ""
say "| ranks | samples/s | of one rank's, times cores | of the time waiting for others | GFLOP/s |"
say "|---|---|---|---|---|"
for ranks in 1 2 4; do
  rm -rf "weak$ranks"
  cores=$((ranks < $(nproc) ? ranks : $(nproc)))
  mpirun -n "$ranks" taskset -c "0-$((cores - 1))" "${train[@]}" --out "weak$ranks" --set training.batch=1 --set training.steps=60 >"weak$ranks.json"
  say "| $ranks | $(of "weak$ranks" balance.samples_per_second | cut -c1-5) | $(python3 -c "print('%.0f %%' % (100*$(of "weak$ranks" balance.samples_per_second)/$cores/$(of weak1 balance.samples_per_second)))") | $(python3 -c "print('%.0f %%' % (100*$(of "weak$ranks" spent.exchange)/$(of "weak$ranks" seconds)))") | $(python3 -c "print('%.1f' % ($(of "weak$ranks" balance.flops_per_second)/1e9))") |"
done

curves=()
for ranks in 1 2 4; do
  rm -rf "ranks$ranks"
  mpirun -n "$ranks" "${train[@]}" --out "ranks$ranks" --set distributed.global_batch=4 --set training.steps=200 \
    --set precision=f32 --set training.validate_every_steps=50 --set network.batch_norm=true --set distributed.norm_ranks=0 >"ranks$ranks.json"
  curves+=(--training "$ranks rank$([ "$ranks" = 1 ] || echo s)=ranks$ranks")
done
"$squall" report labels --out curves.html --frames 8 "${curves[@]}" --title "Training on 1, 2 and 4 ranks" \
  --about "A global batch of 4, the same samples in the same order, batch statistics over all ranks."
python3 "$plot" . curves.svg
say ""
say "Loss beside that of one rank, with a global batch of 4 (curves.html, curves.svg): $(python3 - <<'PY'
import json
def losses(ranks):
    lines = map(json.loads, open(f"ranks{ranks}/metrics.jsonl"))
    return [l["loss"] for l in lines if l["kind"] == "step"]
one = losses(1)
mean = lambda values: sum(values[-50:]) / 50
print("; ".join(f"{n} ranks: the first off by {abs(one[0] - losses(n)[0]) / one[0]:.0e}, the mean of the last 50 of 200 is "
                f"{mean(losses(n)):.4f} ({mean(one):.4f})" for n in (2, 4)))
PY
)"

"$netlab" down 2>/dev/null || true
trap '"$netlab" down 2>/dev/null || true' EXIT
if ! "$netlab" up 2 10gbit 2>lab.log; then
  say "Hidden communication: not tried: $(tail -1 lab.log)"
  exit 0
fi
# Two hosts with a rank and a core each. The link is shaped so that a step's sums take as long as the part that can hide them.
steps=45
train_in_lab() { # NAME RECIPE [SETTING]...
  local name=$1 recipe=$2
  shift 2
  rm -rf "$name"
  sed '/^epochs *=/d' "$recipes/$recipe.toml" >"$recipe.toml" # steps are given instead
  "$netlab" run -n 2 "$squall" -q train --recipe "$out/$recipe.toml" --data "$out/store" --json --out "$out/$name" \
    --set training.batch=8 --set "training.steps=$steps" --set "training.trace_steps=$steps" \
    --set training.validate_every_steps=1000000 --set training.checkpoint_every_steps=1000000 \
    --set distributed.bucket_mb=0.1 --set distributed.check_every_steps=1000 "$@" >"$name.json"
}
hide() { # NAME RECIPE LAG PARTS-OF-A-STEP [SETTING]...
  local name=$1 recipe=$2 lag=$3 parts=$4 run=${1// /-}-lag$3 rate next try
  shift 4
  "$netlab" rate 10gbit
  train_in_lab free "$recipe" "$@"
  rate=$(python3 "$hidden" rate free "$parts")
  # Computation takes another time with messages than without: adapt the rate until both take equally long.
  for try in 1 2 3 4; do
    "$netlab" rate "${rate}kbit"
    train_in_lab "$run" "$recipe" --set "distributed.gradient_lag=$lag" "$@"
    next=$(python3 "$hidden" rate "$run" "$parts" "$rate")
    [ "$next" != "$rate" ] && [ "$try" -lt 4 ] || break
    rate=$next
  done
  say "$(python3 "$hidden" row "$run" "$name, $lag" "$rate")"
}
say ""
say "| network, gradient lag | link | computing of a step | communication | of it not hidden | hidden | at most, in the order in which gradients come |"
say "|---|---|---|---|---|---|---|"
bilinear=(--set network.name=deeplabv3plus-bilinear)
hide small small 0 backward
hide cgnet cgnet 0 backward
hide "small, bilinear decoder" small 0 backward "${bilinear[@]}"
hide small small 1 "forward backward update"
hide cgnet cgnet 1 "forward backward update"
hide "small, bilinear decoder" small 1 "forward backward update" "${bilinear[@]}"
