"""From `--app module:attribute` or `--database URL` to an App.

Decides where a module is looked for and what each way of not finding it means. It must
never guess between an app and a database that were both named.
"""

from __future__ import annotations

import logging
import sys
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from duly._cli.exits import AppInvalid, one_line
from duly._cli.stopping import Stopped
from duly._core import wording
from duly.errors import DulyError, UsageError

if TYPE_CHECKING:
    from duly._cli.settings import Settings
    from duly._sync.app import App

EXAMPLE = "such as --app jobs:app, or DULY_APP=jobs:app"


def load(settings: Settings, *, code_for: str | None = None, without: str = "") -> App:
    """The App that the options and the environment name.

    Args:
        code_for: What needs the user's code; None where a database alone is enough.
        without: What else can be done where there is none.

    Raises:
        UsageError: None is named, or two are, or it cannot be imported.
    """
    if "app" in settings.given and settings.given & {"database", "schema"}:
        raise UsageError(
            "--app and --database were both given: the app names its own database, and its schema;"
            " give one of them"
        )
    if settings.app is not None and not settings.given & {"database", "schema"}:
        app = _imported(settings.app)
    elif code_for is not None:
        raise UsageError(f"{code_for} needs the code of the job: name its App, {EXAMPLE}{without}")
    elif settings.database is None:
        raise UsageError(f"no App and no database is named: give one, {EXAMPLE}, or --database URL")
    else:
        from duly._sync.app import App

        app = App(settings.database, schema=settings.schema)
    settings.secrets.update(app.database.secrets)
    settings.opened.append(app)
    _speak_up()
    return app


def _imported(name: str) -> App:
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise AppInvalid(f"{name[:100]!r} is not MODULE:ATTRIBUTE: name the App, {EXAMPLE}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    found: Any = _module(module_name, here)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise AppInvalid(_no_attribute(found, module_name, part))
        found = getattr(found, part)
    if _is_awaited(found):
        from duly._cli.awaited import AwaitedApp

        return cast("App", AwaitedApp(found))
    from duly._sync.app import App

    if not isinstance(found, App):
        kind = type(found).__name__
        called = ", which is not called: make the App in the module itself"
        raise AppInvalid(
            f"{name} is a {kind}, not a duly.App or duly.aio.App{called if callable(found) else ''}"
        )
    return found


def _is_awaited(found: Any) -> bool:
    """Whether it is a `duly.aio.App`; asked without importing what a command may not need."""
    module = sys.modules.get("duly._aio.app")
    return module is not None and isinstance(found, module.App)


def _module(name: str, here: str) -> Any:
    try:
        return import_module(name)
    except (DulyError, Stopped):
        raise  # a definition in it is wrong, and says so itself; or a signal ends us
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise AppInvalid(
                f"there is no module {error.name!r}: it is looked for in the working directory,"
                f" {here}, and on PYTHONPATH"
            ) from error
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _broken(name: str, error: BaseException) -> AppInvalid:
    """The user's module raised while it was imported."""
    place = ""
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith("<") and file != __file__:
            place = f" ({Path(file).name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename:
        place = ""  # its own text says where
    said = one_line(f"{type(error).__name__}: {wording.said(error)}")
    return AppInvalid(f"the module {name!r} cannot be imported: {said}{place}; --debug shows more")


def _no_attribute(found: Any, module: str, part: str) -> str:
    from duly._sync.app import App

    named = vars(found).items()
    apps = [name for name, value in named if isinstance(value, App) or _is_awaited(value)]
    near = apps or get_close_matches(part, dir(found), n=2)
    hint = f"did you mean {module}:{near[0]}?" if near else "make one: app = duly.App(…)"
    return f"the module {module!r} has no attribute {part!r}: {hint}"


def _speak_up() -> None:
    """A warning of duly's own, such as a marker that was not kept, is one line on stderr."""
    logger = logging.getLogger("duly")
    if not logger.handlers:
        logger.addHandler(_Warnings(logging.WARNING))


class _Warnings(logging.Handler):
    """Prints warnings, unless the user's code has set up logging of its own."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            said = getattr(record, "error", "")
            print(one_line(f"duly: warning: {record.getMessage()} {said}"), file=sys.stderr)
