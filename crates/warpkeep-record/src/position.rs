//! Where a scan in parts stands.

/// The position of a scan in parts: see [`Lookup::scan_some`](crate::Lookup::scan_some). The default is the
/// beginning. It is valid for the table it was begun with; only the index of that table interprets the words.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScanPosition {
    words: [u64; 4],
}

impl ScanPosition {
    /// The position that these words of an index stand for. Four zeros are the beginning.
    #[inline]
    pub fn from_words(words: [u64; 4]) -> ScanPosition {
        ScanPosition { words }
    }

    /// The words that the index gave.
    #[inline]
    pub fn words(&self) -> [u64; 4] {
        self.words
    }
}
