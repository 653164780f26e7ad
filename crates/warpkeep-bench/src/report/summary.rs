//! The figures of all rounds together, and their relations.

use std::collections::HashMap;

use serde::Serialize;

use super::{Report, Row, Unit};
use crate::measure::{Ratio, Spread};

/// A figure in proportion to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Relation {
    /// To which.
    pub to: String,
    /// The ratio, in the median of the rounds.
    pub ratio: f64,
    /// Whether the spread of the rounds is wider than the difference.
    pub too_close_to_tell: bool,
}

impl Relation {
    /// The result of a comparison by rounds.
    pub fn of(to: impl Into<String>, ratio: &Ratio) -> Relation {
        Relation { to: to.into(), ratio: ratio.spread.median, too_close_to_tell: ratio.too_close_to_tell }
    }
}

/// The figures of all rounds together.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The work.
    pub case: String,
    /// The contestant.
    pub variant: String,
    /// The measured quantity.
    pub metric: String,
    /// Its unit.
    pub unit: Unit,
    /// The figures.
    pub spread: Spread,
    /// The limit that binds it, if one is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Relation>,
    /// How it compares with the variant that all of the case are compared with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<Relation>,
}

/// Where a relation belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    case: String,
    variant: String,
    metric: String,
    is_limit: bool,
}

impl Place {
    pub(super) fn limit(case: &str, variant: &str, metric: &str) -> Place {
        Place {
            case: case.to_owned(),
            variant: variant.to_owned(),
            metric: metric.to_owned(),
            is_limit: true,
        }
    }

    pub(super) fn beside(case: &str, variant: &str, metric: &str) -> Place {
        Place { is_limit: false, ..Place::limit(case, variant, metric) }
    }
}

impl Report {
    /// The summaries of the figures so far.
    pub(super) fn summarise(&self) -> Vec<Summary> {
        let mut groups: Vec<(&Row, Vec<f64>)> = Vec::new();
        let mut places = HashMap::new();
        for row in &self.rows {
            let place = *places.entry((&row.case, &row.variant, &row.metric)).or_insert(groups.len());
            match groups.get_mut(place) {
                Some((_, values)) => values.push(row.value),
                None => groups.push((row, vec![row.value])),
            }
        }
        let summary = |(row, values): (&Row, Vec<f64>)| {
            let Row { case, variant, metric, unit, .. } = row.clone();
            let at = |place: Place| {
                let found = self.relations.iter().rev().find(|(other, _)| *other == place);
                found.map(|(_, relation)| relation.clone())
            };
            let limit = at(Place::limit(&case, &variant, &metric));
            let beside = at(Place::beside(&case, &variant, &metric));
            Some(Summary { case, variant, metric, unit, spread: Spread::of(&values)?, limit, beside })
        };
        groups.into_iter().filter_map(summary).collect()
    }
}
