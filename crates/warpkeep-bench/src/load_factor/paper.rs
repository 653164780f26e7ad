//! The figures that the paper's text gives as numbers.

use warpkeep_gphash::Geometry;

/// A load factor that was published.
pub(super) struct Figure {
    pub(super) load_factor: f64,
    source: &'static str,
}

impl Figure {
    pub(super) fn label(&self, geometry: Geometry) -> String {
        format!("{geometry}, published ({})", self.source)
    }
}

/// The figure for a geometry, if there is one.
pub(super) fn published(geometry: Geometry) -> Option<Figure> {
    // Section 4.2, on figure 7: "offering high load factors of up to 92%", for the default configuration.
    (geometry == Geometry::default()).then_some(Figure { load_factor: 0.92, source: "section 4.2, figure 7" })
}

/// Notes for the reader.
pub(super) fn notes() -> [String; 1] {
    ["the paper gives one number in its text, for 2L-2H-8S in figure 7: up to 92%, in a table that grows when an insert \
      fails; its figure 13 shows the maximum by configuration as points without numbers, so that there is nothing to \
      quote, and says that more hash locations and levels give higher load factors"
        .to_owned()]
}
