#!/usr/bin/env bash
# TempestExtremes beside `squall label` on the same 768 x 1152 fields: seconds a time, of whole programs that read and write files.
# usage: TEMPEST=DIR validation/peers/tempest.sh OUT
#   TEMPEST   a folder with DetectNodes and DetectBlobs, built by hand:
#               git clone https://github.com/ClimateGlobalChange/tempestextremes && cd tempestextremes
#               cmake -S . -B build -DCMAKE_BUILD_TYPE=Release -DENABLE_MPI=OFF
#               cmake --build build --target DetectNodes DetectBlobs        # build/bin; needs cmake and libnetcdf-dev
#   OUT       a folder for the fields, the results and tempest.md
#   MINIMA    so many minima of pressure instead of the few that synthetic fields have (roughen.py, with PYTHON's numpy and netCDF4)
set -euo pipefail
: "${TEMPEST:?a folder with DetectNodes and DetectBlobs}"
tempest=$(realpath "$TEMPEST")
mkdir -p "$1"
out=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
cd "$here/../.."
. validation/program.sh
cd "$out"

times=8
fields="fields${MINIMA:+-$MINIMA}"
if [ ! -d "$fields" ]; then
  # What was interrupted is made again.
  rm -rf part
  "$squall" -q simulate --out part --grid 768x1152 --days 2 --hours 6 --seed 5
  [ -z "${MINIMA:-}" ] || "${PYTHON:-python3}" "$here/roughen.py" "$MINIMA" part/*.nc
  mv part "$fields"
fi
mapfile -t files < <(find "$out/$fields" -maxdepth 1 -name '*.nc' | sort)
printf '%s\n' "${files[@]}" >files.txt

# Seconds of a command for a time; the median of so many runs.
seconds() { # RUNS COMMAND...
  local runs=$1 run from to
  shift
  for ((run = 0; run < runs; run++)); do
    from=$(date +%s.%N)
    "$@" >log.txt 2>&1 || { cat log.txt >&2; exit 1; }
    to=$(date +%s.%N)
    echo "$from $to"
  done | awk -v times="$times" '{print ($2 - $1) / times}' | sort -g | sed -n "$((runs / 2 + 1))p"
}
# The row of a command; ends the script if the command fails.
row() { # NAME RUNS COMMAND...
  local took
  took=$(seconds "${@:2}")
  printf '| %s | %.3f |\n' "$1" "$took" | tee -a tempest.md
}

# The recommended commands (Ullrich et al. 2021), with what sixteen channels have: the substitutes that squall takes.
lows() {
  local index=0 file
  for file in "${files[@]}"; do
    "$tempest/DetectNodes" --in_data "$file" --out "nodes$((index++)).txt" --searchbymin PSL --mergedist 6.0 \
      --closedcontourcmd "PSL,200.0,5.5,0;_AVG(T200,T500),-0.4,6.5,1.0;_DIFF(Z200,Z1000),-18.9,6.5,1.0" \
      --outputcmd "PSL,min,0;_VECMAG(UBOT,VBOT),max,2" || return
  done
}
blobs() { # THRESHOLD
  local index=0 file
  for file in "${files[@]}"; do
    "$tempest/DetectBlobs" --in_data "$file" --out "blobs$((index++)).nc" --thresholdcmd "$1" --minabslat 15 \
      --geofiltercmd "area,>=,4e5km2" || return
  done
}
rules() { # METHOD
  rm -rf "labels-$1"
  "$squall" -q label "$fields" --method "$1" --out "labels-$1"
}

echo "$(nproc) cores, $(date +%F), $("$squall" --version | head -1); ${#files[@]} files, $times times of 768 x 1152" | tee tempest.md
printf '\n| program | s a time |\n|---|---|\n' | tee -a tempest.md
row "TempestExtremes DetectNodes" 3 lows
row "TempestExtremes DetectBlobs, a plain threshold" 3 blobs "TMQ,>=,40,0"
row "TempestExtremes DetectBlobs, the Laplacian of transport" \
  1 blobs "_LAPLACIAN{8,10}(_PROD(TMQ,_VECMAG(U850,V850))),<=,-20000,0"
row "squall label --method tempest: the same lows and rivers, tracks, masks" 3 rules tempest
row "squall label --method deepcam" 3 rules deepcam
