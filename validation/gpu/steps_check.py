"""Steps that are cut off: what did not come out as it must by then is told."""

from __future__ import annotations

from types import SimpleNamespace

import check
import steps
from program import Failed, OutOfTime, Step


def squall(answers: list) -> SimpleNamespace:
    """A program that gives these answers, one after the other, and then has no time left."""
    left = iter(answers)

    def bench(*_, **__):
        answer = next(left, None)
        if answer is None:
            raise OutOfTime("no time left")
        if isinstance(answer, Exception):
            raise answer
        return answer

    return SimpleNamespace(tiny=False, quick=False, repeat=1, card="", bench=bench)


def ran(act, *answers) -> Step:
    step = Step("name", "about")
    check.attempt(squall(list(answers)), step, act)
    return step


def parity(distance: float) -> dict:
    worst = [{"distance": distance, "bound": 1e-3}] * 3
    return {"rows": [{"subject": "conv1", "what": "dw", "place": "0", "worst": worst}]}


def timed(peak_mb: float) -> list[dict]:
    row = {"ours": 1.0, "flops_per_second": 1.0, "ceiling_percent": 1.0, "peak_mb": peak_mb, "predicted_mb": 100.0}
    return [row | dict.fromkeys(["peer", "peer_mode", "peer_peak_mb", "ratio"])]


def main() -> None:
    # The second network of `extents` has no time: the first one's miss is told.
    cut = ran(steps.extents, parity(1.0))
    assert cut.status == "failed" and len(cut.rows) == 1, cut
    assert any("conv1 dw" in said for said in cut.said) and "no time left" in cut.said, cut
    held = ran(steps.extents, parity(1e-4))
    assert (held.status, held.said) == ("out of time", ["no time left"]), held
    whole = ran(steps.extents, parity(1e-4), parity(1e-4))
    assert (whole.status, whole.said) == ("passed", []), whole
    missed = ran(steps.extents, parity(1e-4), parity(1.0))
    assert missed.status == "failed" and len(missed.said) == 1, missed
    # An answer of which nobody thought ends its step alone.
    odd = ran(steps.speed, [{**timed(1.0)[0], "ours": 0.0}])
    assert odd.status == "failed" and any("ZeroDivisionError" in said for said in odd.said), odd
    # A case of `speed` fails, another takes too much memory, the third has no time.
    slow = ran(steps.speed, Failed("broken"), timed(111.0))
    assert slow.status == "failed" and len(slow.rows) == 1, slow
    for told in ("broken", "more memory than was predicted", "no time left"):
        assert any(told in said for said in slow.said), (told, slow)


if __name__ == "__main__":
    main()
    print("what was missed is told")
