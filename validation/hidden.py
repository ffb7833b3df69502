#!/usr/bin/env python3
"""The share of communication that a training on two hosts hid, for validation/scaling.sh.

    hidden.py rate RUN PARTS [RATE]   the link rate, kbit/s, at which sums take as long as these parts of a step: from
                                      the number of parameters, or from the time of sums at RATE (RATE itself if they
                                      differ by less than 3 %)
    hidden.py row RUN NAME RATE       a line of the table

Reads RUN/run.json and RUN/trace.rank0.json. Standard library only.
"""

import json
import re
import sys


def traced(run):
    """Seconds of each kind of work, and the buckets, of every step except the first three, which warm up, and the last two, which
    wait for the rest."""
    kinds = {"forward": [], "backward": [], "update": [], "wait for gradients": []}
    buckets = {}
    for event in json.load(open(f"{run}/trace.rank0.json"))["traceEvents"]:
        if event["name"] in kinds:
            kinds[event["name"]].append(event)
        elif found := re.fullmatch(r"bucket (\d+) of step (\d+)( queued)?", event["name"]):
            bucket, step, queued = found.groups()
            entry = buckets.setdefault(int(step), {}).setdefault(int(bucket), {})
            entry["there"] = min(entry.get("there", event["ts"]), event["ts"])
            if not queued:
                entry["took"] = event["dur"]
                entry["bytes"] = event["args"]["bytes"]
    steps = range(3, max(buckets) - 2)
    spent = {kind: [1e-6 * events[k]["dur"] for k in steps if k < len(events)] for kind, events in kinds.items()}
    spent["communication"] = [1e-6 * sum(b["took"] for b in buckets[k + 1].values()) for k in steps]
    ends = [kinds["backward"][k]["ts"] + kinds["backward"][k]["dur"] for k in steps]
    return spent, list(zip(ends, (buckets[k + 1] for k in steps)))


def mean(values):
    return sum(values) / len(values)


def rate(run, parts, now=None):
    spent, _ = traced(run)
    hiding = sum(mean(spent[part]) for part in parts.split())
    if now is None:
        parameters = json.load(open(f"{run}/run.json"))["plan"]["parameters"]
        return 8e-3 * 4 * parameters / hiding
    ratio = mean(spent["communication"]) / hiding
    return float(now) * (ratio if abs(ratio - 1) > 0.03 else 1)


def possible(steps, rate):
    """The largest share that can be hidden by sending buckets in order, each when it is ready, at the link's full rate."""
    exposed = total = 0.0
    for end, buckets in steps:
        at = 0.0
        for _, bucket in sorted(buckets.items()):
            micros = bucket["bytes"] * 8e3 / rate
            at = max(at, bucket["there"]) + micros
            total += micros
        exposed += max(0.0, at - end)
    return 1 - exposed / total


def row(run, name, rate):
    spent, steps = traced(run)
    ms = {kind: 1e3 * mean(values) for kind, values in spent.items()}
    compute = ms["forward"] + ms["backward"] + ms["update"]
    sums, waited = ms["communication"], ms["wait for gradients"]
    best = "-" if name.endswith("1") else f"{100 * possible(steps, float(rate)):.1f} %"
    return (
        f"| {name} | {float(rate) / 1e3:.0f} Mbit/s | {compute:.0f} ms, {ms['backward']:.0f} ms of it backward | {sums:.0f} ms "
        f"| {waited:.1f} ms | {100 * (1 - waited / sums):.1f} % | {best} |"
    )


match sys.argv[1:]:
    case ["rate", *rest] if len(rest) in (2, 3):
        print(int(rate(*rest)))
    case ["row", run, name, rate]:
        print(row(run, name, rate))
    case _:
        sys.exit(__doc__)
