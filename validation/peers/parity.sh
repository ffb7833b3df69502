#!/usr/bin/env bash
# Logits of every network: Squall's against PyTorch's with the exported weights, and ONNX Runtime's with the exported graph.
# ./parity.sh [PYTHON [ONLY]]     PYTHON has the packages of requirements.txt (default: python3); ONLY: cases with this in
# their name or configuration
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
python="${1:-python3}"
only="${2:-}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

profile="${PROFILE:-release}" # PROFILE=dev where that is built already
cargo build --quiet --manifest-path "$here/../../Cargo.toml" --profile "$profile" -p squall-model --example parity_case
case_of="${CARGO_TARGET_DIR:-$here/../../target}/${profile/#dev/debug}/examples/parity_case"

small='"width": 0.25, "decoder_width": 0.09, "blocks": [1, 1, 1], "atrous_rates": [3, 6, 12]'
published='"batch_norm": false, "periodic_longitude": false'
# name | grid | configuration
cases=(
  "small, latitude | 96x144 | {$small, \"latitude_input\": true}"
  "small, odd grid | 45x91 | {$small}"
  "small, deconv, odd | 45x91 | {$small, \"name\": \"deeplabv3plus-deconv\"}"
  "small, bilinear, odd | 45x91 | {$small, \"name\": \"deeplabv3plus-bilinear\"}"
  "thin bilinear, stride 16 | 96x144 | {\"name\": \"deeplabv3plus-bilinear\", \"width\": 0.25, \"blocks\": [2, 2, 2, 2], \"output_stride\": 16, \"batch_norm\": false}"
  "ResNet-50, norm, periodic | 96x144 | {}"
  "published deconv1x | 96x144 | {$published}"
  "published deconv | 96x144 | {$published, \"name\": \"deeplabv3plus-deconv\"}"
  "published bilinear | 96x144 | {$published, \"name\": \"deeplabv3plus-bilinear\"}"
  "small Tiramisu, norm, odd | 45x91 | {\"name\": \"tiramisu\", \"width\": 0.5, \"blocks\": [2, 2, 3]}"
  "published Tiramisu | 96x144 | {$published, \"name\": \"tiramisu\", \"blocks\": [2, 2, 2, 4, 5]}"
  "Tiramisu, norm, periodic | 45x91 | {\"name\": \"tiramisu\"}"
  "small DeepCAM, periodic | 45x91 | {\"name\": \"deepcam\", \"width\": 0.125, \"blocks\": [2], \"periodic_longitude\": true, \"latitude_input\": true}"
  "DeepCAM, thin | 45x91 | {\"name\": \"deepcam\", \"width\": 0.25}"
  "published DeepCAM | 96x144 | {\"name\": \"deepcam\"}"
  "CGNet, periodic | 45x91 | {\"name\": \"cgnet\", \"latitude_input\": true}"
  "CGNet, zero padding | 45x91 | {\"name\": \"cgnet\", \"periodic_longitude\": false}"
  "published CGNet | 96x144 | {\"name\": \"cgnet\", \"periodic_latitude\": true}"
)

row="%-26s %-7s %8s | %9s %9s | %9s %9s | %9s %9s"
printf "$row\n" "" "" largest PyTorch "" ONNX "" "f64: rel. L2 of" ""
printf "$row\n" network grid logit "max abs" "rel. L2" "max abs" "rel. L2" Squall PyTorch
failed=0
for entry in "${cases[@]}"; do
  [[ "$entry" == *"$only"* ]] || continue
  IFS='|' read -r name grid config <<<"$entry"
  name="$(sed 's/ *$//' <<<"$name")" grid="$(tr -d ' ' <<<"$grid")"
  out="$work/case"
  rm -rf "$out"
  printf '%s' "$config" >"$work/config.json"
  "$case_of" "$out" "$work/config.json" "$grid" >/dev/null
  status=0 weights=(--network "$out/network.json" --weights "$out/weights.safetensors")
  [[ "$config" != *'"cgnet"'* ]] || weights=() # networks.py has no CGNet; model/tests/published_parity.rs holds it to PyTorch
  result="$("$python" "$here/parity.py" "${weights[@]}" --onnx "$out/model.onnx" --sample "$out/sample.safetensors")" ||
    status=$?
  [ "$status" -eq 0 ] || failed=1
  "$python" - "$row" "$name" "$grid" "$result" <<'PYTHON'
import json, sys
row, name, grid, result = sys.argv[1:]
peers = json.loads(result or "{}")
wanted = [("pytorch", "max_abs"), ("pytorch", "relative_l2"), ("onnx", "max_abs"), ("onnx", "relative_l2")]
wanted += [("pytorch_f64", "relative_l2"), ("pytorch", "own_rounding")]
absent = lambda p: "-" if p.startswith("pytorch") and peers else "failed"
cells = [f"{peers[p][k]:.1e}" if p in peers else absent(p) for p, k in wanted]
largest = max((errors["largest_logit"] for errors in peers.values()), default=float("nan"))
print(row % (name, grid, f"{largest:.3g}", *cells))
PYTHON
done
exit "$failed"
