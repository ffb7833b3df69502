"""Tests of peers with a stand-in for PyTorch: requests, and peers that do not answer."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import peers

# Replaces `step.py`: reports starts and requests, and keeps a choice; `graphs` fails while tuning, `eager` prints no JSON.
STAND_IN = '''
import json, os, sys
from pathlib import Path
words = dict(zip(sys.argv[1::1], sys.argv[2::1]))
code, mode, warm = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"]), words["--mode"], int(words["--warmup"])
code.mkdir(exist_ok=True)
choice = code / "kernel.best_config"
print(f"{mode} begins", file=sys.stderr)
print("no JSON" if mode == "eager" else json.dumps({"parameters": 7, "chosen": choice.exists()}), flush=True)
for line in sys.stdin:
    if mode == "graphs" and warm:
        sys.exit("it does not fit")
    choice.write_text("")
    print(json.dumps({"work": line.strip(), "warm": warm}), flush=True)
'''

# The part of PyTorch that is used to find a GPU.
TORCH = """from types import SimpleNamespace
cuda = SimpleNamespace(is_available=lambda: True, get_device_properties=lambda number: SimpleNamespace(total_memory=80e9))
"""


def ended(peer: peers.Peer) -> bool:
    return peer.child is None or peer.child.poll() is not None


def asked(peer: peers.Peer, works: str) -> subprocess.CompletedProcess:
    """Requests work like `squall bench`."""
    return subprocess.run(peer.command().split(), input=works, capture_output=True, text=True, timeout=20)


def check(folder: Path) -> None:
    # A PyTorch that hangs counts as missing.
    (folder / "torch.py").write_text(TORCH)
    assert peers.sees_a_gpu(os.environ | {"PYTHONPATH": str(folder)})
    (folder / "torch.py").write_text(f"{TORCH}import time\ntime.sleep(10)\n")
    peers.LONGEST_IMPORT = 1
    assert not peers.sees_a_gpu(os.environ | {"PYTHONPATH": str(folder)})
    peers.STEP = folder / "step.py"
    peers.STEP.write_text(STAND_IN)
    good, ends, mute, stopped = (peers.Peer(folder, *of, dict(os.environ)) for of in (
        ("deepcam", "compile"), ("deepcam", "graphs"), ("deepcam", "eager"), ("detector-2d", "compile"),
    ))  # fmt: skip
    stopped.stop()
    began = time.monotonic()
    for peer in (good, ends, mute, stopped):
        assert peer.settled.wait(20), peer.name
    assert ended(stopped) and stopped.why_not, stopped.why_not
    assert ended(mute) and "JSON" in mute.why_not, mute.why_not
    assert (good.why_not, good.parameters, ends.why_not) == ("", 7, "")
    # Choices made beside other work are gone, and nothing is tuned before the request.
    assert not list(folder.rglob("*.best_config"))
    for peer in (good, ends, mute):
        peer.tune(time.monotonic() + 20)
    assert not good.why_not and list(good.code.rglob("*.best_config"))
    assert ended(ends) and "it does not fit" in ends.why_not, ends.why_not
    answers = asked(good, "step\ninfer\n").stdout.splitlines()
    assert len(answers) == 3 and all(f'"warm": {peers.WARM}' in answer for answer in answers[1:]), answers
    good.child.kill()
    good.child.wait()
    dead = asked(good, "step\n")
    assert dead.returncode == 1 and "has ended" in dead.stderr, dead
    assert time.monotonic() - began < 20
    for peer in (good, ends, mute, stopped):
        peer.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        check(Path(made))
    print("peers answer, or are given up")
