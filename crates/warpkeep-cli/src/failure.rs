//! Why a command failed, and what the shell is told.

use std::error::Error;

use warpkeep_bench::BenchError;
use warpkeep_image::ImageError;
use warpkeep_log::LogError;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something went wrong; the message says what to do next.
    Error(Box<dyn Error + Send + Sync>),
    /// The command line makes no sense.
    Usage(String),
    /// A store is not what it should be.
    Damage(String),
    /// The same, and the command has printed a full report of it.
    Reported(String),
    /// A repair could not put everything right, and the command has printed what is lost.
    Lost(String),
    /// Not all could be done, and the command has printed what there is to say about it.
    Told(String),
}

impl Failure {
    pub(crate) fn error(message: impl Into<String>) -> Failure {
        Failure::Error(message.into().into())
    }

    /// Wraps an I/O error: `map_err(Failure::io("make a directory"))`.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Failure {
        let doing = doing.into();
        move |error| Failure::error(format!("cannot {doing}: {error}"))
    }

    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Error(_) | Failure::Told(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Damage(_) | Failure::Reported(_) => 3,
            Failure::Lost(_) => 5,
        }
    }

    pub(crate) fn message(&self) -> String {
        match self {
            Failure::Usage(message)
            | Failure::Damage(message)
            | Failure::Reported(message)
            | Failure::Lost(message)
            | Failure::Told(message) => message.clone(),
            Failure::Error(error) => {
                let mut message = error.to_string();
                let mut source = error.source();
                while let Some(cause) = source {
                    // Most messages tell their cause already.
                    let text = cause.to_string();
                    if !message.contains(&text) {
                        message = format!("{message}: {text}");
                    }
                    source = cause.source();
                }
                message
            }
        }
    }

    /// Tells people, and programs that asked for JSON.
    pub(crate) fn report(&self, json: bool) {
        let message = self.message();
        if json && !matches!(self, Failure::Reported(_) | Failure::Lost(_) | Failure::Told(_)) {
            let value = serde_json::json!({ "error": message, "exit_code": self.code() });
            // If nobody reads it, the exit code and the line below remain.
            let _ = crate::output::print(&format!("{value:#}\n"));
        }
        eprintln!("warpkeep: {message}");
    }
}

impl From<warpkeep::Error> for Failure {
    fn from(error: warpkeep::Error) -> Self {
        Failure::Error(Box::new(error))
    }
}

impl From<ImageError> for Failure {
    fn from(error: ImageError) -> Self {
        Failure::Error(Box::new(error))
    }
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        Failure::Error(Box::new(error))
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        Failure::Error(Box::new(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_once() {
        let source = || std::io::Error::other("the disk is on fire");
        let told = BenchError::Io { doing: "read".into(), source: source() };
        assert_eq!(Failure::from(told).message().matches("on fire").count(), 1);

        #[derive(Debug, thiserror::Error)]
        #[error("it failed")]
        struct Terse(#[source] std::io::Error);
        let failure = Failure::Error(Box::new(Terse(source())));
        assert_eq!(failure.message(), "it failed: the disk is on fire");
    }
}
