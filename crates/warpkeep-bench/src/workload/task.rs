//! One kind of operation, over and over.

/// The kind of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// A get of a key that is there.
    Hit,
    /// A get of a key that is not.
    Miss,
    /// A put of a key that is there.
    Update,
    /// A put of a key that is not.
    Insert,
    /// The removal of a key that is there.
    Delete,
}

impl Task {
    /// All of them.
    pub const ALL: [Task; 5] = [Task::Hit, Task::Miss, Task::Update, Task::Insert, Task::Delete];

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Task::Hit => "positive get",
            Task::Miss => "negative get",
            Task::Update => "update",
            Task::Insert => "insert",
            Task::Delete => "delete",
        }
    }
}
