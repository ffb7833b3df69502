#!/usr/bin/env bash
# Checks the log of `squall train --mllog` with MLPerf's checker: a small network on synthetic fields, interrupted once,
# with a low target. This network cannot reach the benchmark's target, a mean IoU of 0.82: the checker gets a copy of the log in
# which scores, sample counts and the division are replaced by the benchmark's, so that its strict rules apply to the
# rest.
# usage: validation/mllog.sh VENV
#   VENV  a folder for a Python environment with the checker (PyPI: mlperf-logging), and for the run; created if missing
set -euo pipefail
venv=$(realpath -m "$1")
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install -q mlperf-logging
cd "$(dirname "$0")/.."
. validation/program.sh
cd "$venv"
rm -rf run
mkdir run
cd run
"$squall" -q simulate --out fields --grid 48x72 --days 30 --hours 12
"$squall" -q label fields --out labels
"$squall" -q stage fields --labels labels --out store
train() {
  "$squall" -q train --recipe small --data store --out model --mllog result_0.txt --set training.epochs=20 \
    --set training.best_by=sample_mean_iou --set training.target_score=0.55 --set optimiser.epsilon=1e-6 "$@"
}
code=0
train --set training.max_seconds=1 || code=$?
[ "$code" -eq 75 ] || { echo "mllog: the first part ended with $code, not stopped (75)" >&2; exit 1; }
train
grep -q '"key": "run_stop".*"status": "success"' result_0.txt
replaced=()
for key_value in eval_accuracy=0.82 train_samples=121266 eval_samples=15158 'submission_division="closed"'; do
  replaced+=(-e "/\"key\": \"${key_value%%=*}\"/s/\"value\": [^,]+/\"value\": ${key_value#*=}/")
done
sed -E "${replaced[@]}" result_0.txt >at_target.txt
cd "$venv" # where the checker writes a log
bin/python -m mlperf_logging.compliance_checker --usage hpc --ruleset 3.0.0 --werror run/at_target.txt
