"""Save an artifact repeatedly, killed one step later each time; print what was left.

Run as its own program, so that the killed children are copies of a small process.
"""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import torch

from shortlist.artifact import staging
from shortlist.artifact import store as artifact
from shortlist.errors import ArtifactError


def save(folder: Path, word: str) -> None:
    parts = {"a.txt": word, "deep/w.safetensors": {"w": torch.ones(3)}}
    artifact.save(folder, "toy", parts, artifact.Lineage(), {"word": word}, overwrite=True)


def kill_at(step: int) -> None:
    """Kill this process before or after its step-th change of the disk."""
    count = 0

    def wrap(call):
        def wrapped(*args, **kwargs):
            for after in (False, True):
                nonlocal count
                count += 1
                if count == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                if not after:
                    result = call(*args, **kwargs)
            return result

        return wrapped

    artifact._write, staging._sync = wrap(artifact._write), wrap(staging._sync)
    Path.rename, os.unlink, os.rmdir = wrap(Path.rename), wrap(os.unlink), wrap(os.rmdir)


def killed_at(step: int, folder: Path) -> bool:
    """Whether a save was killed at this step; False if it ended before."""
    child = os.fork()
    if child == 0:
        kill_at(step)
        save(folder, "new")
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def content(folder: Path) -> str:
    try:
        return artifact.load(folder).text("a.txt")
    except ArtifactError as error:
        return f"refused: {error}"


def main(root: Path, old: bool) -> None:
    step, again = 0, True
    while again:
        step += 1
        folder = root / f"at-{step}" / "m"
        if old:
            save(folder, "old")
        again = killed_at(step, folder)
        left = content(folder)
        save(folder, "newer")
        outcome = {"left": left, "then": content(folder), "files": sorted(os.listdir(folder.parent))}
        print(json.dumps({"step": step, "killed": again, **outcome}), flush=True)
        shutil.rmtree(folder.parent)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] == "old")
