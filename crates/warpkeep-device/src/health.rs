//! Whether a device can still be used, and which kernel it was that ended it.

use std::sync::{Mutex, OnceLock, PoisonError};

use crate::backend::RawStream;
use crate::error::{DeviceError, Result};

/// How many kernels are remembered as running. More are in flight only if no thread waits for them.
const MOST_SUSPECTS: usize = 32;

/// Kernels run behind the program, so a kernel's failure shows in a later call. This remembers which kernels have not
/// been waited for, to name them then; and that the device is lost, which no later call may forget.
#[derive(Debug, Default)]
pub(crate) struct Health {
    loss: OnceLock<Loss>,
    suspects: Mutex<Vec<(RawStream, &'static str)>>,
}

#[derive(Debug, Clone)]
struct Loss {
    kernel: String,
    call: &'static str,
    cause: String,
}

impl Health {
    /// An error if the device has been lost.
    pub(crate) fn check(&self) -> Result<()> {
        match self.loss.get() {
            None => Ok(()),
            Some(loss) => Err(loss.clone().into()),
        }
    }

    pub(crate) fn launched(&self, stream: RawStream, kernel: &'static str) {
        let mut suspects = self.suspects.lock().unwrap_or_else(PoisonError::into_inner);
        if suspects.contains(&(stream, kernel)) {
            return;
        }
        if suspects.len() == MOST_SUSPECTS {
            suspects.remove(0);
        }
        suspects.push((stream, kernel));
    }

    /// Everything launched on this stream is known to have ended well.
    pub(crate) fn ended_well(&self, stream: RawStream) {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner).retain(|(on, _)| *on != stream);
    }

    /// Notes that the device is lost. The first loss is the one that is reported from then on.
    pub(crate) fn lose(&self, call: &'static str, cause: String) -> DeviceError {
        let suspects = self.suspects.lock().unwrap_or_else(PoisonError::into_inner);
        let mut names: Vec<&str> = suspects.iter().map(|(_, kernel)| *kernel).collect();
        names.dedup();
        let kernel = match names.as_slice() {
            [] => "no kernel of this library".to_owned(),
            [one] => format!("kernel {one}"),
            several => format!("one of the kernels {}", several.join(", ")),
        };
        self.loss.get_or_init(|| Loss { kernel, call, cause }).clone().into()
    }
}

impl From<Loss> for DeviceError {
    fn from(loss: Loss) -> Self {
        Self::Lost { kernel: loss.kernel, call: loss.call, cause: loss.cause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_names_the_kernels_nobody_waited_for_and_stays() {
        let health = Health::default();
        let (one, two) = (RawStream(1), RawStream(2));
        health.launched(one, "fill");
        health.launched(two, "sum");
        health.launched(two, "sum");
        health.ended_well(one);
        assert!(health.check().is_ok());
        let error = health.lose("cuStreamSynchronize", "illegal address".to_owned());
        assert!(error.is_lost());
        assert!(error.to_string().contains("after kernel sum"), "{error}");
        let later = health.lose("cuMemAlloc", "another".to_owned());
        assert_eq!(later.to_string(), error.to_string());
        assert!(health.check().is_err_and(|error| error.is_lost()));
    }
}
