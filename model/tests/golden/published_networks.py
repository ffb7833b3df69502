"""Makes deepcam.json, deepcam.names, cgnet.json and cgnet.names from the reference implementations in PyTorch.

    python published_networks.py DEEPCAM CLIMATENET

DEEPCAM is the folder deepcam/src/deepCam/architecture of mlcommons/hpc, CLIMATENET the folder climatenet of
andregraubner/ClimateNet. Needs torch and numpy; made with torch 2.15.0.

Weights, input and the gradient of the logits follow from names (`values`), so that no weights need to be stored:
`published_parity.rs` makes the same. All is computed in double precision.
"""

import hashlib
import importlib.util
import json
import os
import sys
import types

import numpy as np
import torch


def values(name, count):
    """count numbers in [-1, 1): SplitMix64 of the position, keyed by the first 8 bytes of SHA-256 of the name."""
    key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
    with np.errstate(over="ignore"):
        z = np.uint64(key) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    # 24 bits are exact in single precision.
    return (z >> np.uint64(40)).astype(np.float64) / 2.0**23 - 1.0


def fill(model):
    state = model.state_dict()
    for name, tensor in state.items():
        if name.endswith("num_batches_tracked"):
            continue
        shape = tuple(tensor.shape)
        u = values(name, tensor.numel()).astype(np.float32).reshape(shape)
        if name.endswith("running_var"):
            new = np.float32(1.0) + np.float32(0.25) * u
        elif len(shape) in (2, 4):
            new = u * np.float32(np.sqrt(np.float32(6.0 / np.prod(shape[1:]))))
        elif name.endswith("weight") or name.endswith("weights"):
            new = np.float32(1.0) + np.float32(0.25) * u
        else:
            new = np.float32(0.25) * u
        state[name] = torch.from_numpy(new.astype(np.float64))
    model.load_state_dict(state)
    return model


def run(network, model, size, probes):
    batch, height, width, channels = size
    model = fill(model.double())
    x = values("input", batch * height * width * channels).reshape(size)
    x = torch.from_numpy(np.ascontiguousarray(x.transpose(0, 3, 1, 2)))
    model.eval()
    with torch.no_grad():
        evaluated = model(x).permute(0, 2, 3, 1).reshape(-1).numpy()
    model.train()
    logits = model(x).permute(0, 2, 3, 1)
    r = torch.from_numpy(values("gradient", logits.numel()).reshape(tuple(logits.shape)))
    (logits * r).sum().backward()
    trained = logits.detach().reshape(-1).numpy()
    parameters = dict(model.named_parameters())
    at = np.linspace(0, evaluated.size - 1, 60).astype(int)
    golden = {
        "size": list(size),
        "parameters": sum(p.numel() for p in parameters.values()),
        "at": at.tolist(),
        "evaluated": evaluated[at].tolist(),
        "evaluated_rms": float(np.sqrt((evaluated**2).mean())),
        "trained": trained[at].tolist(),
        "trained_rms": float(np.sqrt((trained**2).mean())),
        "gradient_norms": {n: float(parameters[n].grad.norm()) for n in probes},
    }
    with open(f"{network}.json", "w") as file:
        json.dump(golden, file, indent=1)
        file.write("\n")
    with open(f"{network}.names", "w") as file:
        for name, tensor in model.state_dict().items():
            if not name.endswith("num_batches_tracked"):
                file.write(f"{name} {'x'.join(str(n) for n in tensor.shape)}\n")
    print(network, golden["parameters"], golden["evaluated_rms"], golden["trained_rms"])


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


class Anything(types.ModuleType):
    """Stands in for what the networks import but do not use."""

    __all__ = []

    def __getattr__(self, name):
        return object


def deepcam(folder):
    deepcam = load("deeplab_xception", os.path.join(folder, "deeplab_xception.py"))
    model = deepcam.DeepLabv3_plus(n_input=16, n_classes=3, os=16, pretrained=False, _print=False)
    size = (2, 32, 320, 16)
    # The reference knows one size only.
    model.bottleneck.tiles = (1, 1, size[1] // 16, size[2] // 16)
    probes = [
        "xception_features.conv1.weight",
        "xception_features.block1.skip.weight",
        "xception_features.block3.rep.5.conv1.weight",
        "xception_features.block12.rep.6.pointwise.weight",
        "xception_features.block20.rep.1.bn.weight",
        "xception_features.conv5.conv1.weight",
        "bottleneck.aspp4.atrous_convolution.weight",
        "bottleneck.global_avg_pool.global_average_pool.2.weights",
        "conv2.weight",
        "upsample.deconv1.3.weight",
        "upsample.conv1.6.bias",
        "upsample.last_deconv.0.weight",
    ]
    run("deepcam", model, size, probes)


def cgnet(folder):
    for name in ["tqdm", "xarray", "climatenet", "climatenet.utils", "climatenet.utils.data"]:
        sys.modules[name] = Anything(name)
    for name in ["climatenet.utils.losses", "climatenet.utils.metrics", "climatenet.utils.utils"]:
        sys.modules[name] = Anything(name)
    modules = load("climatenet.modules", os.path.join(folder, "modules.py"))
    sys.modules["climatenet.modules"] = modules
    models = load("climatenet.models", os.path.join(folder, "models.py"))
    probes = [
        "level1_0.conv.weight",
        "level1_2.act.weight",
        "b1.bn.weight",
        "level2_0.F_sur.conv.weight",
        "level2_0.reduce.conv.weight",
        "level2.1.F_glo.fc.0.weight",
        "level3_0.F_loc.conv.weight",
        "level3.7.bn_prelu.act.weight",
        "level3.19.F_glo.fc.2.bias",
        "bn_prelu_3.bn.bias",
        "classifier.0.conv.weight",
    ]
    run("cgnet", models.CGNetModule(classes=3, channels=4), (2, 45, 61, 4), probes)


if __name__ == "__main__":
    deepcam(sys.argv[1])
    cgnet(sys.argv[2])
