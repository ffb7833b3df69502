"""Squall's networks in PyTorch: the judge of exported weights and the peer of timings.

`build(config)` takes the JSON form of Squall's `NetworkConfig` (the `network` of a model file's contract) and gives a
module whose state dict has the names that `squall model export` writes. Tensors are (batch, channel, latitude,
longitude); memory may be channels_last. Latitude is padded with zeros, longitude wraps if `periodic_longitude`.

A layer that is more than its kernel (`conv1.weight`, `conv1.norm.weight`) subclasses the convolution and owns the rest:
that keeps the names flat.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, fields
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

EPSILON = 1e-5


@dataclass(frozen=True)
class Config:
    """The keys of `NetworkConfig` and their defaults (model/src/networks/config/mod.rs)."""

    name: str = "deeplabv3plus"
    channels_in: int = 16
    classes: int = 3
    width: float = 1.0
    decoder_width: float | None = None
    blocks: list[int] = field(default_factory=lambda: [3, 4, 6, 3])
    output_stride: int = 8
    atrous_rates: list[int] = field(default_factory=lambda: [12, 24, 36])
    growth: int = 32
    kernel: int = 5
    batch_norm: bool = True
    preactivation_relu: bool = True
    batch_norm_decay: float = 0.97
    periodic_longitude: bool = True
    latitude_input: bool = False
    growth: int = 32
    kernel: int = 5
    dropout: float = 0.0
    time_steps: int = 8
    box_relu: bool = False
    mask_classes: int = 0

    @staticmethod
    def parse(source: str | dict) -> Config:
        """A configuration from a dict, JSON text or the path of a JSON file; unknown keys are errors."""
        if isinstance(source, str):
            source = json.loads(source if source.lstrip().startswith("{") else Path(source).read_text())
        known = {f.name for f in fields(Config)}
        if unknown := set(source) - known:
            raise ValueError(f"unknown keys {sorted(unknown)}; known are {sorted(known)}")
        return Config(**DEFAULTS.get(source.get("name", ""), {}) | source)

    @property
    def inputs(self) -> int:
        return self.channels_in + (2 if self.latitude_input else 0)

    def encoder_channels(self, channels: int) -> int:
        return _scaled(channels, self.width)

    def decoder_channels(self, channels: int) -> int:
        return _scaled(channels, self.width if self.decoder_width is None else self.decoder_width)


# Where a network's defaults are not those of `Config`.
DEFAULTS = {
    "deepcam": {
        "blocks": [16],
        "output_stride": 16,
        "atrous_rates": [6, 12, 18],
        "batch_norm_decay": 0.9,
        "periodic_longitude": False,
    },
    "tiramisu": {"blocks": [2, 2, 2, 4, 5]},
    "detector-dense": {"classes": 4},
} | {
    f"detector-{kind}": {"classes": 4, "blocks": [6], "batch_norm_decay": 0.9}
    for kind in ("2d", "2d-half", "3d", "15pf")
}


def _scaled(channels: int, factor: float) -> int:
    if factor == 1:
        return channels
    # Rust rounds halves away from zero, Python to even.
    return 8 * max(1, math.floor(channels * factor / 8 + 0.5))


def wrap(x: Tensor, left: int, right: int) -> Tensor:
    """Columns of the other side of the globe on both sides; keeps channels_last, which F.pad does not."""
    width = x.shape[3]
    if max(left, right) > width:
        columns = torch.arange(-left, width + right, device=x.device) % width
        return x.index_select(3, columns)
    return torch.cat([x[..., width - left :], x, x[..., :right]], dim=3)


def resize(x: Tensor, size: tuple[int, int], periodic: bool) -> Tensor:
    """Bilinear, half-pixel centres; across the date line if periodic."""
    if not periodic:
        return F.interpolate(x, size=size, mode="bilinear", align_corners=False)
    width = x.shape[3]
    rows = F.interpolate(x, size=(size[0], width), mode="bilinear", align_corners=False)
    at = (torch.arange(size[1], dtype=torch.float64, device=x.device) + 0.5) * width / size[1] - 0.5
    low = at.floor()
    share = (at - low).to(x.dtype)
    low = low.long()
    return rows[..., low % width] * (1 - share) + rows[..., (low + 1) % width] * share


def norm_relu(channels: int, config: Config) -> nn.Module:
    return NormRelu(channels, config) if config.batch_norm else Half()


def batch_norm(channels: int, config: Config) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=EPSILON, momentum=1 - config.batch_norm_decay)


class NormRelu(nn.BatchNorm2d):
    """Batch normalisation, then ReLU."""

    def __init__(self, channels: int, config: Config):
        super().__init__(channels, eps=EPSILON, momentum=1 - config.batch_norm_decay)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(super().forward(x), inplace=True)


class Half(nn.Module):
    """x / 2, then ReLU where there is one: what the SC18 runs used instead of batch normalisation."""

    def __init__(self, relu: bool = True):
        super().__init__()
        self.relu = relu

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x * 0.5, inplace=True) if self.relu else x * 0.5


class Conv(nn.Conv2d):
    """A convolution that keeps the size (before its stride)."""

    def __init__(self, ins, outs, kernel, config, *, stride=1, dilation=1, groups=1, bias=False):
        self.reach = kernel // 2 * dilation
        self.wraps = config.periodic_longitude and self.reach > 0
        padding = (self.reach, 0 if self.wraps else self.reach)
        super().__init__(ins, outs, kernel, stride, padding, dilation, groups, bias=bias)
        he_uniform_(self.weight, ins // groups * kernel * kernel)
        if bias:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(wrap(x, self.reach, self.reach) if self.wraps else x)


class Unit(Conv):
    """Convolution without bias, normalisation, ReLU."""

    def __init__(self, ins, outs, kernel, config, **geometry):
        super().__init__(ins, outs, kernel, config, **geometry)
        self.norm = norm_relu(outs, config)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(super().forward(x))


class Upsample(nn.ConvTranspose2d):
    """A transposed 3x3 convolution that doubles the extents, cut to `size`."""

    def __init__(self, ins: int, outs: int, config: Config, *, bias: bool = False):
        super().__init__(ins, outs, 3, 2, 1, bias=bias)
        self.wraps = config.periodic_longitude
        he_uniform_(self.weight, ins * 9 // 4)
        if bias:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        # The last column of the output reaches past the date line: one more column of input, and its overhang is cut.
        x = wrap(x, 0, 1) if self.wraps else x
        extra = (1, 0 if self.wraps else 1)
        y = F.conv_transpose2d(x, self.weight, self.bias, self.stride, self.padding, extra)
        if y.shape[2:] != size:
            y = y[..., : size[0], : size[1]]
        return y


class Double(Upsample):
    """With normalisation and ReLU after it, where batch normalisation is on."""

    def __init__(self, channels: int, config: Config):
        super().__init__(channels, channels, config, bias=not config.batch_norm)
        self.norm = norm_relu(channels, config) if config.batch_norm else None

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        y = super().forward(x, size)
        return y if self.norm is None else self.norm(y)


def he_uniform_(weight: Tensor, fan_in: int) -> None:
    bound = math.sqrt(6 / fan_in)
    nn.init.uniform_(weight, -bound, bound)


class Bottleneck(nn.Module):
    """The pre-activated unit of ResNet v2 (He et al. 2016, in the layout of TensorFlow slim)."""

    def __init__(self, ins, inner, outs, stride, dilation, config):
        super().__init__()
        self.stride = stride
        self.preact = norm_relu(ins, config) if config.batch_norm else Half(config.preactivation_relu)
        self.shortcut = Conv(ins, outs, 1, config, stride=stride, bias=True) if ins != outs else None
        self.conv1 = Unit(ins, inner, 1, config)
        self.conv2 = Unit(inner, inner, 3, config, stride=stride, dilation=dilation)
        self.conv3 = Conv(inner, outs, 1, config, bias=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        active = self.preact(x)
        if self.shortcut is not None:
            shortcut = self.shortcut(active)
        else:
            shortcut = x[:, :, :: self.stride, :: self.stride]
        reduced = self.conv1(active)
        return self.conv3(self.conv2(reduced)) + shortcut, reduced


class Encoder(nn.Module):
    """Stem and blocks; a block's stride sits in its last unit, and turns into dilation once the output stride is reached."""

    def __init__(self, config: Config):
        super().__init__()
        self.periodic = config.periodic_longitude
        ins = config.encoder_channels(64)
        self.stem = Conv(config.inputs, ins, 7, config, stride=2, bias=True)
        reached, dilation, last = 4, 1, len(config.blocks) - 1
        self.blocks = []
        for block, count in enumerate(config.blocks):
            inner = config.encoder_channels(64 << block)
            units = nn.Module()
            for unit in range(count):
                shrinks = unit + 1 == count and block < last
                atrous = shrinks and reached == config.output_stride
                stride = 2 if shrinks and not atrous else 1
                units.add_module(f"unit{unit + 1}", Bottleneck(ins, inner, 4 * inner, stride, dilation, config))
                reached, dilation, ins = reached * stride, dilation * (2 if atrous else 1), 4 * inner
            self.add_module(f"block{block + 1}", units)
            self.blocks.append(list(units.children()))
        self.post = norm_relu(ins, config) if config.batch_norm else None
        self.channels_out = ins

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.stem(x)
        x = F.max_pool2d(wrap(x, 1, 1), 3, 2, (1, 0)) if self.periodic else F.max_pool2d(x, 3, 2, 1)
        low = x
        for number, units in enumerate(self.blocks):
            for unit in units:
                x, reduced = unit(x)
            low = reduced if number == 0 else low
        return (x if self.post is None else self.post(x)), low


