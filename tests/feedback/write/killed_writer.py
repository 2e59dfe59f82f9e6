"""A process that logs until it is killed; it prints how many requests are on the disk for certain."""

import sys
from itertools import count
from pathlib import Path

from shortlist.data import Vocabulary
from shortlist.feedback.write.writer import FullStageLogger, LogSettings
from tests.feedback.logs import START, funnel, meta_of, traces


def main() -> None:
    root, first = Path(sys.argv[1]), int(sys.argv[2])
    runs = traces(funnel(60, 20, 5), 5)
    log = FullStageLogger(root, Vocabulary.of(range(60)), settings=LogSettings(rotate_bytes=40_000))
    print("ready", flush=True)
    for number in count():
        log.offer(runs[number % 5], meta_of(runs[number % 5], START, 1000, first + number))
        if number % 5 == 4:
            log.flush()
            print(number + 1, flush=True)


if __name__ == "__main__":
    main()
