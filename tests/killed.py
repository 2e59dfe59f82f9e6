"""Saves an artifact again and again, killed one step later each time; tells on stdout what was left.

Run as a program of its own, so that the killed children are copies of something small and quiet.
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


def deadly(step: int) -> None:
    """From now on, the process is killed before or after the step-th thing it does to the disk."""
    count = 0

    def wrap(call):
        def wrapped(*given, **named):
            for turn in (0, 1):
                nonlocal count
                count += 1
                if count == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                if turn == 0:
                    result = call(*given, **named)
            return result

        return wrapped

    artifact._write, staging._sync = wrap(artifact._write), wrap(staging._sync)
    Path.rename, os.unlink, os.rmdir = wrap(Path.rename), wrap(os.unlink), wrap(os.rmdir)


def killed_at(step: int, folder: Path) -> bool:
    """Whether a save was killed at this step; False once it comes to its end first."""
    child = os.fork()
    if child == 0:
        deadly(step)
        save(folder, "new")
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def stands(folder: Path) -> str:
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
        left = stands(folder)
        save(folder, "newer")
        said = {"left": left, "then": stands(folder), "files": sorted(os.listdir(folder.parent))}
        print(json.dumps({"step": step, "killed": again, **said}), flush=True)
        shutil.rmtree(folder.parent)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] == "old")
