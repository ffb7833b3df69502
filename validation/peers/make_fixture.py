"""Writes model/tests/data/pytorch_checkpoint.pt: what a training script may save, in a few kilobytes."""

from pathlib import Path

import torch
from torch import nn

OUT = Path(__file__).parents[2] / "model/tests/data/pytorch_checkpoint.pt"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 2, 2)
        self.norm = nn.BatchNorm2d(2)
        self.norm.num_batches_tracked.fill_(7)
        self.register_buffer("as_half", torch.tensor([0.5, 1.5, 2.5], dtype=torch.float16))
        self.register_buffer("as_bf16", torch.tensor([0.5, 1.5, 2.5], dtype=torch.bfloat16))
        # A column: strides, an offset, and a storage that holds more than the tensor.
        self.register_buffer("column", torch.arange(6, dtype=torch.float64).reshape(2, 3)[:, 2])


def main() -> None:
    net = Net()
    with torch.no_grad():
        net.conv.weight.copy_(torch.arange(24.0).reshape(2, 3, 2, 2))
        net.conv.bias.fill_(0.25)
    net = nn.DataParallel(net.to(memory_format=torch.channels_last))
    optimizer = torch.optim.Adam(net.parameters())
    OUT.parent.mkdir(exist_ok=True)
    torch.save({"epoch": 3, "model": net.state_dict(), "optimizer": optimizer.state_dict()}, OUT)
    print(OUT, OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
