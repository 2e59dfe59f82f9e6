"""Start-up time of the command line, over that of programs that only import its libraries."""

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from shortlist.errors import ShortlistError
from shortlist.lab.bench.timing import Job, alternating, estimates
from shortlist.lab.result import Result, at_most, result, row, start
from shortlist.progress import Progress, silent
from shortlist.simulate import embedded
from shortlist.train import train

SOURCE = "target of this project"
RECIPE = "classic"
REPEATS = 7
TYPER_PROGRAM = '''
import typer
from rich.console import Console

app = typer.Typer()


@app.command()
def greet(name: str = typer.Option("world", help="Name to greet.")) -> None:
    """Greet somebody."""
    Console().print(f"Hello, {name}!")


app()
'''


def bench_startup(
    seed: int = 0, repeats: int = REPEATS, size: str = "demo", progress: Progress = silent
) -> Result:
    """Processes of one interpreter in alternation; ratios of median times.

    `help_over_typer`: `shortlist --help` over the `--help` of a one-command typer and rich program.
    `recommend_over_torch`: `shortlist recommend` on a bundle of the embedded data over `import torch`.
    """
    began = start()
    with tempfile.TemporaryDirectory(prefix="shortlist-bench-") as folder:
        progress("bench startup: train", 0, 2)
        jobs = _jobs(Path(folder), seed, size)
        progress("bench startup: measure", 1, 2)
        times = alternating(jobs, repeats)
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    rows = [row(name, "ms", [1e3 * value for value in seconds]) for name, seconds in times.items()]
    claims = [
        at_most("help_over_typer", SOURCE, medians["shortlist --help"] / medians["typer --help"], 2.0),
        at_most(
            "recommend_over_torch", SOURCE, medians["shortlist recommend"] / medians["import torch"], 2.5
        ),
    ]
    profile = f"bundle of the {size} embedded data, median of {repeats} runs"
    return result("startup", profile, [seed], began, rows, claims, figures=estimates(claims))


def _jobs(folder: Path, seed: int, size: str) -> dict[str, Job]:
    """The processes to measure, by name; trains the bundle."""
    program = folder / "greet.py"
    program.write_text(TYPER_PROGRAM)
    dataset = embedded(seed, size)
    train(RECIPE, dataset, folder / "bundle", seed=seed)
    user = str(dataset.users.id(0))
    return {
        "shortlist --help": _process("-m", "shortlist", "--help"),
        "typer --help": _process(str(program), "--help"),
        "shortlist recommend": _process(
            "-m", "shortlist", "recommend", str(folder / "bundle"), "--user", user
        ),
        "import torch": _process("-c", "import torch"),
    }


def _process(*arguments: str) -> Job:
    """A process of this interpreter with these arguments."""
    return lambda _: _run([sys.executable, *arguments])


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ShortlistError(
            f"bench startup: {' '.join(command[1:4])} failed with code {done.returncode}: "
            f"{done.stderr.strip()[-400:]}"
        )
