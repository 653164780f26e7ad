//! The library's errors as exceptions of the package.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use warpkeep::{DeviceError, Error, GpHashError, ImageError, LogError, Status, TurboHashError};
use warpkeep_containers::ContainerError;

/// The name of the exception for an error.
fn class_of(error: &Error) -> &'static str {
    match error {
        Error::Forked { .. }
        | Error::Image(ImageError::Forked { .. })
        | Error::Log(LogError::Forked { .. }) => "ForkError",
        Error::Closed { .. } => "ClosedError",
        Error::ReadOnly | Error::Image(ImageError::ReadOnly) | Error::OnlyReads { .. } => "ReadOnlyError",
        Error::NoTable { .. } => "NoTableError",
        Error::NoStore { .. } => "NoStoreError",
        Error::Image(ImageError::Held { .. }) | Error::Log(LogError::Held { .. }) => "BusyError",
        Error::Image(ImageError::OutOfSpace { .. })
        | Error::Table(GpHashError::Full)
        | Error::TurboHash(TurboHashError::Full) => "FullError",
        Error::NoLog => "DurabilityError",
        Error::OtherTypes { .. } | Error::Core(_) => "SpecError",
        Error::Device(_) => "DeviceError",
        error if error.is_log_full() => "FullError",
        error if error.is_damage() => "DamagedError",
        _ => "Error",
    }
}

/// An exception of the package, by its name.
pub(crate) fn exception(py: Python<'_>, class: &str, message: &str) -> PyErr {
    let made = py
        .import("warpkeep._errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1((message,)));
    match made {
        Ok(value) => PyErr::from_value(value),
        // The package is not whole; the message is worth more than the class.
        Err(_) => PyRuntimeError::new_err(message.to_owned()),
    }
}

/// The exception for an error of the library.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    exception(py, class_of(error), &error.to_string())
}

/// Refuses another process than the one that has the handle, before a lock is taken: its holder may be a thread that does not exist here.
pub(crate) fn check_process(py: Python<'_>, pid: u32) -> PyResult<()> {
    match std::process::id() == pid {
        true => Ok(()),
        false => Err(raised(py, &Error::Forked { pid })),
    }
}

/// The exception for an error of a device.
pub(crate) fn device_raised(py: Python<'_>, error: &DeviceError) -> PyErr {
    exception(py, "DeviceError", &error.to_string())
}

/// The exception for an error of a container.
pub(crate) fn container_raised(py: Python<'_>, error: &ContainerError) -> PyErr {
    let class = match error {
        ContainerError::Device(DeviceError::OutOfMemory { .. } | DeviceError::OutOfBudget { .. }) => {
            "FullError"
        }
        ContainerError::Device(_) => "DeviceError",
        ContainerError::Damaged { .. } | ContainerError::Inconsistent { .. } => "DamagedError",
        ContainerError::WrongLength { .. } | ContainerError::WrongKind { .. } => "SpecError",
        _ => "Error",
    };
    exception(py, class, &error.to_string())
}

/// The exception for a batch in which an operation was refused, found no room or failed.
pub(crate) fn batch_raised(
    py: Python<'_>,
    what: &str,
    index: usize,
    status: Status,
    statuses: &Bound<'_, PyAny>,
) -> PyErr {
    let message = format!("operation {index} ({what}): {status}; {}", status.remedy());
    let error = exception(py, "BatchError", &message);
    let value = error.value(py);
    let noted = value
        .setattr("index", index)
        .and_then(|()| value.setattr("status", PyString::new(py, status.name())))
        .and_then(|()| value.setattr("statuses", statuses));
    match noted {
        Ok(()) => error,
        Err(other) => other,
    }
}

/// `?` for results of the library.
pub(crate) trait OrRaise<T> {
    /// The value, or the exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for warpkeep::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| raised(py, &error))
    }
}

impl<T> OrRaise<T> for Result<T, DeviceError> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| device_raised(py, &error))
    }
}

impl<T> OrRaise<T> for Result<T, ContainerError> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| container_raised(py, &error))
    }
}
