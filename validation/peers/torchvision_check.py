"""Checks that units with a projection keep their function when a torchvision ResNet is imported as our encoder.

    python torchvision_check.py SQUALL MODEL

SQUALL is the program, MODEL a model file of a DeepLabV3+ with batch normalisation and one unit per block (the recipe
`small`), all of whose units have a projection. A ResNet with torchvision's names and random weights is saved, imported with
--encoder-only, exported, and compared, its strides and dilations where ours are, on fields equal in all channels.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from networks import Config, build, wrap
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor


def made_up(config: Config) -> dict[str, Tensor]:
    """Weights with torchvision's names and random values."""
    torch.manual_seed(1)
    state: dict[str, Tensor] = {}

    def conv(name: str, norm: str, *shape: int) -> None:
        state[f"{name}.weight"] = torch.randn(shape) / (shape[1] * shape[2] * shape[3]) ** 0.5
        for leaf in ("weight", "bias", "running_mean", "running_var"):
            value = torch.randn(shape[0]) * 0.3
            state[f"{norm}.{leaf}"] = value.exp() if leaf in ("weight", "running_var") else value
        state[f"{norm}.num_batches_tracked"] = torch.tensor(1)

    ins = config.encoder_channels(64)
    conv("conv1", "bn1", ins, 3, 7, 7)
    for block in range(len(config.blocks)):
        inner, at = config.encoder_channels(64 << block), f"layer{block + 1}.0"
        conv(f"{at}.conv1", f"{at}.bn1", inner, ins, 1, 1)
        conv(f"{at}.conv2", f"{at}.bn2", inner, inner, 3, 3)
        conv(f"{at}.conv3", f"{at}.bn3", 4 * inner, inner, 1, 1)
        conv(f"{at}.downsample.0", f"{at}.downsample.1", 4 * inner, ins, 1, 1)
        ins = 4 * inner
    return state


def post_activated(state: dict[str, Tensor], x: Tensor, geometry: list[tuple[int, int]]) -> Tensor:
    """ResNet v1 as torchvision computes it, with longitude wrapping as in ours."""

    def unit(x: Tensor, name: str, norm: str, stride: int = 1, dilation: int = 1) -> Tensor:
        weight = state[f"{name}.weight"]
        reach = weight.shape[2] // 2 * dilation
        y = F.conv2d(wrap(x, reach, reach), weight, None, stride, (reach, 0), dilation)
        leaves = (state[f"{norm}.{leaf}"] for leaf in ("running_mean", "running_var", "weight", "bias"))
        return F.batch_norm(y, *leaves)

    x = F.relu(unit(x, "conv1", "bn1", 2))
    x = F.max_pool2d(wrap(x, 1, 1), 3, 2, (1, 0))
    for block, (stride, dilation) in enumerate(geometry):
        at = f"layer{block + 1}.0"
        y = F.relu(unit(x, f"{at}.conv1", f"{at}.bn1"))
        y = F.relu(unit(y, f"{at}.conv2", f"{at}.bn2", stride, dilation))
        y = unit(y, f"{at}.conv3", f"{at}.bn3")
        x = F.relu(y + unit(x, f"{at}.downsample.0", f"{at}.downsample.1", stride))
    return x


def main() -> None:
    squall, model = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)

        def run(*arguments: str) -> None:
            subprocess.run([squall, "-q", "model", *arguments], check=True, stdout=subprocess.DEVNULL)

        run("export", model, "--out", f"{at}/before.safetensors")
        with safe_open(at / "before.safetensors", "pt") as file:
            facts = json.loads(file.metadata()["squall_facts"])
        config = Config.parse(json.loads(facts["contract"])["network"])
        assert config.batch_norm and config.periodic_longitude and set(config.blocks) == {1}, config
        state = made_up(config)
        torch.save(state, at / "resnet.pth")
        run("import", f"{at}/resnet.pth", "--like", model, "--encoder-only", "--out", f"{at}/init.safetensors")
        run("export", f"{at}/init.safetensors", "--out", f"{at}/after.safetensors")
        network = build(config).eval()
        network.load_state_dict(load_file(at / "after.safetensors"))
    field = torch.randn(1, 1, 64, 128)
    units = [units[-1] for units in network.encoder.blocks]
    geometry = [(unit.stride, unit.conv2.dilation[0]) for unit in units]
    with torch.inference_mode():
        ours, _ = network.encoder(field.expand(-1, config.inputs, -1, -1))
        theirs = post_activated(state, field.expand(-1, 3, -1, -1), geometry)
    error = ((ours - theirs).norm() / theirs.norm()).item()
    print(json.dumps({"relative_l2": error, "strides_and_dilations": geometry}))
    sys.exit(not error < 1e-5)


if __name__ == "__main__":
    main()
