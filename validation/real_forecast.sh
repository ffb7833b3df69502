#!/usr/bin/env bash
# Runs the rules, and a network trained only on a synthetic run, on a real forecast; 20 minutes on two cores.
# usage: validation/real_forecast.sh FILE OUT
#   FILE  a netCDF file of a GFS forecast at 2.5 degrees with the 15 channels below (all but ZBOT)
#   OUT   a folder for labels, masks, events, scores.json and report.html
set -euo pipefail
file=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
cd "$(dirname "$0")/.."
. validation/program.sh
cd "$out"

"$squall" label "$file" --out labels
"$squall" events labels --fields "$file" --out labels-events

channels=TMQ,U850,V850,UBOT,VBOT,QREFHT,PS,PSL,T200,T500,PRECT,TS,TREFHT,Z1000,Z200
"$squall" simulate --out run --grid 73x144 --days 180 --hours 6 --start 2000-07-01 --seed 3
"$squall" label run --out run-labels
"$squall" stage run --labels run-labels --out store --channels "$channels" --block-days 3
"$squall" train --recipe small --data store --out model --set training.steps=1500 \
  --set training.validate_every_steps=300 --set 'network.atrous_rates=[1,2,4]'

"$squall" infer "$file" --model model/best.safetensors --out masks
"$squall" events masks --fields "$file" --out masks-events
"$squall" score --prediction masks --truth labels --json | tee scores.json
"$squall" report labels:labels-events masks:masks-events --fields "$file" --out report.html \
  --title "A real forecast" --about "The DeepCAM rules beside a network that has seen nothing but a synthetic run."
