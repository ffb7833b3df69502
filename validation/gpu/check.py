"""Checks what only a GPU can show, step by step; a failed step does not prevent the next.

OUT/check.json and OUT/check.md are rewritten after every step, so an interrupted run keeps its results. Exit code 1: a
step failed, took too long or had no time left, or an aim was missed on the card for which it is set.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path

import steps
from program import Failed, OutOfTime, Program, Step
from table import markdown

# Name, time limit in seconds, function. PyTorch compiles during the first five, which time nothing.
STEPS = [
    ("gpu", 60, steps.gpu),
    ("golden", 90, steps.golden),
    ("operations", 180, steps.operations),
    ("learning", 180, steps.learning),
    ("inference", 60, steps.inference),
    ("pytorch", 240, steps.pytorch),
    ("speed", 240, steps.speed),
    ("graphs", 60, steps.graphs),
    ("memory", 60, steps.memory),
    ("optimizers", 60, steps.optimizers),
    ("two-gpus", 90, steps.two_gpus),
    ("profile", 60, steps.profile),
    ("extents", 120, steps.extents),
    ("from-store", 150, steps.from_store),
    ("pytorch-others", 420, steps.pytorch_others),
]
# Steps that do not fit into eight minutes: run by --only or --all.
MORE = ["from-store", "pytorch-others"]


def run(squall: Program, names: list[str]) -> bool:
    """Runs the steps of these names; returns whether all passed."""
    done = []
    for name, limit, act in STEPS:
        if name not in names and name != "gpu":
            continue
        step = Step(name, " ".join((act.__doc__ or "").split()))
        done.append(step)
        print(f"== {name}: {step.about}", flush=True)
        began = time.monotonic()
        # No limit for a stand-in.
        squall.ends = began + (3600 if squall.tiny else limit)
        if began >= squall.deadline:
            step.said.append("no time left")
        else:
            attempt(squall, step, act)
        step.seconds = time.monotonic() - began
        for said in step.said:
            print(f"   {said}")
        print(f"   {step.status} in {step.seconds:.1f} s", flush=True)
        write(squall, done)
        if name == "gpu":
            if step.status != "passed":
                break
            # The peers of `pytorch-others` start in that step: earlier steps may time something.
            if "pytorch" in names:
                squall.start_peers("deepcam")
    return all(step.status in ("passed", "skipped") for step in done)


def attempt(squall: Program, step: Step, act) -> None:
    """Runs a step and records its outcome, also of an error."""
    try:
        act(squall, step)
        if step.status == "not run":
            step.status = "passed"
    except Failed as failed:
        step.status = "failed"
        step.said.append(str(failed))
    except OutOfTime as late:
        step.status = "out of time"
        step.said.append(str(late))
    except Exception as error:  # Any kind, such as an unexpected answer: the next step still runs.
        step.status = "failed"
        step.said.append(f"{type(error).__name__}: {error}")
    if step.broken:
        step.status = "failed"
        step.said += step.broken


def write(squall: Program, done: list[Step]) -> None:
    """Writes both files with the steps so far."""
    result = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "card": squall.card,
        "program": squall.version,
        "extents": "tiny" if squall.tiny else "quick" if squall.quick else "full",
        "steps": [asdict(step) for step in done],
    }
    (squall.out / "check.json").write_text(json.dumps(result, indent=1) + "\n")
    (squall.out / "check.md").write_text(markdown(result))


def main() -> int:
    parser = argparse.ArgumentParser(prog="check.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("squall", type=Path, metavar="SQUALL", help="the program of `./run.sh cuda-build`")
    parser.add_argument("out", type=Path, metavar="OUT", help="folder for results")
    parser.add_argument("--quick", action="store_true", help="smaller and fewer checks, in about three minutes")
    parser.add_argument("--tiny", action="store_true", help="sizes for the stand-in GPU of the tests")
    parser.add_argument("--minutes", type=float, help="total time limit: later steps are not started (default 8; with --all 20)")
    parser.add_argument("--all", action="store_true", help=f"include {', '.join(MORE)}, which take up to ten minutes more")
    parser.add_argument("--seeds", default="1,2,3", metavar="N,...", help="seeds of `learning` (default 1,2,3)")
    parser.add_argument("--only", default="", metavar="STEP,...", help="run only these steps, after `gpu`")
    options = parser.parse_args()
    if not options.squall.is_file():
        parser.error(f"there is no program {options.squall}")
    options.minutes = options.minutes or (20.0 if options.all else 8.0)
    squall = Program(options)
    known = [name for name, *_ in STEPS]
    names = [name for name in options.only.split(",") if name] or [name for name in known if options.all or name not in MORE]
    if unknown := set(names) - set(known):
        parser.error(f"no such step: {', '.join(sorted(unknown))}")
    try:
        well = run(squall, names)
    finally:
        squall.stop_peers()
    print(f"\n{'all came out well' if well else 'NOT all came out well'}: {squall.out / 'check.md'}")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
