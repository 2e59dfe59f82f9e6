"""Run `shortlist recommend --all` in parts of 64 users; with a number above 0, kill this process after so many parts.

Arguments: bundle, output, number.
"""

import os
import signal
import sys

from shortlist.__main__ import main
from shortlist.pipeline.batch import job
from shortlist.pipeline.batch.parts import Parts


def kill_after(count: int) -> None:
    whole, left = Parts.write, [count]

    def write(self: Parts, number: int, rows: object) -> None:
        whole(self, number, rows)
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    Parts.write = write  # type: ignore[method-assign]


if __name__ == "__main__":
    bundle, out, count = sys.argv[1:]
    job.PART = 64
    if int(count):
        kill_after(int(count))
    sys.argv = ["shortlist", "recommend", bundle, "--all", "--out", out, "--json"]
    main()
