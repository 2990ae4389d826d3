"""opt-driver: runs pipelines on .mlir files, and lowers models to any level.

    opt-driver x.mlir --pass-pipeline='builtin.module(lamina-simplify,func.func(canonicalize,cse))'
    opt-driver model.py:make --target=cpu --emit=tile

Exit status: 0 when all went well, 1 after an error, which is one line, `file:line:col: error: what (remedy)`.
"""

import os
import re
import sys
import traceback
from pathlib import Path

from lamina.core.errors import CompileError

from .driver.cli import DriverArguments, parse
from .driver.files import replace_closed, write_output
from .driver.supervise import Board, supervise


def main(argv: list[str] | None = None) -> int:
    """Runs opt-driver; nothing heavy is imported before the work is known."""
    arguments = None
    replace_closed()
    try:
        arguments = parse(sys.argv[1:] if argv is None else argv)
        if arguments.list_passes:
            from .driver.list_passes import listing

            write_output("-", listing())
            return 0
        data = b"" if arguments.model else read_input(arguments)
        return guarded(arguments, data)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    except Exception as error:
        return complain(error, arguments)


def read_input(arguments: DriverArguments) -> bytes:
    """Reads the input file or standard input. Raises CompileError if it cannot be read."""
    try:
        return sys.stdin.buffer.read() if arguments.input == "-" else Path(arguments.input).read_bytes()
    except (OSError, ValueError) as error:
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise CompileError(text, where=f"{arguments.shown}:1:1") from error


def guarded(arguments: DriverArguments, data: bytes) -> int:
    """Runs the driver in a child process, or in this one when asked to. A child that dies is reported with what it was doing."""
    board = Board()

    def work(save: tuple[int, int] | None = None) -> int:
        """Runs the driver, and saves the input where it fails."""
        from .driver.session import run

        try:
            return run(arguments, data, board, save)
        except BrokenPipeError:
            raise
        except Exception as error:
            return complain(error, arguments)

    if arguments.in_process:
        return work()
    outcome = supervise(work)
    if not outcome.signal or outcome.signal in ("SIGINT", "SIGTERM"):
        return outcome.status
    doing, _, place = board.read().partition("\t")
    message = f"the toolchain ended the process ({outcome.signal}) in {doing or 'start-up'}"
    if not place:
        return complain(CompileError(message), arguments)
    chunk, index = map(int, place.split())
    supervise(lambda: work((chunk, index)))
    return complain(CompileError(message, remedy=f"repeat with: {board.read()}"), arguments)


def complain(error: Exception, arguments: DriverArguments | None) -> int:
    """Prints an error as one line; anything but a CompileError is called a fault of Lamina's."""
    if isinstance(error, RecursionError):
        error = CompileError("the input is nested too deeply for Python's stack").with_traceback(None)
    if not isinstance(error, CompileError):
        fault = CompileError(f"a fault in Lamina: {type(error).__name__}: {error}", remedy="--traceback shows where")
        fault.__cause__ = error
        error = fault
    where = error.where or (arguments.shown if arguments else "<command line>")
    if arguments and where.startswith("-:"):
        where = arguments.shown + where[1:]
    missing = 2 - len(re.findall(r":\d+(?=:|$)", where[-24:]))
    text = f"{error.message} ({error.remedy})" if error.remedy else error.message
    sys.stdout.flush()
    sys.stderr.write(f"{where}{':1' * max(missing, 0)}: error: {' '.join(text.splitlines())}\n")
    if arguments and arguments.traceback:
        traceback.print_exception(error)
    return 1


if __name__ == "__main__":
    sys.exit(main())
