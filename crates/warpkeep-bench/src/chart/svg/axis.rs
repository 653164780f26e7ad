//! An axis: where a figure lies on it, and where it has its ticks.

use crate::chart::Scale;

/// Ticks that are aimed at.
const TICKS: f64 = 6.0;
/// From this ratio between the largest and the smallest, a few points are better shown on a logarithmic axis.
const WIDE: f64 = 16.0;
/// A curve with more points is a course over time, and not a series of sizes.
pub(super) const FEW: usize = 16;
/// A chart cannot show figures beyond this.
const EXTREME: f64 = 1e15;

/// A range of figures laid along a line.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    from: f64,
    to: f64,
    logarithmic: bool,
    step: f64,
}

impl Axis {
    /// An axis that shows all of these, in which a curve has at most `points`.
    pub(super) fn new(values: impl Iterator<Item = f64>, scale: Scale, points: usize) -> Axis {
        let within = |value: f64| value.clamp(-EXTREME, EXTREME);
        let mut values: Vec<f64> = values.filter(|value| value.is_finite()).map(within).collect();
        if values.is_empty() {
            values.push(1.0);
        }
        let (least, most) = (fold(&values, f64::min), fold(&values, f64::max));
        let can = least >= 1.0 / EXTREME && most > least;
        let logarithmic = match scale {
            Scale::Linear => false,
            Scale::Logarithmic => can,
            Scale::Fitting => can && points <= FEW && most / least >= WIDE,
        };
        if logarithmic {
            let (from, to) = (least.log10(), most.log10());
            let room = 0.04 * (to - from);
            return Axis { from: from - room, to: to + room, logarithmic, step: 1.0 };
        }
        let (from, to) = (least.min(0.0), most.max(0.0));
        let to = if to > from { to } else { from + 1.0 };
        let step = nice((to - from) / TICKS);
        // Up to the next tick, unless that is far.
        let up = (to / step).ceil() * step;
        let to = if up - to < 0.6 * step { up } else { to + 0.03 * (to - from) };
        Axis { from: (from / step).floor() * step, to, logarithmic, step }
    }

    /// Where a figure lies: 0 at one end of the axis, 1 at the other, a little beyond at most.
    pub(super) fn place(&self, value: f64) -> f64 {
        let value = value.clamp(-EXTREME, EXTREME);
        let value = if self.logarithmic { value.max(1.0 / EXTREME).log10() } else { value };
        ((value - self.from) / (self.to - self.from)).clamp(-0.1, 1.1)
    }

    /// The end of the axis.
    pub(super) fn end(&self) -> f64 {
        if self.logarithmic { 10_f64.powf(self.to) } else { self.to }
    }

    /// The ticks and their labels.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        if !self.logarithmic {
            let count = ((self.to - self.from) / self.step + 1e-6).floor() as i64;
            let first = (self.from / self.step).round();
            let tick = |place: i64| (first + place as f64) * self.step;
            return (0..=count).map(|place| (tick(place), label(tick(place), self.step))).collect();
        }
        let decades = self.to - self.from;
        let factors: &[f64] = match decades {
            d if d <= 1.2 => &[1.0, 2.0, 3.0, 5.0, 7.0],
            d if d <= 3.2 => &[1.0, 2.0, 5.0],
            _ => &[1.0],
        };
        let skip = if decades > 9.0 { 3 } else { 1 };
        let exponents = (self.from.floor() as i32..=self.to.ceil() as i32).filter(|power| power % skip == 0);
        let ticks = exponents.flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)));
        let within = |tick: &f64| (self.from..=self.to).contains(&tick.log10());
        ticks.filter(within).map(|tick| (tick, label(tick, tick))).collect()
    }
}

fn fold(values: &[f64], by: fn(f64, f64) -> f64) -> f64 {
    values.iter().copied().reduce(by).unwrap_or(0.0)
}

/// The next larger of 1, 2, 5 and their tenfolds.
fn nice(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .map(|factor| factor * power)
        .into_iter()
        .find(|nice| *nice >= 0.999 * step)
        .unwrap_or(step)
}

/// A tick's figure, with enough digits to distinguish it from the next one.
fn label(value: f64, step: f64) -> String {
    let (divisor, unit) = match value.abs() {
        v if v >= 1e9 => (1e9, "G"),
        v if v >= 1e6 => (1e6, "M"),
        v if v >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let (value, step) = (value / divisor, step.abs() / divisor);
    let decimals = if step > 0.0 { (-step.log10() - 1e-9).ceil().clamp(0.0, 9.0) as usize } else { 0 };
    // For example 2.5, which needs one digit more than its step.
    let decimals = (decimals..decimals + 2).find(|&d| exact(value, d)).unwrap_or(decimals);
    if value == 0.0 { "0".to_owned() } else { format!("{value:.decimals$}{unit}") }
}

fn exact(value: f64, decimals: usize) -> bool {
    let shifted = value * 10_f64.powi(decimals as i32);
    (shifted - shifted.round()).abs() < 1e-6 * shifted.abs().max(1.0)
}

/// A figure in three digits, and more before the point; its unit is at the axis.
pub(super) fn figure(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        v => (2.0 - v.log10().floor()).clamp(2.0, 6.0) as usize,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(values: &[f64], scale: Scale) -> Vec<String> {
        Axis::new(values.iter().copied(), scale, 3).ticks().into_iter().map(|tick| tick.1).collect()
    }

    #[test]
    fn ticks_are_round_and_cover_the_figures() {
        assert_eq!(labels(&[0.3, 11.0], Scale::Linear), ["0", "2", "4", "6", "8", "10", "12"]);
        assert_eq!(labels(&[0.9], Scale::Linear), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(&[16e6], Scale::Linear), ["0", "5M", "10M", "15M"]);
        assert_eq!(labels(&[-3.0, 3.0], Scale::Linear), ["-3", "-2", "-1", "0", "1", "2", "3"]);
        assert_eq!(labels(&[1e6, 16e6], Scale::Fitting), ["1M", "2M", "5M", "10M"]);
        assert_eq!(labels(&[1e-3, 1e3], Scale::Fitting), ["0.001", "0.01", "0.1", "1", "10", "100", "1000"]);
        assert_eq!(labels(&[], Scale::Logarithmic), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
    }

    #[test]
    fn places_are_in_order_and_within() {
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let axis = Axis::new([1.0, 500.0].into_iter(), scale, 2);
            let places: Vec<f64> = [1.0, 2.0, 100.0, 500.0].map(|value| axis.place(value)).into();
            assert!(places.is_sorted() && places[0] >= 0.0 && places[3] <= 1.0, "{places:?}");
        }
        let axis = Axis::new([10.0, 10_000.0].into_iter(), Scale::Logarithmic, 2);
        assert!((axis.place(316.23) - 0.5).abs() < 1e-3);
    }

    #[test]
    fn figures_have_three_digits() {
        let shown = [0.0, 0.001_234, 0.5, 1.234, 12.34, 123.4, 12_340.0, 1.234e7].map(figure);
        assert_eq!(shown, ["0", "0.00123", "0.500", "1.23", "12.3", "123", "12340", "12340000"]);
    }
}
