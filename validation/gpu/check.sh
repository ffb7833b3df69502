#!/usr/bin/env bash
# What a GPU must show, in order: check.sh SQUALL OUT [quick]
#   SQUALL  the program of `./run.sh cuda-build`; OUT  a folder for what is measured
# Each step says what it expects; the first that fails ends it. Meant for 8 minutes on an H200, 3 with `quick`; it has
# not run on one yet. README.md reads the results.
set -euo pipefail
if [ $# -lt 2 ]; then
  echo "usage: validation/gpu/check.sh SQUALL OUT [quick]" >&2
  exit 2
fi
squall=$(realpath "$1")
out=$2
quick=${3:-}
mkdir -p "$out"
cd "$out"

# NVIDIA's libraries from pip, if they are there and nothing else is said.
if [ -z "${SQUALL_CUDA_LIBRARIES:-}" ] && command -v python3 >/dev/null; then
  packages=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/nvidia
  [ -d "$packages" ] && SQUALL_CUDA_LIBRARIES=$(find "$packages" -maxdepth 2 -name lib -type d | paste -sd:)
  export SQUALL_CUDA_LIBRARIES
fi
step() { printf '\n== %s\n' "$*"; }
fail() {
  echo "FAILED: $*"
  exit 1
}

step "1 the GPU, and what the program finds"
nvidia-smi --query-gpu=name,driver_version,memory.total,compute_cap --format=csv || true
"$squall" --version | tee version.txt
grep -q 'GPU 0:' version.txt || fail "no GPU found"

step "2 operations and networks against plain loops (f32 below 1e-4)"
[ "$quick" ] || "$squall" bench parity --device cuda --json >parity.json

step "3 a training run: four steps on the CPU and on the GPU, f32"
if [ ! -d store ]; then
  "$squall" simulate --out run --grid 192x288 --days 6 --hours 6 -q
  "$squall" label run --out labels -q
  "$squall" stage run --labels labels --out store -q
fi
train() { # DEVICE FOLDER STEPS SETTINGS...
  local device=$1 folder=$2 steps=$3 more=() setting
  shift 3
  for setting in "$@"; do more+=(--set "$setting"); done
  rm -rf "$folder"
  "$squall" train --recipe small --data store --out "$folder" --device "$device" -q \
    --set "training.steps=$steps" --set "training.validate_every_steps=$steps" "${more[@]}"
}
losses() { grep -o '"kind":"step".*' "$1/metrics.jsonl" | grep -o '"loss":[0-9.e-]*' | cut -d: -f2; }
close() { # A B TOLERANCE
  paste <(losses "$1") <(losses "$2") | awk -v t="$3" '{ d = ($1 - $2) / $2; if (d < 0) d = -d; if (d > t) bad = 1; print }
    END { exit bad || NR == 0 }'
}
train cpu cpu 4 precision=f32
train cuda gpu 4 precision=f32
close gpu cpu 0.01 || fail "losses differ by more than 1 %"
train cuda again 4 precision=f32
cmp gpu/metrics.jsonl again/metrics.jsonl || fail "the same run twice gives other bits"

train cuda tf32 4 'precision={ compute = "f32", tf32 = true }'
close tf32 gpu 0.01 || fail "TF32 is off by more than 1 %"
cmp -s <(losses tf32) <(losses gpu) && fail "TF32 changes nothing: is f32 computed in TF32 too?"

step "4 bf16 and f16 learn: the loss falls as in f32 over 60 steps"
train cuda f32 60 precision=f32
for precision in bf16 f16; do
  train cuda "$precision" 60 "precision=$precision"
  tail -n 5 <(losses f32) | awk '{ s += $1 } END { print "f32", s / NR }'
  tail -n 5 <(losses "$precision") | awk -v p="$precision" '{ s += $1 } END { print p, s / NR }'
done

step "5 inference: masks of the GPU against the CPU's (mean IoU above 0.99)"
"$squall" infer run --model gpu/best.safetensors --out masks-gpu --device cuda --precision f32 -q
"$squall" infer run --model gpu/best.safetensors --out masks-cpu --device cpu --precision f32 -q
"$squall" score --prediction masks-gpu --truth masks-cpu --json -q | tee masks.json

step "6 what does not fit is refused, with what would"
if "$squall" train --recipe deepcam --data store --out too-large --device cuda --set training.batch=100000 2>refused.txt; then
  fail "a batch of 100,000 fits?"
fi
cat refused.txt

step "7 speed: DeepCAM's network, batch 8, 768 x 1152, bf16 (aims: 82 samples/s training, 245 inference on one H200)"
repeat=$([ "$quick" ] && echo 3 || echo 10)
for work in step infer; do
  "$squall" bench "$work" --device cuda --network deepcam --size 768x1152 --batch 8 --precision bf16 --repeat "$repeat" --json | tee "deepcam-$work.json"
done
step "8 the network of the 2018 paper (aim: 45 % of the measured bf16 matrix rate)"
"$squall" bench step --device cuda --network deeplabv3plus --size 768x1152 --batch 2 --precision bf16 --repeat "$repeat" --json | tee deeplab-step.json
"$squall" bench step --device cuda --network deeplabv3plus --size 768x1152 --batch 2 --precision bf16 --repeat 1 --profile >profile.txt || true
"$squall" bench optimizer --device cuda --repeat "$repeat" --json | tee optimizer.json

if [ "$(nvidia-smi -L | wc -l)" -ge 2 ] && command -v mpirun >/dev/null; then
  step "9 two GPUs: gradients summed by NCCL where they lie, against sums on the host"
  both() { # FOLDER ALGORITHM
    rm -rf "$1"
    mpirun -n 2 "$squall" train --recipe small --data store --out "$1" --device cuda -q --set precision=f32 --set training.steps=8 \
      --set training.validate_every_steps=8 --set distributed.global_batch=4 --set "distributed.algorithm=$2"
  }
  both ring ring
  both nccl nccl
  both nccl-again nccl
  close nccl ring 1e-4 || fail "NCCL learns something else than sums on the host"
  cmp nccl/metrics.jsonl nccl-again/metrics.jsonl || fail "the same run twice gives other bits"
else
  step "9 skipped: fewer than two GPUs, or no mpirun"
fi

echo
echo "all steps done; results in $out"
