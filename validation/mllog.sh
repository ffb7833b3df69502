#!/usr/bin/env bash
# The log of `squall train --mllog` under MLPerf's own checker: a small network on synthetic fields, stopped once on its
# way to a low target. Everything must pass but the one rule that this network is too small for: a mean IoU of 0.82.
# usage: validation/mllog.sh VENV
#   VENV  a folder for a Python environment with the checker (PyPI: mlperf-logging), and for the run; made if not there
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
    --set training.best_by=sample_mean_iou --set training.target_score=0.55 "$@"
}
code=0
train --set training.max_seconds=1 || code=$?
[ "$code" -eq 75 ] || { echo "mllog: the first part ended with $code, not stopped (75)" >&2; exit 1; }
train
cd "$venv" # where the checker leaves a log of its own
found=$(bin/python -m mlperf_logging.compliance_checker --usage hpc --ruleset 3.0.0 run/result_0.txt 2>&1 || true)
echo "$found"
grep -q 'hpc_3.0.0/open_deepcam.yaml' <<<"$found"
grep -q '"key": "run_stop".*"status": "success"' run/result_0.txt
if grep -E 'WARNING|ERROR|Traceback' <<<"$found" | grep -vE 'Failed checks for eval_accuracy|ERROR - FAILED$'; then
  echo "mllog: the checker found the above" >&2
  exit 1
fi
echo "mllog: passed"
