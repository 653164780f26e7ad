//! Figures in CSV, as benchmarks write them: a row for each round, or the summaries of all rounds.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use super::source::{Relation, Spread, Summary};
use crate::measure;

/// The first cell of both kinds.
const FIRST: &str = "benchmark";

/// The benchmark of a table, and its summaries.
pub(super) fn read(from: impl Read) -> Result<(String, Vec<Summary>), String> {
    let mut reader = csv::Reader::from_reader(from);
    let headings = reader.headers().map_err(|error| error.to_string())?.clone();
    let column = |name: &str| {
        let found = headings.iter().position(|heading| heading == name);
        found.ok_or_else(|| format!("its columns are not those of a benchmark: `{name}` is missing"))
    };
    let names = [FIRST, "case", "variant", "metric", "unit"];
    let [benchmark, case, variant, metric, unit] = columns(&column, names)?;
    let mut rows = Rows::default();
    let mut of = String::new();
    let summarised = column("median").is_ok();
    for record in reader.records() {
        let record = record.map_err(|error| error.to_string())?;
        let text = |column: usize| record.get(column).unwrap_or_default().to_owned();
        // A figure that is not finite is written as NaN or inf, and shown as missing.
        let number = |column: usize| text(column).parse::<f64>().ok().filter(|number| number.is_finite());
        of = text(benchmark);
        let names = [text(case), text(variant), text(metric), text(unit)];
        if !summarised {
            rows.add(names, number(column("value")?));
            continue;
        }
        let [rounds, q1, median, q3] = columns(&column, ["rounds", "q1", "median", "q3"])?;
        let count = number(rounds).map_or(0, |rounds| rounds as usize);
        let spread = Spread { count, q1: number(q1), median: number(median), q3: number(q3) };
        let relation = |to: &str, ratio: &str, close: Option<&str>| {
            let to = text(column(to).ok()?);
            let too_close_to_tell =
                close.is_some_and(|close| column(close).is_ok_and(|close| text(close) == "true"));
            let ratio = column(ratio).ok().and_then(number);
            (!to.is_empty()).then_some(Relation { to, ratio, too_close_to_tell })
        };
        let limit = relation("limit", "of limit", None);
        let beside = relation("beside", "ratio", Some("within the spread"));
        rows.summaries.push(summary(names, spread, limit, beside));
    }
    Ok((of, rows.summarised()))
}

/// Whether a file begins as one of a benchmark: charts are CSV, too.
pub(super) fn is_of_a_benchmark(path: &Path) -> bool {
    let first =
        csv::Reader::from_path(path).and_then(|mut reader| Ok(reader.headers()?.get(0) == Some(FIRST)));
    first.unwrap_or(false)
}

fn columns<const N: usize>(
    column: &dyn Fn(&str) -> Result<usize, String>,
    names: [&str; N],
) -> Result<[usize; N], String> {
    let mut found = [0; N];
    for (found, name) in found.iter_mut().zip(names) {
        *found = column(name)?;
    }
    Ok(found)
}

fn summary(
    [case, variant, metric, unit]: [String; 4],
    spread: Spread,
    limit: Option<Relation>,
    beside: Option<Relation>,
) -> Summary {
    Summary { case, variant, metric, unit, spread, limit, beside }
}

/// Summaries, and the figures of rounds that are still to be summarised, in the order of their first row.
#[derive(Default)]
struct Rows {
    summaries: Vec<Summary>,
    figures: Vec<([String; 4], Vec<f64>)>,
    places: HashMap<[String; 4], usize>,
}

impl Rows {
    fn add(&mut self, names: [String; 4], figure: Option<f64>) {
        let place = *self.places.entry(names.clone()).or_insert_with(|| {
            self.figures.push((names, Vec::new()));
            self.figures.len() - 1
        });
        self.figures[place].1.extend(figure);
    }

    fn summarised(mut self) -> Vec<Summary> {
        for (names, figures) in self.figures {
            let spread = measure::Spread::of(&figures);
            let part = |of: fn(&measure::Spread) -> f64| spread.as_ref().map(of);
            let (q1, median, q3) = (part(|all| all.q1), part(|all| all.median), part(|all| all.q3));
            let spread = Spread { count: figures.len(), q1, median, q3 };
            self.summaries.push(summary(names, spread, None, None));
        }
        self.summaries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_summarised_in_their_order() {
        let text = "benchmark,case,variant,round,metric,unit,value\n\
            gpu map,\"find, hit\",device,0,rate,1/s,3\ngpu map,erase,device,0,rate,1/s,NaN\n\
            gpu map,\"find, hit\",device,1,rate,1/s,1\n";
        let (benchmark, summaries) = read(text.as_bytes()).unwrap();
        assert_eq!(benchmark, "gpu map");
        let shown: Vec<_> = summaries
            .iter()
            .map(|summary| (summary.case.as_str(), summary.spread.count, summary.spread.median))
            .collect();
        assert_eq!(shown, [("find, hit", 2, Some(2.0)), ("erase", 0, None)]);
    }

    #[test]
    fn summaries_keep_their_relations() {
        let text = "benchmark,case,variant,metric,unit,rounds,q1,median,q3,limit,of limit,beside,ratio,within the spread\n\
            gpu map,find,device,rate,1/s,3,1,2,3,random reads,0.5,,,\n\
            gpu map,find,cpu,rate,1/s,3,1,2,3,,,device,0.9,true\n";
        let (_, summaries) = read(text.as_bytes()).unwrap();
        let limit = summaries[0].limit.as_ref().unwrap();
        assert_eq!((limit.to.as_str(), limit.ratio), ("random reads", Some(0.5)));
        assert!(summaries[0].beside.is_none() && summaries[1].limit.is_none());
        let beside = summaries[1].beside.as_ref().unwrap();
        assert_eq!((beside.to.as_str(), beside.ratio, beside.too_close_to_tell), ("device", Some(0.9), true));
    }

    #[test]
    fn other_tables_are_refused_by_the_missing_column() {
        for text in ["", "curve,x,y\na,1,2\n", "benchmark,case,variant,metric,unit\na,b,c,d,e\n"] {
            let error = read(text.as_bytes()).unwrap_err();
            assert!(error.contains("is missing"), "{error}");
        }
        assert!(read(&b"benchmark,case,variant,metric,unit,median\na\n"[..]).is_err());
    }
}
