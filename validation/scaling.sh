#!/usr/bin/env bash
# Training on several ranks of this machine: weak scaling, loss curves of 1, 2 and 4 ranks on one page, and how much of the
# communication between two shaped hosts the computation hides.
# usage: validation/scaling.sh OUT
#   OUT    a folder for the runs, scaling.md, curves.html and curves.svg
# The last part needs root for network namespaces (validation/netlab.sh); without it says why it is missing.
set -euo pipefail
mkdir -p "$1"
out=$(realpath "$1")
cd "$(dirname "$0")/.."
netlab=$PWD/validation/netlab.sh
plot=$PWD/validation/rank_curves.py
recipes=$PWD/jobs/recipes
. validation/program.sh
cd "$out"

if [ ! -d store ]; then
  "$squall" -q simulate --out fields --grid 96x144 --days 20 --hours 6 --seed 5
  "$squall" -q label fields --out labels
  "$squall" -q stage fields --labels labels --out store
fi
train=("$squall" -q train --recipe small --data "$out/store" --json --set training.validate_every_steps=1000000)
# A value of the summary of a run, the last line of its log that is one.
of() { python3 -c "import json,sys; v=json.load(open('$1.json'))
for k in '$2'.split('.'): v=v[k]
print(v)"; }
table=$out/scaling.md
say() { echo "$*" | tee -a "$table"; }
: >"$table"
say "$(nproc) cores, $(date +%F), $("$squall" version 2>/dev/null | head -1)"

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
    --set training.validate_every_steps=50 --set network.batch_norm=true --set "distributed.norm_ranks=$ranks" >"ranks$ranks.json"
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
# Two hosts with a rank each. The link is shaped so that a step's sums take as long as what can hide them.
train_in_lab() { # NAME RECIPE [SETTING]...
  local name=$1 recipe=$2
  shift 2
  rm -rf "$name"
  sed '/^epochs *=/d' "$recipes/$recipe.toml" >"$recipe.toml" # steps are given instead
  "$netlab" run -n 2 "$squall" -q train --recipe "$out/$recipe.toml" --data "$out/store" --json --out "$out/$name" \
    --set training.batch=1 --set training.steps=60 --set training.validate_every_steps=1000000 \
    --set distributed.bucket_mb=0.1 --set distributed.check_every_steps=1000 "$@" >"$name.json"
}
hide() { # RECIPE LAG PARTS-OF-A-STEP
  local recipe=$1 lag=$2 parts=$3 rate
  "$netlab" rate 10gbit
  train_in_lab "free-$recipe" "$recipe"
  rate=$(python3 - <<PY
import json
parameters = json.load(open("free-$recipe/run.json"))["plan"]["parameters"]
spent = json.load(open("free-$recipe.json"))["spent"]
print(int(8e-3 * 4 * parameters * 60 / sum(spent[part] for part in "$parts".split())))
PY
)
  "$netlab" rate "${rate}kbit"
  train_in_lab "$recipe-lag$lag" "$recipe" --set "distributed.gradient_lag=$lag"
  python3 - <<PY | tee -a "$table"
import json
spent = json.load(open("$recipe-lag$lag.json"))["spent"]
compute, backward, sums, waited = (
    1e3 / 60 * sum(spent[part] for part in parts)
    for parts in (("forward", "backward", "update"), ("backward",), ("communication",), ("exchange",))
)
print(f"| $recipe, $lag | $rate kbit/s | {compute:.0f} ms, {backward:.0f} ms of it backward | {sums:.0f} ms | {waited:.1f} ms | {100 * (1 - waited / sums):.1f} % |")
PY
}
say ""
say "| recipe, gradient lag | link | computing of a step | communication | of it not hidden | hidden |"
say "|---|---|---|---|---|---|"
hide small 0 backward
hide cgnet 0 backward
hide small 1 "forward backward update"
hide cgnet 1 "forward backward update"
