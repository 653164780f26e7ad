//! Bars drawn with letters.

/// A share of one, `width` letters wide.
pub(crate) fn bar(share: f64, width: usize) -> String {
    // A NaN is drawn as an empty bar.
    let filled = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
    format!("[{}{}]", "#".repeat(filled), " ".repeat(width - filled))
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn bars_stay_within_their_width() {
        assert_eq!(
            [0.0, 0.5, 1.0, 7.0, -1.0, f64::NAN].map(|share| bar(share, 4)),
            ["[    ]", "[##  ]", "[####]", "[####]", "[    ]", "[    ]"]
        );
    }
}
