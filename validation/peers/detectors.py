"""Squall's detectors in PyTorch: the peer of timings, with the names that `squall model export` writes.

A module gives a dict: `heads` (frames, values, rows, columns) before any activation, in training `reconstruction`
(cells) and `masks` (centres with `mask_classes`). Frames of a clip follow each other in the batch.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from networks import Config, Conv, Decoder, Encoder, Pyramid, Unit, Upsample, batch_norm, he_uniform_, latitude, resize, wrap
from torch import Tensor, nn

SLOPE = 0.1
CHANNELS = [128, 256, 512, 768, 1024, 1280]
# Of the transposed convolutions of `detector-15pf` but the last (model/src/networks/detector/reconstruction.rs).
OWN_CHANNELS = [640, 448, 384, 320]


class TimedConv(nn.Module):
    """A convolution with bias over frames, whose kernel may reach over time; and its mirror, the same kernel transposed."""

    def __init__(self, ins, outs, kernel, config, *, stride=1, time=1, stride_t=1):
        super().__init__()
        self.reach, self.stride, self.time, self.stride_t = kernel // 2, stride, time, stride_t
        self.frames, self.wraps = config.time_steps, config.periodic_longitude and kernel > 1
        shape = (outs, ins, kernel, kernel)
        self.weight = nn.Parameter(torch.empty(shape if time == 1 else (time, *shape)))
        self.bias = nn.Parameter(torch.zeros(outs))
        he_uniform_(self.weight, ins * time * kernel * kernel)

    def padding(self) -> tuple[int, int]:
        return self.reach, 0 if self.wraps else self.reach

    def clips(self, x: Tensor, frames: int) -> Tensor:
        """(b * t, c, h, w) to (b, c, t, h, w)."""
        return x.unflatten(0, (-1, frames)).transpose(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = wrap(x, self.reach, self.reach) if self.wraps else x
        if self.time == 1:
            return F.conv2d(x, self.weight, self.bias, self.stride, self.padding())
        stride, padding = (self.stride_t, self.stride, self.stride), (self.time // 2, *self.padding())
        y = F.conv3d(self.clips(x, self.frames), self.weight.permute(1, 2, 0, 3, 4), self.bias, stride, padding)
        return y.transpose(1, 2).flatten(0, 1)

    def mirror(self, g: Tensor, like: Tensor) -> Tensor:
        """The gradient of a convolution to an input like this one."""
        h, w = like.shape[2:]
        kernel = 2 * self.reach + 1
        edge = self.reach if self.wraps else 0
        sizes = (h, w + 2 * edge)
        extra = tuple(
            size - ((steps - 1) * self.stride + kernel - 2 * pad)
            for size, steps, pad in zip(sizes, g.shape[2:], self.padding())
        )
        if self.time == 1:
            y = F.conv_transpose2d(g, self.weight, None, self.stride, self.padding(), extra)
        else:
            stride, padding = (1, self.stride, self.stride), (self.time // 2, *self.padding())
            weight = self.weight.permute(1, 2, 0, 3, 4)
            y = F.conv_transpose3d(self.clips(g, self.frames), weight, None, stride, padding, (0, *extra))
            y = y.transpose(1, 2).flatten(0, 1)
        if not edge:
            return y
        # What lies beyond the seam belongs to the other side.
        core = y[..., edge : w + edge]
        west = core[..., :edge] + y[..., w + edge :]
        east = core[..., w - edge :] + y[..., :edge]
        return torch.cat([west, core[..., edge : w - edge], east], dim=3)


class Code(nn.Module):
    def __init__(self, channels: int, config: Config):
        super().__init__()
        self.norm = batch_norm(channels, config)


class CellDetector(nn.Module):
    """One box for each cell (Racah et al. 2017, arXiv:1612.02095; Kurth et al. 2017, arXiv:1708.05256)."""

    def __init__(self, config: Config):
        super().__init__()
        self.config, self.own = config, config.name == "detector-15pf"
        time = 3 if config.name == "detector-3d" else 1
        share = 2 if config.name in ("detector-2d-half", "detector-3d") else 1
        halvings, ins = config.blocks[0] - self.own, config.inputs
        self.encoder = nn.Module()
        for i, channels in enumerate(CHANNELS[: config.blocks[0]]):
            outs = config.encoder_channels(channels // share)
            layer = TimedConv(ins, outs, config.kernel, config, stride=2 if i < halvings else 1, time=time)
            self.encoder.add_module(f"layer{i + 1}", layer)
            ins = outs
        self.code = None if self.own else Code(ins, config)
        self.heads = nn.Module()
        for name, values in [("box", 4), ("objectness", 2), ("class", config.classes)]:
            head = TimedConv(ins, values, 3, config, time=time, stride_t=2 if time > 1 else 1)
            self.heads.add_module(name, head)
        if self.own:
            self.decoder = nn.Module()
            for i, outs in enumerate([*map(config.encoder_channels, OWN_CHANNELS), config.inputs]):
                self.decoder.add_module(f"layer{i + 1}", Upsample(ins, outs, config, bias=True))
                ins = outs

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        if self.config.latitude_input:
            x = torch.cat([x, latitude(x)], dim=1)
        fields, layers = [x], list(self.encoder.children())
        for layer in layers:
            fields.append(F.leaky_relu(layer(fields[-1]), SLOPE))
        code = fields[-1] if self.code is None else self.code.norm(fields[-1])
        output = {"heads": torch.cat([head(code) for head in self.heads.children()], dim=1)}
        if self.training:
            output["reconstruction"] = self.reconstruct(layers, fields)
        return output

    def reconstruct(self, layers: list[TimedConv], fields: list[Tensor]) -> Tensor:
        y = fields[-1]
        if not self.own:
            for i in reversed(range(len(layers))):
                # The slope that the encoder took is a constant here, as in Theano's gradient.
                y = layers[i].mirror(torch.where(fields[i + 1] > 0, y, SLOPE * y), fields[i])
            return y
        ups = list(self.decoder.children())
        for i, up in enumerate(ups):
            y = up(y, tuple(fields[len(ups) - 1 - i].shape[2:]))
            y = F.leaky_relu(y, SLOPE) if i + 1 < len(ups) else y
        return y


class Head(nn.Module):
    def __init__(self, channels: int, values: int, config: Config):
        super().__init__()
        self.conv = Unit(channels, channels, 3, config)
        self.values = Conv(channels, values, 1, config, bias=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.values(self.conv(x))


class CentreHeads(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.periodic = config.periodic_longitude
        channels, low = config.decoder_channels(256), config.decoder_channels(48)
        self.low_level = Unit(config.encoder_channels(64), low, 1, config)
        self.refine1 = Unit(channels + low, channels, 3, config)
        self.refine2 = Unit(channels, channels, 3, config)
        self.scores = Head(channels, config.classes, config)
        self.sides = Head(channels, 4, config)
        nn.init.constant_(self.scores.values.bias, -2.19)

    def forward(self, deep: Tensor, low: Tensor) -> Tensor:
        deep = resize(deep, tuple(low.shape[2:]), self.periodic)
        y = self.refine2(self.refine1(torch.cat([deep, self.low_level(low)], dim=1)))
        return torch.cat([self.scores(y), self.sides(y)], dim=1)


class CentreDetector(nn.Module):
    """Boxes around centres on DeepLabV3+'s encoder, and masks if asked for."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.aspp = Pyramid(self.encoder.channels_out, config)
        self.heads = CentreHeads(config)
        masks = replace(config, name="deeplabv3plus", classes=config.mask_classes)
        self.decoder = Decoder(masks) if config.mask_classes else None

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        if self.config.latitude_input:
            x = torch.cat([x, latitude(x)], dim=1)
        deep, low = self.encoder(x)
        deep = self.aspp(deep)
        output = {"heads": self.heads(deep, low)}
        if self.decoder is not None:
            output["masks"] = self.decoder(deep, low, x)
        return output


