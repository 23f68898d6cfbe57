"""The command line: which commands there are, and how their errors look.

Registration: one line of `COMMANDS` for each command. Its module is imported only when the
command is called or help over all commands is asked for, so the module may import typer, rich
and its siblings at the top, but torch, ray and the store only inside the function.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Annotated, Any

import typer

from evokernel import __version__
from problems.errors import EvoKernelError

__all__ = ["COMMANDS", "build_app", "main", "one_sentence"]

COMMANDS = (
    ("run", "evokernel.cli.run:run"),
    ("resume", "evokernel.cli.resume:resume"),
    ("seed", "evokernel.cli.seed:seed"),
    ("report", "evokernel.cli.report:report"),
    ("archive", "evokernel.cli.archive:archive"),
    ("lineage", "evokernel.cli.lineage:lineage"),
    ("show", "evokernel.cli.show:show"),
    ("ask", "evokernel.cli.ask:ask"),
    ("llm", "evokernel.cli.llm:llm"),
    ("export", "evokernel.cli.export:export"),
    ("eval", "evokernel.cli.eval:evaluate"),
    ("verify", "evokernel.cli.verify:verify"),
    ("problems", "evokernel.cli.problems:problems"),
    ("roofline", "evokernel.cli.roofline:roofline"),
    ("baseline", "evokernel.cli.baseline:baseline"),
    ("doctor", "evokernel.cli.doctor:doctor"),
)
"""(name, "module:attribute"): a function that is the command, or a `typer.Typer` of several."""


def main() -> None:
    """Run the command line; the console script."""
    called = sys.argv[1] if len(sys.argv) > 1 else ""
    names = [called] if called in dict(COMMANDS) else [name for name, _ in COMMANDS]
    build_app(*names)(prog_name="evokernel")


def build_app(*names: str) -> typer.Typer:
    """Build the application with the named commands, or with all.

    Args:
        names: Names of commands, as in `COMMANDS`; none: every command.
    """
    app = typer.Typer(
        help="Evolutionary search for fast kernels, judged by a referee that cannot be fooled.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    for name, path in COMMANDS:
        if names and name not in names:
            continue
        module, _, attribute = path.partition(":")
        command = getattr(import_module(module), attribute)
        if isinstance(command, typer.Typer):
            for info in command.registered_commands:
                assert info.callback is not None
                info.callback = one_sentence(info.callback)
            app.add_typer(command, name=name)
        else:
            app.command(name)(one_sentence(command))
    return app


def one_sentence(command: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a command so that an `EvoKernelError` or a refused path is one sentence, exit code 2."""

    @wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - whatever the command takes
        from evokernel.siblings import check_siblings

        try:
            check_siblings()
            return command(*args, **kwargs)
        except EvoKernelError as error:
            typer.echo(f"evokernel: {error}", err=True)
            raise typer.Exit(2) from None
        except PermissionError as error:
            typer.echo(
                f"evokernel: {error.filename or 'a file'} may not be looked at here "
                f"({error.strerror}): change its permissions, or name another path",
                err=True,
            )
            raise typer.Exit(2) from None

    return guarded


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"evokernel {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            is_eager=True,
            callback=_print_version,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    """Hold the options of `evokernel` itself."""


if __name__ == "__main__":
    main()
