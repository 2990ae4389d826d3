"""Raises errors of a torch.compile backend as the user should see them: Dynamo wraps all but its own kind."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager

from torch._dynamo.exc import BackendCompilerFailed, ShortenTraceback

from lamina.core.errors import CompileError


class BackendError(CompileError, BackendCompilerFailed):
    """A CompileError that Dynamo passes on as it is. Its traceback starts at the backend, as Dynamo cuts its own frames off."""

    def __init__(self, error: CompileError) -> None:
        frame = inspect.currentframe()
        raised_in = frame.f_back if frame is not None else None
        ShortenTraceback.__init__(self, str(error), first_useful_frame=raised_in)
        self.message, self.where, self.remedy = error.message, error.where, error.remedy
        self.backend_name, self.inner_exception = "lamina", error
        self._text = str(error)

    def __str__(self) -> str:
        """Returns the message without what Dynamo adds to it."""
        return self._text


@contextmanager
def passed_on() -> Iterator[None]:
    """Turns a CompileError in its body into a BackendError."""
    try:
        yield
    except CompileError as error:
        raise BackendError(error) from None
