//! Errors of a benchmark.

use std::io;

use warpkeep_containers::ContainerError;
use warpkeep_device::DeviceError;
use warpkeep_gphash::TableError;
use warpkeep_gphash::gpu::paper::CacheError;
use warpkeep_image::ImageError;
use warpkeep_log::LogError;

/// Why a benchmark gave no result. Each message ends with the next step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// Of the store that was measured.
    #[error(transparent)]
    Store(#[from] warpkeep::Error),

    /// Of the server that was measured in memory.
    #[error(transparent)]
    Server(#[from] warpkeep_server::ServerError),

    /// The operating system refused something.
    #[error("cannot {doing}: {source}; check the directory and its free space")]
    Io {
        /// The failed action.
        doing: String,
        /// The system's error.
        source: io::Error,
    },

    /// A store did not hold the written data. No figure of such a run means anything.
    #[error("the store is wrong: {0}; this is a bug, please report it with the command and the seed")]
    Wrong(String),

    /// A contestant gave answers that are not right. No figure of such a run means anything.
    #[error(
        "{contestant} gave {wrong} wrong answers to {asked} of {task}; run it again with --only to see whether it is alone"
    )]
    WrongAnswers {
        /// The contestant.
        contestant: String,
        /// The task.
        task: &'static str,
        /// How many.
        wrong: u64,
        /// Of how many.
        asked: u64,
    },

    /// A peer failed by itself.
    #[error("{name} failed: {what}; leave it out with --only, or give it more room")]
    Peer {
        /// Which.
        name: &'static str,
        /// Its error.
        what: String,
    },

    /// A chart could not be drawn.
    #[error("cannot draw {chart}: {what}; the figures are in the CSV")]
    Chart {
        /// Which.
        chart: String,
        /// Why.
        what: String,
    },

    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),

    /// The caller asked it to stop.
    #[error("interrupted; nothing was left behind")]
    Interrupted,
}

impl BenchError {
    /// Wraps an I/O error: `map_err(BenchError::io("write the file"))`.
    pub fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> BenchError {
        let doing = doing.into();
        move |source| BenchError::Io { doing, source }
    }
}

impl From<ImageError> for BenchError {
    fn from(error: ImageError) -> Self {
        BenchError::Store(error.into())
    }
}

impl From<TableError> for BenchError {
    fn from(error: TableError) -> Self {
        BenchError::Store(error.into())
    }
}

impl From<DeviceError> for BenchError {
    fn from(error: DeviceError) -> Self {
        TableError::from(error).into()
    }
}

impl From<ContainerError> for BenchError {
    fn from(error: ContainerError) -> Self {
        match error {
            ContainerError::Device(error) => error.into(),
            other => BenchError::Wrong(other.to_string()),
        }
    }
}

impl From<CacheError> for BenchError {
    fn from(error: CacheError) -> Self {
        match error {
            CacheError::Table(error) => error.into(),
            other => BenchError::Invalid(other.to_string()),
        }
    }
}

impl From<warpkeep_turbohash::TableError> for BenchError {
    fn from(error: warpkeep_turbohash::TableError) -> Self {
        BenchError::Store(error.into())
    }
}

impl From<LogError> for BenchError {
    fn from(error: LogError) -> Self {
        BenchError::Store(error.into())
    }
}
