"""Makes detectors.json: what the detectors of validation/peers/detectors.py say, lose and learn, in double precision.

    python detectors.py          (needs torch and numpy; made with torch 2.15.0)

Weights and fields follow from names (`values`), as in published_networks.py; `detector_parity.rs` makes the same. Labels become
cells here by the words of 1612.02095, apart from Squall's code.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

from published_networks import values

sys.path.insert(0, str(Path(__file__).parents[3] / "validation/peers"))
from networks import build  # noqa: E402

TINY = {"channels_in": 4, "width": 0.05}
# Samples, rows, columns; the configuration.
CASES = {
    "2d, periodic": ((2, 24, 48), TINY | {"name": "detector-2d", "blocks": [3]}),
    "2d, as published, odd": ((1, 21, 30), TINY | {"name": "detector-2d", "blocks": [3], "periodic_longitude": False, "box_relu": True}),
    "2d-half, latitude": ((1, 24, 48), TINY | {"name": "detector-2d-half", "width": 0.1, "blocks": [4], "latitude_input": True}),
    "3d, periodic": ((2, 24, 48), TINY | {"name": "detector-3d", "blocks": [3], "time_steps": 3}),
    "15pf, odd": ((1, 37, 70), TINY | {"name": "detector-15pf", "width": 0.02}),
    "dense with masks": ((2, 24, 48), TINY | {"name": "detector-dense", "blocks": [1, 1], "atrous_rates": [2], "mask_classes": 3}),
}
# y_min, x_min, y_max, x_max, class of the first frame; the second has no labels, the third no boxes.
BOXES = [(2.0, 3.0, 12.0, 15.0, 0), (10.0, 20.0, 17.0, 27.0, 3)]
SEAM = (12.0, 40.0, 20.0, 53.0, 2)


def fill(model):
    state = model.state_dict()
    for name, tensor in state.items():
        if name.endswith("num_batches_tracked"):
            continue
        shape = tuple(tensor.shape)
        u = values(name, tensor.numel()).astype(np.float32).reshape(shape)
        if name.endswith("running_var"):
            new = np.float32(1.0) + np.float32(0.25) * u
        elif len(shape) >= 4:
            fan_in = np.prod(shape) / shape[-4]
            new = u * np.float32(np.sqrt(np.float32(6.0 / fan_in)))
        elif name.endswith("weight"):
            new = np.float32(1.0) + np.float32(0.25) * u
        else:
            new = np.float32(0.25) * u
        state[name] = torch.from_numpy(new.astype(np.float64))
    model.load_state_dict(state)
    return model


def loss(heads, x, made, boxes, cell, config):
    """Frames, values, rows, columns."""
    frames, _, rows, columns = heads.shape
    width = x.shape[3]
    total = 10 * ((made[:, : x.shape[1]] - x) ** 2).mean()
    for frame, labels in enumerate(boxes):
        if labels is None:
            continue
        empty = torch.ones(rows, columns, dtype=torch.bool)
        log_p = F.log_softmax(heads[frame, 4:6], dim=0)
        for y0, x0, y1, x1, label in labels:
            cx, cy = ((x0 + x1) / 2) % width / cell, (y0 + y1) / 2 / cell
            j, i = math.floor(cy), math.floor(cx)
            assert empty[j, i], "one box for each cell"
            empty[j, i] = False
            wanted = [cx - i, cy - j, math.log2((x1 - x0) / cell), math.log2((y1 - y0) / cell)]
            said = heads[frame, :4, j, i]
            said = said.clamp(min=0) if config.box_relu else said
            off = F.smooth_l1_loss(said, torch.tensor(wanted, dtype=said.dtype), reduction="none")
            term = 5 * off[:2].sum() + 7 * off[2:].sum() - log_p[0, j, i]
            term = term - F.log_softmax(heads[frame, 6:, j, i], dim=0)[label]
            total = total + term / frames
        total = total - 0.5 * log_p[1][empty].sum() / frames
    return total


def some(tensor):
    """Forty values of (n, c, h, w), counted as (n, h, w, c), and their size."""
    flat = tensor.detach().permute(0, 2, 3, 1).reshape(-1).numpy()
    at = np.linspace(0, flat.size - 1, 40).astype(int)
    return {"at": at.tolist(), "values": flat[at].tolist(), "rms": float(np.sqrt((flat**2).mean()))}


def run(samples, h, w, given):
    model = fill(build(given).double())
    config = model.config
    n = samples * (config.time_steps if config.name == "detector-3d" else 1)
    x = torch.from_numpy(values("input", n * h * w * 4).reshape(n, h, w, 4)).permute(0, 3, 1, 2).contiguous()
    golden = {"config": given, "size": [n, h, w, 4]}
    model.eval()
    with torch.no_grad():
        golden["evaluated"] = some(model(x)["heads"])
    model.train()
    output = model(x)
    golden["heads"] = some(output["heads"])
    if "masks" in output:
        golden["masks"] = some(output["masks"])
        return golden
    frames = output["heads"].shape[0]
    labels = BOXES + ([SEAM] if config.periodic_longitude and w == 48 else [])
    if config.name == "detector-15pf":
        labels = labels[:1]  # its cells are larger than where all of them are
    boxes = [[labels, None, [], labels[:1]][frame % 4] for frame in range(frames)]
    cell = 2 ** (config.blocks[0] - (config.name == "detector-15pf"))
    total = loss(output["heads"], x, output["reconstruction"], boxes, cell, config)
    total.backward()
    golden["reconstruction"] = some(output["reconstruction"])
    golden["boxes"] = boxes
    golden["total"] = total.item()
    golden["gradients"] = {
        name: [p.grad.norm().item(), float((p.grad.reshape(-1).numpy() * values(f"{name} direction", p.numel())).sum())]
        for name, p in model.named_parameters()
    }
    return golden


if __name__ == "__main__":
    torch.manual_seed(1)
    golden = {name: run(*size, given) for name, (size, given) in CASES.items()}
    with open(Path(__file__).with_name("detectors.json"), "w") as file:
        json.dump(golden, file)
        file.write("\n")
    for name, case in golden.items():
        print(name, case["heads"]["rms"], case.get("total"))
