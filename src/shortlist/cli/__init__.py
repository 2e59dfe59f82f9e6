"""The command line: one file per verb, imported when the verb is used."""

import os
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from shortlist import __version__
from shortlist.cli.console.usage import reworded

ABOUT = "From an interaction log to a multi-stage recommender that says which stage lost what."

VERBS: Mapping[str, str] = {
    "quickstart": "Train a pipeline on the embedded data and show which stage loses what.",
    "data": "Import a log and inspect it.",
    "plan": "The pipeline that train composes for a data set, with the reason of every choice.",
    "train": "Train every stage of a pipeline on what the stages before it pass on.",
    "evaluate": "Metrics with intervals beside baselines, and which stage lost what.",
    "compare": "Several bundles on the same users: paired tests, intervals, latency.",
    "diagnose": "Which stage loses relevant items, why, and which knob recovers how much.",
    "recommend": "The slate of a user or a history, or of all users in a file.",
    "refresh": "Put new events into a bundle: into histories and counts at once, or by training again.",
    "explain": "Which stage dropped an item, and by how much.",
    "serve": "Serve a bundle over HTTP.",
    "log": "Inspect, label and export a full-stage log, or the live events of a service.",
    "simulate": "A data set and a full-stage log of a world in which the utility of every item is known.",
    "recipe": "Show a recipe as TOML, and list the shipped ones.",
    "settings": "Every stage type with its settings, defaults, ranges and meanings.",
    "bench": "Speed as ratios measured in one run.",
    "reproduce": "Run an experiment and write its result as JSON, Markdown and plot.",
}
"""Verb -> what `shortlist --help` says of it. The module shortlist.cli.VERB holds the function of that name."""

STOPPED = "stopped; no partial file was left"
INTERRUPTED = 130  # exit code after Ctrl-C, as of every program in a shell

CONTEXT = {"help_option_names": ["-h", "--help"]}


class LazyVerbs(TyperGroup):
    """Imports the module of a verb when the verb runs, so that `--help` needs neither torch nor matplotlib."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """What the list of verbs shows; the real command comes from `resolve_command`."""
        return TyperCommand(cmd_name, help=VERBS[cmd_name]) if cmd_name in VERBS else None

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            raise reworded(error) from None
        except KeyboardInterrupt:  # outside the function of a verb, such as while its module is imported
            typer.echo(STOPPED, err=True)
            raise typer.Exit(INTERRUPTED) from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in VERBS:
            return args[0], with_plugins(load_verb(args[0])), args[1:]
        if args and (near := get_close_matches(args[0], VERBS)):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)


def load_verb(name: str) -> Any:
    """The command of a verb, from its module."""
    module: Any = import_module(f"shortlist.cli.{name}")
    verb = getattr(module, "app", None)
    if verb is None:
        verb = typer.Typer(add_completion=False, context_settings=CONTEXT)
        verb.command(name, help=VERBS[name])(getattr(module, name))
    command = typer.main.get_command(verb)
    command.name = name
    return command


def with_plugins(command: Any) -> Any:
    """The command with the option --plugin, also of its subcommands; what it imports is there before the verb runs."""
    for one in getattr(command, "commands", {}).values():
        with_plugins(one)
    if not hasattr(command, "commands"):
        command.params.extend(one for one in _PLUGINS.params if one.name == "plugins")
    return command


def _import_plugins(plugins: list[str] | None) -> None:
    given = [*os.environ.get("SHORTLIST_PLUGINS", "").split(os.pathsep), *(plugins or [])]
    if any(given):
        import_module("shortlist.cli.console.frame").import_plugins(list(dict.fromkeys(given)))


def _verb(
    plugins: list[str] | None = typer.Option(
        None,
        "--plugin",
        metavar="MODULE",
        expose_value=False,
        callback=_import_plugins,
        help="Module or Python file with stages of your own; repeatable. Also: SHORTLIST_PLUGINS.",
    ),
) -> None: ...


_OPTIONS = typer.Typer(add_completion=False)
_OPTIONS.command()(_verb)
_PLUGINS = typer.main.get_command(_OPTIONS)

app = typer.Typer(
    name="shortlist",
    cls=LazyVerbs,
    help=ABOUT,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=CONTEXT,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None: ...
