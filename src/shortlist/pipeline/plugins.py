"""Stages and models from outside the package: by entry point, by "package.module:Class", or by `--plugin`.

A type with a colon names a class. A recipe file imports its module; a bundle does not: it uses only classes of modules
that are imported already, and of installed packages with an entry point in the group `shortlist.stages`.
"""

import hashlib
import inspect
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points, packages_distributions, version
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

from shortlist.errors import ArtifactError, ConfigError, did_you_mean
from shortlist.grammar import KINDS, Pipeline, Stage, leaves
from shortlist.models.model import Model
from shortlist.nominate import ModelNominator
from shortlist.pipeline.about import Plugin
from shortlist.pipeline.registry import TYPES, add_type, type_name

GROUP = "shortlist.stages"
VARIABLE = (
    "SHORTLIST_PLUGINS"  # environment of the command line and of the service: plug-ins joined by os.pathsep
)

OURS = sys.stdlib_module_names | {"shortlist", "torch"}  # their versions say what they do
NO_SOURCE = uuid4().hex  # of code that was typed, not read from a file: every process counts as a new one


def load_plugins(plugins: Sequence[str]) -> None:
    """Import modules or Python files, so that recipes and bundles can use their stages and models."""
    for one in plugins:
        if one.endswith(".py"):
            _import_file(Path(one))
        elif one:
            _import(one, f"plug-in {one!r}")


def add_entry_points() -> None:
    """Register all stages and models of installed packages."""
    for point in entry_points(group=GROUP):
        if point.name not in TYPES:
            add_type(point.name, _loaded(point, f"entry point {point.name!r}"))


def add_plugin_type(name: str, where: str, imports: bool = False) -> None:
    """Register the class that a type names, if it comes from outside the package; `imports` allows an import."""
    module, colon, found = name.partition(":")
    if not colon:
        _add_entry_point(name, where)
    elif imports or module in sys.modules:
        add_type(name, _class_of(_import(module, where), found, where))
    else:
        raise ConfigError(f"{where}: {_consent(name, module)}")


def plugins_of(pipeline: Pipeline) -> tuple[Plugin, ...]:
    """The classes from outside the package that a pipeline uses."""
    stages = {type_name(stage, TYPES) or "": _own_class(stage) for stage in leaves(pipeline)}
    return tuple(
        _plugin(name, kind)
        for name, kind in stages.items()
        if name and kind.__module__.partition(".")[0] != "shortlist"
    )


def source_hash(kinds: Iterable[type[Any]]) -> str:
    """A hash of the modules that define these classes and their bases; "" if the package ships them all.

    Whatever was computed by a plug-in is used again only while its source is the same.
    """
    bases = {base.__module__ for kind in kinds for base in kind.__mro__}
    outside = sorted(name for name in bases if name.partition(".")[0] not in OURS)
    digest = hashlib.sha256("".join(map(_source, outside)).encode())
    return digest.hexdigest()[:16] if outside else ""


def plugin_sources(pipeline: Pipeline) -> str:
    """The `source_hash` of all stages and models of a pipeline."""
    return source_hash(kind for stage in leaves(pipeline) for kind in (type(stage), _own_class(stage)))


def add_plugins(plugins: Iterable[Plugin], where: str) -> None:
    """Register the classes that a bundle needs; ArtifactError for one whose module is not imported."""
    for one in plugins:
        if one.type not in TYPES and ":" not in one.type:
            _add_entry_point(one.type, where)
        if one.type in TYPES and ":" not in one.type:
            continue
        if one.module not in sys.modules:
            known = f" (version {one.version})" if one.version else ""
            raise ArtifactError(f"{where}: {_consent(f'{one.module}:{one.name}', one.module)}{known}")
        add_type(one.type, _class_of(sys.modules[one.module], one.name, where))


def _source(module: str) -> str:
    try:
        return inspect.getsource(sys.modules[module])
    except (OSError, TypeError, KeyError):
        return NO_SOURCE


def _plugin(name: str, kind: type[Any]) -> Plugin:
    module, colon, found = name.partition(":")
    if not colon:
        module, found = kind.__module__, kind.__qualname__
    return Plugin(name, module, found, _version(module))


def _consent(name: str, module: str) -> str:
    return (
        f"needs the class {name}, and a bundle does not import code by itself; if you trust the module, add "
        f"--plugin {module} (or set {VARIABLE}={module}; in Python: import {module})"
    )


def _add_entry_point(name: str, where: str) -> None:
    if name not in TYPES:
        for point in entry_points(group=GROUP, name=name):
            add_type(name, _loaded(point, where))


def _loaded(point: EntryPoint, where: str) -> type[Stage] | type[Model]:
    module, _, found = point.value.partition(":")
    return _class_of(_import(module, where), found, where)


def _import(module: str, where: str) -> ModuleType:
    """Import a module from the Python path or the current folder, which comes last: it can hide no package."""
    if (folder := str(Path.cwd())) not in sys.path:
        sys.path.append(folder)
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise ConfigError(f"{where}: the module {module} needs the package {error.name!r}") from error
        raise ConfigError(
            f"{where}: no module {module!r} in the Python path or in {folder}; check its name, or add "
            f"--plugin path/to/{module.rpartition('.')[2]}.py"
        ) from error
    except Exception as error:
        raise ConfigError(f"{where}: the module {module} failed: {type(error).__name__}: {error}") from error


def _import_file(path: Path) -> None:
    if not path.is_file():
        raise ConfigError(f"--plugin {path}: no such file; expected a module name or a Python file")
    if (loaded := sys.modules.get(path.stem)) is not None:
        if getattr(loaded, "__file__", None) != str(path.resolve()):
            raise ConfigError(f"--plugin {path}: a module {path.stem!r} exists already; rename the file")
        return
    spec = spec_from_file_location(path.stem, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[path.stem]
        raise ConfigError(f"--plugin {path}: failed: {type(error).__name__}: {error}") from error


def _class_of(module: ModuleType, name: str, where: str) -> type[Any]:
    """A class of a module that is a stage or a model."""
    found = getattr(module, name, None)
    if found is None:
        own = [key for key, one in vars(module).items() if _is_plugin(one)]
        expected = f"it has {', '.join(own)}" if own else "it has no stage and no model"
        raise ConfigError(
            f"{where}: the module {module.__name__} has no class {name!r}; {expected}{did_you_mean(name, own)}"
        )
    if not _is_plugin(found):
        raise ConfigError(f"{where}: {module.__name__}:{name} must be a {KINDS} or a Model, got {found!r}")
    return found  # type: ignore[no-any-return]


def _is_plugin(found: object) -> bool:
    kinds = isinstance(found, type) and issubclass(found, Stage | Model) and not inspect.isabstract(found)
    return kinds and getattr(found, "kind", "model") != "stage"


def _own_class(stage: Stage) -> type[Any]:
    return type(stage.model) if isinstance(stage, ModelNominator) else type(stage)


def _version(module: str) -> str:
    root = module.partition(".")[0]
    packages = packages_distributions().get(root, [])
    return version(packages[0]) if packages else str(getattr(sys.modules.get(root), "__version__", ""))
