//! Why a command failed, and its exit code.

use std::error::Error;

use warpkeep_bench::BenchError;
use warpkeep_image::ImageError;
use warpkeep_log::LogError;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An error whose message says what to do next.
    Error { error: Box<dyn Error + Send + Sync>, kind: &'static str },
    /// The command line makes no sense.
    Usage(String),
    /// A store is damaged.
    Damage(String),
    /// The same, and the command has printed a full report of it.
    Reported(String),
    /// A repair could not restore everything, and the command has printed what is lost.
    Lost(String),
    /// Part of the work could not be done, and the command has printed the details.
    Told(String),
    /// Requested keys do not exist; `told` if the command has printed that.
    Missing { message: String, told: bool },
    /// A signal ended the command early.
    Interrupted { message: String, signal: u8 },
}

impl Failure {
    pub(crate) fn error(message: impl Into<String>) -> Failure {
        Failure::of("error", message)
    }

    /// An error with a kind that programs can match.
    pub(crate) fn of(kind: &'static str, message: impl Into<String>) -> Failure {
        Failure::Error { error: message.into().into(), kind }
    }

    /// Wraps an I/O error: `map_err(Failure::io("make a directory"))`.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Failure {
        let doing = doing.into();
        move |error| {
            let advice = match error.kind() {
                std::io::ErrorKind::NotFound => "check the path",
                std::io::ErrorKind::PermissionDenied => "check who may use it",
                std::io::ErrorKind::StorageFull => "free some space",
                _ => "check that it exists, may be used, and has space",
            };
            Failure::of("io", format!("cannot {doing}: {error}; {advice}"))
        }
    }

    /// The exit code: see [`EXIT_CODES`](crate::EXIT_CODES).
    pub(crate) fn code(&self) -> u8 {
        match self {
            Failure::Error { .. } | Failure::Told(_) => 1,
            Failure::Usage(_) => 2,
            Failure::Damage(_) | Failure::Reported(_) => 3,
            Failure::Missing { .. } => 4,
            Failure::Lost(_) => 5,
            // As shells report a process ended by a signal.
            Failure::Interrupted { signal, .. } => 128 + signal,
        }
    }

    /// The kind in one word, for programs.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Failure::Error { kind, .. } => kind,
            Failure::Usage(_) => "usage",
            Failure::Damage(_) | Failure::Reported(_) => "damage",
            Failure::Lost(_) => "lost",
            Failure::Told(_) => "error",
            Failure::Missing { .. } => "missing-key",
            Failure::Interrupted { .. } => "interrupted",
        }
    }

    pub(crate) fn message(&self) -> String {
        match self {
            Failure::Usage(message)
            | Failure::Damage(message)
            | Failure::Reported(message)
            | Failure::Lost(message)
            | Failure::Told(message)
            | Failure::Missing { message, .. }
            | Failure::Interrupted { message, .. } => message.clone(),
            Failure::Error { error, .. } => {
                let mut message = error.to_string();
                let mut source = error.source();
                while let Some(cause) = source {
                    // Most messages include their cause already.
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

    /// Prints the error to standard error, and as JSON to standard output if requested.
    pub(crate) fn report(&self, json: bool) {
        let message = self.message();
        let printed = matches!(
            self,
            Failure::Reported(_) | Failure::Lost(_) | Failure::Told(_) | Failure::Missing { told: true, .. }
        );
        if json && !printed {
            // If it cannot be written, the exit code and the line below remain.
            let _ = crate::output::print(&format!("{:#}\n", self.json()));
        }
        eprintln!("warpkeep: {message}");
    }

    /// The failure as one object.
    fn json(&self) -> serde_json::Value {
        let message = self.message();
        serde_json::json!({
            "error": message,
            "kind": self.kind(),
            "advice": advice(&message),
            "exit_code": self.code(),
        })
    }
}

/// The advice: the end of a message, after a semicolon or in sentences of its own.
fn advice(message: &str) -> &str {
    let last = message.rsplit_once("; ").map(|(_, advice)| advice);
    last.or_else(|| message.split_once(". ").map(|(_, advice)| advice)).unwrap_or("see `warpkeep help`")
}

/// The kind of an error of the library.
fn kind_of(error: &warpkeep::Error) -> &'static str {
    use warpkeep::Error as E;
    match error {
        error if error.is_damage() => "damage",
        E::NoStore { .. } => "no-store",
        E::NoTable { .. } => "no-table",
        E::TableExists { .. } => "table-exists",
        E::StoreExists { .. } | E::NotEmpty { .. } => "exists",
        E::NoBackup { .. } => "no-backup",
        E::NoLog | E::LogNeeded => "no-log",
        E::Core(_) | E::OtherTypes { .. } | E::Undecodable { .. } => "misfit",
        E::Io { .. } => "io",
        E::Image(error) => image_kind(error),
        E::Log(error) => log_kind(error),
        _ => "error",
    }
}

fn image_kind(error: &ImageError) -> &'static str {
    match error {
        ImageError::OutOfSpace { .. } => "no-space",
        ImageError::Held { .. } => "in-use",
        ImageError::Io { .. } => "io",
        _ => "error",
    }
}

fn log_kind(error: &LogError) -> &'static str {
    match error {
        LogError::Held { .. } => "in-use",
        LogError::DiskFull { .. } | LogError::NoSegment { .. } => "no-space",
        LogError::Io { .. } | LogError::NotWritable { .. } => "io",
        LogError::NoLog => "no-log",
        _ => "error",
    }
}

impl From<warpkeep::Error> for Failure {
    fn from(error: warpkeep::Error) -> Self {
        let kind = kind_of(&error);
        Failure::Error { error: Box::new(error), kind }
    }
}

impl From<ImageError> for Failure {
    fn from(error: ImageError) -> Self {
        warpkeep::Error::from(error).into()
    }
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        warpkeep::Error::from(error).into()
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            // Benchmarks do not report which of the handled signals it was.
            error @ BenchError::Interrupted => Failure::Interrupted { message: error.to_string(), signal: 2 },
            BenchError::Store(error) => error.into(),
            error => Failure::Error { error: Box::new(error), kind: "error" },
        }
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
        let failure = Failure::Error { error: Box::new(Terse(source())), kind: "error" };
        assert_eq!(failure.message(), "it failed: the disk is on fire");
    }

    #[test]
    fn advice_is_what_a_message_ends_with() {
        assert_eq!(advice("a is b: c; do d"), "do d");
        assert_eq!(advice("a is b. Do c, then d"), "Do c, then d");
        assert_eq!(advice("a"), "see `warpkeep help`");
        let full = warpkeep::Error::NoTable { name: "t".into() };
        let json = Failure::from(full).json();
        assert_eq!((&json["kind"], &json["exit_code"]), (&"no-table".into(), &1.into()));
        assert!(
            json["advice"].as_str().is_some_and(|advice| advice.starts_with("create it first")),
            "{json}"
        );
    }

    #[test]
    fn each_kind_has_its_exit_code() {
        let interrupted = Failure::Interrupted { message: String::new(), signal: 2 };
        let missing = Failure::Missing { message: String::new(), told: true };
        let failures = [
            Failure::error(""),
            Failure::Usage(String::new()),
            Failure::Damage(String::new()),
            missing,
            interrupted,
        ];
        assert_eq!(failures.map(|failure| failure.code()), [1, 2, 3, 4, 130]);
    }
}
