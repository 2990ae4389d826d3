"""Runs tools of lit tests as forks of one process that has imported torch and all of lamina.

    python prefork.py serve LISTENER             serves a listening socket, a number, until standard input ends
    python -S -E prefork.py SOCKET MODULE ...    asks for `python -m MODULE ...`, with its own directory, environment and files

A tool that is asked for ends as one started by itself: with its exit status or by its signal. It is started by itself where there is
no such socket, and where one of its files is closed.
"""

import _socket  # of this, `ask` needs next to nothing, and half of its time would go by in importing socket
import marshal
import os
import sys


def ask(path: str, command: list[str]) -> int:
    """Has the process at `path` run a command in a fork; returns its exit status."""
    if not os.path.exists(path) or None in (sys.stdin, sys.stdout, sys.stderr):
        os.execv(sys.executable, [sys.executable, "-m", *command])
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    server.connect(path)
    files = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
    request = marshal.dumps((command, os.getcwd(), dict(os.environ)))
    server.sendmsg([request], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
    status = int(server.recv(64))
    if os.WIFSIGNALED(status):
        os.kill(os.getpid(), os.WTERMSIG(status))
    return os.waitstatus_to_exitcode(status)


def serve(listening: int) -> list[str]:
    """Forks for each request, and reports how that ended. Returns in the fork, with the command to run; in this process when
    standard input has ended."""
    import contextlib
    import gc
    import select
    import socket

    import_all()
    gc.freeze()  # forks then share what is imported
    gc.set_threshold(100_000, 20, 100)  # and most end before there is anything to search for
    running: dict[int, tuple[int, socket.socket]] = {}
    with socket.socket(fileno=listening) as listener:
        while sys.stdin not in (ready := select.select([listener, sys.stdin, *running], [], [])[0]):
            for ended in running.keys() & set(ready):
                child, connection = running.pop(ended)
                with connection, contextlib.suppress(OSError):  # who asked may have been ended
                    connection.send(str(os.waitpid(child, 0)[1]).encode())
                os.close(ended)
            if listener in ready:
                connection, _ = listener.accept()
                if (child := os.fork()) == 0:
                    return _asked(connection)
                running[os.pidfd_open(child)] = child, connection
    os._exit(0)


def _asked(connection: _socket.socket) -> list[str]:
    """Takes the place of the process that asks; returns its command."""
    import socket

    data, files, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    connection.close()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    # Anew: streams remember whether what they were made for can seek.
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    command, folder, environment = marshal.loads(data)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    return command


def import_all() -> None:
    """Imports what a tool may need."""
    import importlib

    from lamina.passes.infra.registry import PASSES
    from lamina.targets.registry import TARGETS

    modules = [entry.partition(":")[0] for entry in (*PASSES.values(), *(target.backend for target in TARGETS.values()))]
    for name in (
        "torch",
        "torch.export",
        "filecheck.main",
        "lamina.tools.driver.session",
        "lamina.frontend.entry.levels",
        *modules,
    ):
        importlib.import_module(name)


def run(module: str, arguments: list[str]) -> None:
    """Runs a module as `python -m` does, and ends the process without taking down all that is imported, which takes a second."""
    import runpy

    sys.path[0] = os.getcwd()
    sys.argv = [module, *arguments]
    status: object = None
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        status = ended.code
    except BaseException:
        status = 1
        sys.excepthook(*sys.exc_info())
    if status is not None and not isinstance(status, int):
        print(status, file=sys.stderr)
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status or 0)


if __name__ == "__main__":
    if sys.argv[1] != "serve":
        sys.exit(ask(sys.argv[1], sys.argv[2:]))
    module, *arguments = serve(int(sys.argv[2]))
    run(module, arguments)