class Pyramid(nn.Module):
    """Atrous spatial pyramid pooling (Chen et al. 2018)."""

    def __init__(self, ins: int, config: Config):
        super().__init__()
        outs = config.decoder_channels(256)
        self.conv_1x1 = Unit(ins, outs, 1, config)
        self.branches = [self.conv_1x1]
        for i, rate in enumerate(config.atrous_rates):
            self.branches.append(Unit(ins, outs, 3, config, dilation=rate))
            self.add_module(f"conv_3x3_{i + 1}", self.branches[-1])
        self.image_pooling = ImagePooling(ins, outs, config)
        self.mix = Unit(outs * (len(self.branches) + 1), outs, 1, config)

    def forward(self, x: Tensor) -> Tensor:
        parts = [branch(x) for branch in self.branches]
        return self.mix(torch.cat([*parts, self.image_pooling(x)], dim=1))


class ImagePooling(Conv):
    """The field's mean, through a 1x1 and a ReLU, at every pixel.

    One value per sample has no batch statistics worth the name: there is a bias instead, a half without batch
    normalisation, a trainable factor and shift in DeepCAM.
    """

    def __init__(self, ins: int, outs: int, config: Config):
        deepcam = config.name == "deepcam"
        super().__init__(ins, outs, 1, config, bias=config.batch_norm and not deepcam)
        self.factor = 1.0 if config.batch_norm else 0.5
        if deepcam:
            self.scale = nn.Parameter(torch.ones(outs))
            self.shift = nn.Parameter(torch.zeros(outs))

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x.mean((2, 3), keepdim=True)) * self.factor
        if hasattr(self, "scale"):
            y = y * self.scale[:, None, None] + self.shift[:, None, None]
        return F.relu(y).expand(-1, -1, *x.shape[2:])


