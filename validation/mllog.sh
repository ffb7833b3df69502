#!/usr/bin/env bash
# The log of `squall train --mllog` under MLPerf's own checker: a small network on synthetic fields, stopped once on its
# way to the benchmark's target, a mean IoU of 0.82 sample by sample.
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
"$squall" -q simulate --out fields --grid 48x72 --days 60 --hours 12
"$squall" -q label fields --out labels
"$squall" -q stage fields --labels labels --out store
train() {
  "$squall" -q train --recipe small --data store --out model --mllog result_0.txt --set training.epochs=60 \
    --set training.best_by=sample_mean_iou --set training.target_score=0.82 "$@"
}
code=0
train --set training.max_seconds=2 || code=$?
[ "$code" -eq 75 ] || { echo "mllog: the first part ended with $code, not stopped (75)" >&2; exit 1; }
train
cd "$venv" # where the checker leaves a log of its own
bin/python -m mlperf_logging.compliance_checker --usage hpc --ruleset 3.0.0 run/result_0.txt