DETECTORS = {name: CellDetector for name in ("detector-2d", "detector-2d-half", "detector-3d", "detector-15pf")} | {
    "detector-dense": CentreDetector
}


def random_targets(heads: Tensor, config: Config) -> dict[str, Tensor]:
    """A box in every tenth cell, and what it should be."""
    frames, _, rows, columns = heads.shape
    return {
        "object": torch.rand(frames, rows, columns, device=heads.device) < 0.1,
        "box": torch.rand(frames, 4, rows, columns, device=heads.device),
        "class": torch.randint(0, config.classes, (frames, rows, columns), device=heads.device),
    }


def detection_loss(output, x: Tensor, targets: dict[str, Tensor], labels: Tensor, config: Config) -> Tensor:
    """Squall's loss (model/src/detection) of cells, or one of the same cost for centres."""
    heads, found = output["heads"].float(), targets["object"]
    frames = heads.shape[0]
    if config.name == "detector-dense":
        scores, sides = heads.split([config.classes, 4], dim=1)
        wanted = F.one_hot(targets["class"], config.classes).permute(0, 3, 1, 2) * found[:, None]
        log_p, log_q = F.logsigmoid(scores), F.logsigmoid(-scores)
        focal = torch.where(wanted > 0, log_q.exp() ** 2 * log_p, log_p.exp() ** 2 * log_q)
        boxes = (sides - targets["box"]).abs() * found[:, None]
        loss = -focal.sum() / frames + 5 * boxes.sum() / frames
        if "masks" in output:
            loss = loss + F.cross_entropy(output["masks"].float(), labels)
        return loss
    box, objectness, classes = heads.split([4, 2, config.classes], dim=1)
    box = F.relu(box) if config.box_relu else box
    off = F.smooth_l1_loss(box, targets["box"], reduction="none") * found[:, None]
    log_p = F.log_softmax(objectness, dim=1)
    entropy = F.cross_entropy(classes, targets["class"], reduction="none") * found
    loss = 5 * off[:, :2].sum() + 7 * off[:, 2:].sum() + entropy.sum()
    loss = loss - log_p[:, 0][found].sum() - 0.5 * log_p[:, 1][~found].sum()
    loss = loss / frames
    if "reconstruction" in output:
        loss = loss + 10 * F.mse_loss(output["reconstruction"].float()[:, : x.shape[1]], x)
    return loss
