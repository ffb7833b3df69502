"""The program under check: its commands with a limit of time, and the data that they share."""

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
    """A step did not come out as it must."""


class OutOfTime(Exception):
    """A command took longer than its step may."""


@dataclass
class Step:
    """One step and how it went."""

    name: str
    about: str
    status: str = "not run"
    seconds: float = 0.0
    said: list[str] = field(default_factory=list)
    rows: list[dict] = field(default_factory=list)
    # What did not come out as it must so far: a step that is cut off tells it, too.
    broken: list[str] = field(default_factory=list)


class Program:
    """The program, the folder, the extents, and what was found."""

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
        # As root, and without a core for each rank, Open MPI asks to be told.
        launcher = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}
        self.environment = os.environ | libraries() | launcher
        self.ends = self.deadline

    def run(self, *words: object, name: str | None = None, expect: int | None = 0) -> str:
        """Standard output of the program; standard error goes to a file of this name. Killed when the step's time is up."""
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
                # ^C too: it does not reach a session of its own.
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
        """The losses of a run of this name."""
        folder = self.out / name
        shutil.rmtree(folder, ignore_errors=True)
        words = ["--recipe", recipe, "--data", store, "--out", folder, "--device", device, "-q"]
        for setting in (f"training.steps={steps}", f"training.validate_every_steps={steps}", *self.narrow(), *settings):
            words += ["--set", setting]
        self.run("train", *words, name=name)
        lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
        return [line["loss"] for line in lines if line.get("kind") == "step"]

    def start_peers(self, *networks: str) -> None:
        """Networks of PyTorch in its fast modes, which compile beside what follows."""
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
        """A stand-in computes a thousandth as fast."""
        return ["network.width=0.08", "network.decoder_width=0.05"] if self.tiny else []

    def store(self, name: str = "store", grid: str = "", days: int = 0, hours: int = 6, block: int = 5) -> None:
        """Fields, labels and samples that training and inference use; if nothing else is said, as many as extents ask for."""
        if not grid:
            # In full as many days as `squall demo` has.
            grid, days, hours = ("24x36", 15, 12) if self.tiny else ("192x288", 30 if self.quick else 90, 6)
            # Dealt so that samples are left for validation.
            block = 2 if days == 30 else 5
        run, labels = ("run", "labels") if name == "store" else (f"{name}-run", f"{name}-labels")
        made, extents = self.out / f"{name}.of", f"{grid} {days}"
        if made.is_file() and made.read_text() == extents:
            return
        # One that was cut off, or of other extents.
        for folder in (run, labels, name):
            shutil.rmtree(self.out / folder, ignore_errors=True)
        self.run("simulate", "--out", run, "--grid", grid, "--days", days, "--hours", hours, "-q")
        self.run("label", run, "--out", labels, "-q")
        self.run("stage", run, "--labels", labels, "--out", name, "--block-days", block, "-q")
        made.write_text(extents)


def libraries() -> dict[str, str]:
    """NVIDIA's libraries from pip, if they are there and nothing else is said."""
    packages = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    if "SQUALL_CUDA_LIBRARIES" in os.environ or not packages.is_dir():
        return {}
    return {"SQUALL_CUDA_LIBRARIES": ":".join(map(str, sorted(packages.glob("*/lib"))))}
