//! How a graph is made.

/// How a [`Graph`](super::Graph) is made. By default it is directed, its edges have no data, and edges from a vertex to itself are dropped.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GraphOptions {
    pub(super) undirected: bool,
    pub(super) keeps_loops: bool,
    pub(super) weights: bool,
    pub(super) ids: bool,
    pub(super) times: bool,
}

impl GraphOptions {
    /// An edge leads both ways, whichever way it is inserted, and is one edge.
    #[must_use]
    pub fn undirected(self) -> Self {
        Self { undirected: true, ..self }
    }

    /// Edges may lead from a vertex to itself. Otherwise such operations are answered [`Loop`](super::EdgeStatus::Loop) and change nothing.
    #[must_use]
    pub fn keep_loops(self) -> Self {
        Self { keeps_loops: true, ..self }
    }

    /// Edges have weights, four bytes each.
    #[must_use]
    pub fn weights(self) -> Self {
        Self { weights: true, ..self }
    }

    /// Edges have ids, eight bytes each.
    #[must_use]
    pub fn ids(self) -> Self {
        Self { ids: true, ..self }
    }

    /// Edges have times, eight bytes each.
    #[must_use]
    pub fn times(self) -> Self {
        Self { times: true, ..self }
    }

    /// As a number, for files.
    pub(super) fn flags(&self) -> u32 {
        let bits = [self.undirected, self.keeps_loops, self.weights, self.ids, self.times];
        bits.iter().rev().fold(0, |flags, bit| 2 * flags + u32::from(*bit))
    }

    /// The options of these flags, if they are flags of options.
    pub(super) fn of_flags(flags: u32) -> Option<Self> {
        let bit = |number: u32| flags >> number & 1 == 1;
        let options =
            Self { undirected: bit(0), keeps_loops: bit(1), weights: bit(2), ids: bit(3), times: bit(4) };
        (flags < 32).then_some(options)
    }

    /// For messages.
    pub(super) fn describe(&self) -> String {
        let mut text = format!("a Graph ({}", if self.undirected { "undirected" } else { "directed" });
        let parts = [
            (self.keeps_loops, "loops kept"),
            (self.weights, "weights"),
            (self.ids, "ids"),
            (self.times, "times"),
        ];
        for (_, part) in parts.iter().filter(|(has, _)| *has) {
            text.push_str(", ");
            text.push_str(part);
        }
        text.push(')');
        text
    }
}
