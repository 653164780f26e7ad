//! T = k x + b: the time of a batch by its size.

/// A line through points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    /// The time of one more key.
    pub(super) k: f64,
    /// The time of a batch without keys.
    pub(super) b: f64,
}

impl Line {
    /// The line with the least squares of *relative* errors, so that small batches count as much as large ones. `None`
    /// if the points do not determine one.
    pub(super) fn fit(points: &[(f64, f64)]) -> Option<Line> {
        let sum =
            |term: &dyn Fn(f64, f64) -> f64| points.iter().map(|&(x, t)| term(x, t) / (t * t)).sum::<f64>();
        let (one, x, xx) = (sum(&|_, _| 1.0), sum(&|x, _| x), sum(&|x, _| x * x));
        let (t, xt) = (sum(&|_, t| t), sum(&|x, t| x * t));
        let determinant = one * xx - x * x;
        let k = (one * xt - x * t) / determinant;
        let line = Line { k, b: (t - k * x) / one };
        (line.k.is_finite() && line.b.is_finite()).then_some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again_and_one_point_determines_none() {
        let points: Vec<(f64, f64)> = [10.0, 100.0, 5000.0].iter().map(|&x| (x, 0.003 * x + 37.4)).collect();
        let line = Line::fit(&points).expect("a line");
        assert!((line.k - 0.003).abs() < 1e-9 && (line.b - 37.4).abs() < 1e-6, "{line:?}");
        assert_eq!(Line::fit(&points[..1]), None);
        assert_eq!(Line::fit(&[]), None);
    }
}
