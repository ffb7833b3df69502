"""Seconds of a training step or of inference of a PyTorch network on random data: one JSON line.

With --serve it builds the network once, then answers every line `step` or `infer` on standard input with one JSON line,
so that it can be timed in alternation with another program on the same machine. On a GPU activations are channels_last, half
precisions are PyTorch's AMP (with a scaler for f16), and `graphs` is `compile` with CUDA graphs.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from detectors import detection_loss, random_targets
from memory import peak_mb
from networks import Config, build

CLASS_WEIGHTS = [0.02, 0.8, 0.17]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default='{"batch_norm": true}', help="NetworkConfig as JSON, or a file of it")
    parser.add_argument("--size", default="192x288", help="latitudes x longitudes")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--precision", choices=["f32", "bf16", "f16"], default="f32")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--mode", choices=["eager", "compile", "graphs"], default="eager")
    parser.add_argument("--work", choices=["step", "infer"], default="step")
    parser.add_argument("--warmup", type=int, default=2, help="repetitions that do not count")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--serve", action="store_true", help="answer lines of standard input")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch sees no GPU")
    return options


class Peer:
    """A network with its optimiser and data."""

    def __init__(self, options: argparse.Namespace):
        torch.manual_seed(1)
        torch.set_num_threads(options.threads)
        self.options = options
        self.device = torch.device(options.device)
        if options.device == "cuda":
            torch.backends.cudnn.benchmark = True
            # f32 is f32, as in Squall.
            torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        config = Config.parse(options.network)
        h, w = map(int, options.size.lower().split("x"))
        self.network = build(config).to(self.device)
        if options.device == "cuda":
            self.network = self.network.to(memory_format=torch.channels_last)
        self.parameters = sum(p.numel() for p in self.network.parameters())
        self.detects = config.name.startswith("detector")
        # Of a detector over time the batch counts clips.
        frames = options.batch * (config.time_steps if config.name == "detector-3d" else 1)
        x = torch.randn(frames, config.channels_in, h, w, device=self.device)
        self.x = x.to(memory_format=torch.channels_last)
        classes = config.mask_classes or config.classes
        self.labels = torch.randint(0, classes, (frames, h, w), device=self.device)
        self.config = config
        self.weights = torch.tensor((CLASS_WEIGHTS + [1.0] * config.classes)[: config.classes], device=self.device)
        self.optimizer = torch.optim.AdamW(self.network.parameters(), lr=1e-4, weight_decay=0.0, fused=True)
        scaled = options.device == "cuda" and options.precision == "f16"
        self.scaler = torch.amp.GradScaler(options.device, enabled=scaled)
        self.model = self.network
        if options.mode != "eager":
            self.model = torch.compile(self.network, mode="reduce-overhead" if options.mode == "graphs" else "default")

    def autocast(self) -> contextlib.AbstractContextManager:
        if self.options.precision == "f32":
            return contextlib.nullcontext()
        return torch.autocast(self.options.device, {"bf16": torch.bfloat16, "f16": torch.float16}[self.options.precision])

    def loss(self, output) -> torch.Tensor:
        if not self.detects:
            return F.cross_entropy(output.float(), self.labels, self.weights)
        if not hasattr(self, "targets"):
            self.targets = random_targets(output["heads"], self.config)
        return detection_loss(output, self.x, self.targets, self.labels, self.config)

    def step(self) -> float:
        """Forward, the network's loss (weighted cross entropy or that of boxes), backward, Adam; gives the loss."""
        if not self.network.training:
            self.network.train()
        self.optimizer.zero_grad(set_to_none=True)
        with self.autocast():
            output = self.model(self.x)
        loss = self.loss(output)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.item()

    def infer(self) -> float:
        """The most probable class of every pixel (of a detector: of its heads' values); gives the share of class 0."""
        if self.network.training:
            self.network.eval()
        with torch.inference_mode(), self.autocast():
            output = self.model(self.x)
            classes = (output["heads"] if self.detects else output).argmax(1)
        return (classes == 0).float().mean().item()

    def timed(self, work: str) -> float:
        act: Callable[[], float] = {"step": self.step, "infer": self.infer}[work]
        self.wait()
        start = time.perf_counter()
        act()
        self.wait()
        return time.perf_counter() - start

    def wait(self) -> None:
        if self.options.device == "cuda":
            torch.cuda.synchronize()

    def peak_mb(self) -> float:
        """The highest memory use so far, where it computes."""
        if self.options.device == "cuda":
            return torch.cuda.max_memory_allocated() / 1e6
        return peak_mb()

    def report(self, work: str, seconds: list[float]) -> dict:
        options = self.options
        return {
            "work": work,
            "seconds": statistics.median(seconds),
            "all_seconds": seconds,
            "peak_mb": self.peak_mb(),
            "parameters": self.parameters,
            "size": options.size,
            "batch": options.batch,
            "precision": options.precision,
            "device": options.device,
            "mode": options.mode,
            "threads": options.threads,
            "torch": torch.__version__,
        }


def say(result: dict) -> None:
    print(json.dumps(result), flush=True)


def main() -> None:
    options = arguments()
    peer = Peer(options)
    if not options.serve:
        for _ in range(options.warmup):
            peer.timed(options.work)
        say(peer.report(options.work, [peer.timed(options.work) for _ in range(options.repeat)]))
        return
    say({"ready": True, "parameters": peer.parameters, "torch": torch.__version__})
    warm: set[str] = set()
    for line in sys.stdin:
        work = line.strip()
        if work not in ("step", "infer"):
            say({"error": f"expected `step` or `infer`, found `{work}`"})
            continue
        if work not in warm:
            warm.add(work)
            for _ in range(options.warmup):
                peer.timed(work)
        say(peer.report(work, [peer.timed(work)]))


if __name__ == "__main__":
    main()
