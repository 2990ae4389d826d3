"""Entry point of the `lamina` command, which tunes models and manages the tuning store.

    lamina tune model.py:make       measures the hot ops of a model
    lamina tune show                shows the choices in the tuning store
    lamina tune pin 3f2a library    fixes one of them

Exit status: 0 on success; 1 after an error, which is printed as one line, `where: error: what (remedy)`.
"""

import argparse
import os
import sys
from collections.abc import Callable

from lamina.core.errors import CompileError

from .driver.cli import Parser
from .driver.files import replace_closed
from .opt_driver import complain
from .tune_model import add_command, with_name
from .tune_store import add_commands

Work = Callable[[argparse.Namespace], None]


def main(argv: list[str] | None = None) -> int:
    """Runs a command and returns its exit status. Nothing heavy is imported before the command is known."""
    replace_closed()
    try:
        args = _parsed(sys.argv[1:] if argv is None else argv)
        work: Work = args.work
        work(args)
        return 0
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except KeyboardInterrupt:
        return 130
    except CompileError as error:
        return complain(error, None)


def _parsed(argv: list[str]) -> argparse.Namespace:
    parser = Parser(prog="lamina", description="Compiles PyTorch models through MLIR.", allow_abbrev=False)
    areas = parser.add_subparsers(metavar="COMMAND", required=True)
    tune = areas.add_parser("tune", help="measured choices between implementations of hot ops", allow_abbrev=False)
    commands = tune.add_subparsers(metavar="WHAT", required=True)
    add_command(commands)
    add_commands(commands)
    return parser.parse_args([*argv[:1], *with_name(argv[1:], commands)] if argv[:1] == ["tune"] else argv)


if __name__ == "__main__":
    sys.exit(main())
