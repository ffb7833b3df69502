"""The program under test: its commands with time limits, and the data that they share."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sysconfig
import time
from dataclasses import dataclass, field
from pathlib import Path

from peers import Peer, sees_a_gpu


class Failed(Exception):
    """A step has a wrong result."""


class OutOfTime(Exception):
    """A command exceeded the time of its step."""


@dataclass
class Step:
    """One step and its outcome."""

    name: str
    about: str
    status: str = "not run"
    seconds: float = 0.0
    said: list[str] = field(default_factory=list)
    rows: list[dict] = field(default_factory=list)
    # Wrong results so far; an interrupted step reports them, too.
    broken: list[str] = field(default_factory=list)


class Program:
    """The program, the output folder, the sizes, and the findings."""

    def __init__(self, options: argparse.Namespace):
        self.squall = str(options.squall.resolve())
        self.out = options.out.resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.tiny, self.quick = options.tiny, options.quick or options.tiny
        self.deadline = time.monotonic() + 60 * options.minutes
        self.seeds = [int(seed) for seed in options.seeds.split(",")]
        self.repeat = 2 if self.tiny else 4 if self.quick else 10
        self.card, self.version = "", ""
        self.peers: list[Peer] = []
        # Open MPI needs these as root, and with fewer cores than ranks.
        launcher = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}
        self.environment = os.environ | libraries() | launcher
        self.ends = self.deadline

    def run(self, *words: object, name: str | None = None, expect: int | None = 0) -> str:
        """Returns the program's standard output; standard error goes to a file of this name. Killed when the step's time is up."""
        command = [self.squall, *map(str, words)]
        return self.command(command, name or str(words[0]), expect)

    def command(self, command: list[str], name: str, expect: int | None = 0) -> str:
        left = min(self.ends, self.deadline) - time.monotonic()
        errors = self.out / f"{name}.log"
        with errors.open("w") as log:
            child = subprocess.Popen(
                command, cwd=self.out, env=self.environment, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )
            try:
                output, _ = child.communicate(timeout=max(left, 1))
            except BaseException as stop:
                # Also on ^C, which does not reach a separate session.
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                if isinstance(stop, subprocess.TimeoutExpired):
                    raise OutOfTime(f"`{' '.join(command[1:4])}` was stopped: no time left") from None
                raise
        if expect is not None and child.returncode != expect:
            last = errors.read_text(errors="replace").strip().splitlines()[-3:]
            raise Failed(f"`{' '.join(command[1:4])}` ended with {child.returncode}: {' / '.join(last)}")
        return output

    def bench(self, part: str, *words: object, name: str, expect: int | None = 0):
        return json.loads(self.run("bench", part, *words, "--device", "cuda", "--json", name=name, expect=expect))

    def train(self, name: str, device: str, steps: int, *settings: str, recipe: str = "small", store: str = "store") -> list[float]:
        """Trains a run of this name, and returns its losses."""
        folder = self.out / name
        shutil.rmtree(folder, ignore_errors=True)
        words = ["--recipe", recipe, "--data", store, "--out", folder, "--device", device, "-q"]
        for setting in (f"training.steps={steps}", f"training.validate_every_steps={steps}", *self.narrow(), *settings):
            words += ["--set", setting]
        self.run("train", *words, name=name)
        lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
        return [line["loss"] for line in lines if line.get("kind") == "step"]

    def start_peers(self, *networks: str) -> None:
        """Starts PyTorch's networks in its fast modes, which compile during the following steps."""
        if self.tiny or not sees_a_gpu(self.environment):
            return
        folder = self.out / "peers"
        folder.mkdir(exist_ok=True)
        modes = ["compile"] if self.quick else ["compile", "graphs"]
        self.peers = [Peer(folder, network, mode, self.environment) for network in networks for mode in modes]

    def stop_peers(self) -> None:
        for peer in self.peers:
            peer.stop()
        self.peers = []

    def narrow(self) -> list[str]:
        """Settings for a stand-in, which is a thousand times slower."""
        return ["network.width=0.08", "network.decoder_width=0.05"] if self.tiny else []

    def store(self, name: str = "store", grid: str = "", days: int = 0, hours: int = 6, block: int = 5) -> None:
        """Makes fields, labels and samples for training and inference; by default as many as the size of the check needs."""
        if not grid:
            # The full check has as many days as `squall demo`.
            grid, days, hours = ("24x36", 15, 12) if self.tiny else ("192x288", 30 if self.quick else 90, 6)
            # Blocks that leave samples for validation.
            block = 2 if days == 30 else 5
        run, labels = ("run", "labels") if name == "store" else (f"{name}-run", f"{name}-labels")
        made, extents = self.out / f"{name}.of", f"{grid} {days}"
        if made.is_file() and made.read_text() == extents:
            return
        # An incomplete one, or of other sizes.
        for folder in (run, labels, name):
            shutil.rmtree(self.out / folder, ignore_errors=True)
        self.run("simulate", "--out", run, "--grid", grid, "--days", days, "--hours", hours, "-q")
        self.run("label", run, "--out", labels, "-q")
        self.run("stage", run, "--labels", labels, "--out", name, "--block-days", block, "-q")
        made.write_text(extents)


def libraries() -> dict[str, str]:
    """NVIDIA's libraries from pip, if installed and the environment names no others."""
    packages = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    if "SQUALL_CUDA_LIBRARIES" in os.environ or not packages.is_dir():
        return {}
    return {"SQUALL_CUDA_LIBRARIES": ":".join(map(str, sorted(packages.glob("*/lib"))))}
