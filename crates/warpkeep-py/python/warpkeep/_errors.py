"""The exceptions of the package. Each message ends with what to do next."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """Any error of a store, a table or a container."""


class ForkError(Error):
    """A handle was used in another process than the one that opened its store."""


class ClosedError(Error):
    """The store was closed."""


class ReadOnlyError(Error):
    """A write to a store that can only be read."""


class BusyError(Error):
    """Another process has the store open."""


class NoStoreError(Error):
    """There is no store where one was looked for."""


class NoTableError(Error, LookupError):
    """There is no table of this name."""


class SpecError(Error, ValueError):
    """Keys, values or arrays that do not go with the table."""


class FullError(Error):
    """No space is left in the image, on the disk of the log, or in the index."""


class DurabilityError(Error):
    """The store has no log, so it cannot promise to survive a power cut."""


class DamagedError(Error):
    """Stored bytes are damaged."""


class DeviceError(Error):
    """Something could not be done on a device."""


class BatchError(Error):
    """An operation of a batch was refused, found no room or failed; the others were done."""

    index: int
    """The first such operation."""
    status: str
    """Its status."""
    statuses: Any
    """The statuses of all operations: see `Status`."""


class StepError(Error):
    """A training step that cannot be done, or was done before with other gradients."""
