"""Compares a network's logits with those that Squall wrote: from exported weights in PyTorch, and from an ONNX file.

`--weights` takes what `squall model export` wrote (safetensors or a .pt of its state dict); `--sample` a safetensors file
with `input` (b, h, w, c) and `logits` (b, h, w, k), as `squall model export --sample` writes it, or the input alone as
.npy. Prints one JSON line; exit code 1 if an error exceeds --tolerance.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
import torch
from networks import build
from safetensors import safe_open
from safetensors.numpy import load_file


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weights", type=Path, help="exported weights")
    parser.add_argument("--network", help="NetworkConfig as JSON or a file of it; default: from the weights' metadata")
    parser.add_argument("--onnx", type=Path, help="exported ONNX file")
    parser.add_argument("--sample", type=Path, required=True, help="input and logits, or input.npy")
    parser.add_argument("--logits", type=Path, help="logits.npy, if --sample is an input.npy")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="largest relative L2 error")
    return parser.parse_args()


def sample(options: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Input and logits, channels last."""
    if options.sample.suffix == ".npy":
        return np.load(options.sample), np.load(options.logits)
    tensors = load_file(options.sample)
    return tensors["input"], tensors["logits"]


def network_of(options: argparse.Namespace) -> str | dict:
    """The network's configuration: as given, or from the contract in the weights' metadata."""
    if options.network:
        return options.network
    with safe_open(options.weights, "numpy") as file:
        facts = json.loads((file.metadata() or {}).get("squall_facts", "{}"))
    if "contract" not in facts:
        sys.exit("error: the weights carry no contract; give --network")
    return json.loads(facts["contract"])["network"]


def state_of(path: Path) -> dict[str, torch.Tensor]:
    if path.suffix == ".safetensors":
        return {name: torch.from_numpy(values) for name, values in load_file(path).items()}
    return torch.load(path, map_location="cpu", weights_only=True)


def pytorch(options: argparse.Namespace, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logits in f32, and in f64: the difference is PyTorch's own rounding, below which no copy can be."""
    network = build(network_of(options)).eval()
    network.load_state_dict(state_of(options.weights), strict=True)
    fields = torch.from_numpy(x).permute(0, 3, 1, 2)  # NHWC memory is channels_last already
    with torch.inference_mode():
        single = network(fields).permute(0, 2, 3, 1).numpy()
        double = network.double()(fields.double()).permute(0, 2, 3, 1).numpy()
    return single, double


def onnx(options: argparse.Namespace, x: np.ndarray) -> np.ndarray:
    import onnx as format
    import onnxruntime

    format.checker.check_model(str(options.onnx), full_check=True)
    session = onnxruntime.InferenceSession(str(options.onnx), providers=["CPUExecutionProvider"])
    fields = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    names = [output.name for output in session.get_outputs()]
    results = dict(zip(names, session.run(None, {"fields": fields})))
    if "classes" in results:
        assert (results["classes"] == results["logits"].argmax(1)).all(), "classes are not the largest logits"
    # A batch of two must give each sample what it gives alone.
    both = session.run(["logits"], {"fields": np.concatenate([fields, fields])})[0]
    np.testing.assert_allclose(both[1:], results["logits"], rtol=1e-4, atol=1e-4)
    return results["logits"].transpose(0, 2, 3, 1)


def compared(ours: np.ndarray, theirs: np.ndarray) -> dict[str, float]:
    if ours.shape != theirs.shape:
        sys.exit(f"error: Squall's logits have shape {ours.shape}, the peer's {theirs.shape}")
    difference = theirs.astype(np.float64) - ours
    scale = np.linalg.norm(ours.astype(np.float64))
    return {
        "max_abs": float(np.abs(difference).max()),
        "relative_l2": float(np.linalg.norm(difference) / scale),
        "largest_logit": float(np.abs(ours).max()),
    }


def main() -> None:
    options = arguments()
    x, ours = sample(options)
    result = {}
    if options.weights:
        single, double = pytorch(options, x)
        result["pytorch"] = compared(ours, single)
        result["pytorch_f64"] = compared(ours, double)
        result["pytorch"]["own_rounding"] = compared(single, double)["relative_l2"]
    if options.onnx:
        result["onnx"] = compared(ours, onnx(options, x))
    print(json.dumps(result))
    # Where batch normalisation divides by little, f32 itself says less than the tolerance: PyTorch's own rounding counts.
    rounding = result.get("pytorch", {}).get("own_rounding", 0.0)
    allowed = max(options.tolerance, 3 * rounding)
    sys.exit(any(not errors["relative_l2"] <= allowed for errors in result.values()))


if __name__ == "__main__":
    main()
