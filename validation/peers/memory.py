"""The highest memory use of this process."""

from __future__ import annotations

import resource


def peak_mb() -> float:
    """The highest resident memory so far, in MB.

    `ru_maxrss` begins with the peak of the program that started this one, which may be larger than all that comes.
    """
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024 / 1e6
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