class Decoder(nn.Module):
    """`bilinear`, `deconv`, or `deconv1x` (the SC18 one, with the input itself beside the decoded features)."""

    def __init__(self, config: Config):
        super().__init__()
        self.periodic = config.periodic_longitude
        self.bilinear = config.name.endswith("-bilinear")
        channels, low = config.decoder_channels(256), config.decoder_channels(48)
        self.low_level = Unit(config.encoder_channels(64), low, 1, config)
        self.refine1 = Unit(channels + low, channels, 3, config)
        self.refine2 = Unit(channels, channels, 3, config)
        if not self.bilinear:
            self.up1, self.up2, self.up3 = (Double(channels, config) for _ in range(3))
        self.skip = config.name == "deeplabv3plus"
        if self.skip:
            first, second = config.decoder_channels(64), config.decoder_channels(128)
            full = self._full(config)
            self.skip1, self.skip2 = full(config.inputs, first), full(first, second)
            self.full1, self.full2 = full(channels + second, channels), full(channels, channels)
        self.classify = Conv(channels, config.classes, 1, config, bias=True)

    @staticmethod
    def _full(config: Config):
        # As published, layers at full resolution have a bias and neither normalisation nor activation.
        if config.batch_norm:
            return lambda ins, outs: Unit(ins, outs, 3, config)
        return lambda ins, outs: Conv(ins, outs, 3, config, bias=True)

    def forward(self, deep: Tensor, low: Tensor, x: Tensor) -> Tensor:
        h, w = x.shape[2:]
        quarter = tuple(low.shape[2:])
        deep = resize(deep, quarter, self.periodic) if self.bilinear else self.up1(deep, quarter)
        y = self.refine2(self.refine1(torch.cat([deep, self.low_level(low)], dim=1)))
        if self.bilinear:
            return resize(self.classify(y), (h, w), self.periodic)
        y = self.up3(self.up2(y, ((h + 1) // 2, (w + 1) // 2)), (h, w))
        if self.skip:
            y = self.full2(self.full1(torch.cat([y, self.skip2(self.skip1(x))], dim=1)))
        return self.classify(y)


class DeepLabV3Plus(nn.Module):
    """Encoder, pyramid, decoder (Kurth et al. 2018, arXiv:1810.01993)."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.aspp = Pyramid(self.encoder.channels_out, config)
        self.decoder = Decoder(config)

    def forward(self, x: Tensor) -> Tensor:
        """(b, c, h, w) to the logits (b, k, h, w)."""
        if self.config.latitude_input:
            x = torch.cat([x, latitude(x)], dim=1)
        deep, low = self.encoder(x)
        deep = F.dropout(self.aspp(deep), self.config.dropout, self.training)
        return self.decoder(deep, low, x)


def latitude(x: Tensor) -> Tensor:
    """The position of every row, from -1 to 1, and its square."""
    h = x.shape[2]
    position = 2 * (torch.arange(h, device=x.device, dtype=torch.float32) + 0.5) / h - 1
    both = torch.stack([position, position**2])[None, :, :, None].to(x.dtype)
    return both.expand(x.shape[0], -1, -1, x.shape[3])


class Separable(nn.Module):
    """Depthwise 3x3, then 1x1, nothing between; normalised or not, never followed by a ReLU of its own."""

    def __init__(self, ins, outs, config, *, stride=1, dilation=1, norm=True):
        super().__init__()
        self.depthwise = Conv(ins, ins, 3, config, stride=stride, dilation=dilation, groups=ins)
        self.pointwise = Conv(ins, outs, 1, config)
        self.norm = batch_norm(outs, config) if norm else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.pointwise(self.depthwise(x)))


class Skip(Conv):
    """The 1x1 of a shortcut, normalised."""

    def __init__(self, ins, outs, config, stride):
        super().__init__(ins, outs, 1, config, stride=stride)
        self.norm = batch_norm(outs, config)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(super().forward(x))


class XceptionBlock(nn.Module):
    """Separable units, a ReLU between two, around the identity or (with a stride) one more unit and a 1x1."""

    def __init__(self, channels: list[int], stride: int | None, relu: bool, config: Config):
        super().__init__()
        self.relu = relu
        self.units = []
        for i, (ins, outs) in enumerate(zip(channels, channels[1:])):
            self.units.append(Separable(ins, outs, config))
            self.add_module(f"sep{i + 1}", self.units[-1])
        self.last = self.skip = None
        if stride is not None:
            self.last = Separable(channels[-1], channels[-1], config, stride=stride, norm=False)
            self.skip = Skip(channels[0], channels[-1], config, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for i, unit in enumerate(self.units):
            y = unit(F.relu(y) if i else y)
        y = y + x if self.last is None else self.last(y) + self.skip(x)
        return F.relu(y) if self.relu else y


class Xception(nn.Module):
    """The modified aligned Xception of MLPerf DeepCAM, at a sixteenth of the input."""

    def __init__(self, config: Config):
        super().__init__()
        c = config.encoder_channels
        middle = config.blocks[0]
        self.stem1 = Unit(config.inputs, c(32), 3, config, stride=2)
        self.stem2 = Unit(c(32), c(64), 3, config)
        plan: list[tuple[list[int], int | None]] = [([64, 128, 128], 2), ([128, 256, 256], 2), ([256, 728, 728], 2)]
        plan += [([728] * 4, None)] * middle + [([728, 728, 1024], 1)]
        self.blocks = []
        for i, (channels, stride) in enumerate(plan):
            self.blocks.append(XceptionBlock([c(n) for n in channels], stride, i < middle + 3, config))
            self.add_module(f"block{i + 1}", self.blocks[-1])
        self.exits = []
        for i, (ins, outs) in enumerate([(1024, 1536), (1536, 1536), (1536, 2048)]):
            self.exits.append(Separable(c(ins), c(outs), config, dilation=2))
            self.add_module(f"exit{i + 1}", self.exits[-1])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = low = self.blocks[0](self.stem2(self.stem1(x)))
        for block in self.blocks[1:]:
            x = block(x)
        for unit in self.exits:
            x = F.relu(unit(x))
        return x, low


class DeepCamDecoder(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        channels, low = config.decoder_channels(256), config.decoder_channels(48)
        self.low_level = Unit(config.encoder_channels(128), low, 1, config)
        self.up1, self.up2, self.up3 = (Double(channels, config) for _ in range(3))
        self.refine1 = Unit(channels + low, channels, 3, config)
        self.refine2 = Unit(channels, channels, 3, config)
        self.project = Conv(channels, channels, 1, config, bias=True)
        self.classify = Upsample(channels, config.classes, config)

    def forward(self, deep: Tensor, low: Tensor, size: tuple[int, int]) -> Tensor:
        half = lambda extents: tuple((n + 1) // 2 for n in extents)
        y = self.up2(self.up1(deep, half(low.shape[2:])), tuple(low.shape[2:]))
        y = self.refine2(self.refine1(torch.cat([y, self.low_level(low)], dim=1)))
        return self.classify(self.up3(self.project(y), half(size)), size)


class DeepCam(nn.Module):
    """DeepLabV3+ on Xception (MLPerf HPC DeepCAM)."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.encoder = Xception(config)
        self.aspp = Pyramid(config.encoder_channels(2048), config)
        self.decoder = DeepCamDecoder(config)

    def forward(self, x: Tensor) -> Tensor:
        """(b, c, h, w) to the logits (b, k, h, w)."""
        if self.config.latitude_input:
            x = torch.cat([x, latitude(x)], dim=1)
        deep, low = self.encoder(x)
        return self.decoder(self.aspp(deep), low, tuple(x.shape[2:]))


class Step(Conv):
    """Convolution, normalisation or in its place a bias, ReLU, dropout."""

    def __init__(self, ins: int, outs: int, kernel: int, config: Config, *, stride: int = 1):
        super().__init__(ins, outs, kernel, config, stride=stride, bias=not config.batch_norm)
        self.norm = norm_relu(outs, config) if config.batch_norm else None
        self.dropout = config.dropout

    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        y = F.relu(y, inplace=True) if self.norm is None else self.norm(y)
        return F.dropout(y, self.dropout, self.training)


class Dense(nn.Module):
    """Layers each of which reads the block's input and what all before it added; gives all of it or what was added."""

    def __init__(self, ins: int, layers: int, whole: bool, config: Config):
        super().__init__()
        growth = config.encoder_channels(config.growth)
        self.whole, self.layers = whole, []
        for i in range(layers):
            self.layers.append(Step(ins + i * growth, growth, config.kernel, config))
            self.add_module(f"layer{i + 1}", self.layers[-1])
        self.channels_out = (ins if whole else 0) + layers * growth

    def forward(self, x: Tensor) -> Tensor:
        parts = [x]
        for layer in self.layers:
            parts.append(layer(torch.cat(parts, dim=1)))
        return torch.cat(parts if self.whole else parts[1:], dim=1)


class Tiramisu(nn.Module):
    """A fully convolutional DenseNet (Jégou et al. 2017, arXiv:1611.09326, in the form of Kurth et al. 2018)."""

    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        channels = config.encoder_channels(48)
        self.input = Step(config.inputs, channels, config.kernel, config)
        self.down, self.up = [], []
        *above, bottom = config.blocks
        for i, layers in enumerate(above):
            block = Dense(channels, layers, True, config)
            channels = block.channels_out
            block.halve = Step(channels, channels, 1, config, stride=2)
            self.down.append(block)
            self.add_module(f"down{i + 1}", block)
        self.bottom = Dense(channels, bottom, False, config)
        channels = self.bottom.channels_out
        for i, layers in reversed(list(enumerate(above))):
            block = Dense(channels + self.down[i].channels_out, layers, i == 0, config)
            block.double = Upsample(channels, channels, config, bias=True)
            channels = block.channels_out
            self.up.append(block)
            self.add_module(f"up{i + 1}", block)
        self.classify = Conv(channels, config.classes, 1, config, bias=True)

    def forward(self, x: Tensor) -> Tensor:
        """(b, c, h, w) to the logits (b, k, h, w)."""
        if self.config.latitude_input:
            x = torch.cat([x, latitude(x)], dim=1)
        y, skips = self.input(x), []
        for block in self.down:
            skips.append(block(y))
            y = block.halve(skips[-1])
        y = self.bottom(y)
        for block in self.up:
            skip = skips.pop()
            double = block._modules["double"]  # as an attribute it is nn.Module's own method
            y = block(torch.cat([double(y, tuple(skip.shape[2:])), skip], dim=1))
        return self.classify(y)


NETWORKS = {
    "deeplabv3plus": DeepLabV3Plus,
    "deeplabv3plus-deconv": DeepLabV3Plus,
    "deeplabv3plus-bilinear": DeepLabV3Plus,
    "deepcam": DeepCam,
    "tiramisu": Tiramisu,
}


def build(config: Config | dict | str) -> nn.Module:
    """The network of a configuration, channels_last, with initial values of Squall's distribution."""
    config = config if isinstance(config, Config) else Config.parse(config)
    if config.name.startswith("detector"):
        from detectors import DETECTORS as known  # which is built from the layers of this file
    else:
        known = NETWORKS
    if config.name not in known:
        raise ValueError(f"no PyTorch form of `{config.name}`; there are {sorted(known)}")
    network = known[config.name](config)
    # Kernels over time have five axes, which this format does not know; fields in it are clips in channels_last_3d.
    return network if config.name == "detector-3d" else network.to(memory_format=torch.channels_last)
