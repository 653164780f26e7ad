//! The page is well-formed, shows the reports' contents, and has a plot wherever there is something to compare.

use std::path::PathBuf;

use roxmltree::{Document, Node, ParsingOptions};
use warpkeep_bench::chart::{Chart, Curve, Drawing, Trade, TradePoint};
use warpkeep_bench::measure::Goal;
use warpkeep_bench::page::{self, Page, Source};
use warpkeep_bench::report::{Report, Unit};

const NASTY: &str = "<script>alert(\"&\")</script>";

/// A report with everything a page can show: two cases of rates, one without, curves, trades, ratios, notes.
fn report() -> Report {
    let mut report = Report::new("compare", "warpkeep bench compare --only 'a & b'", 3);
    for round in 0..3 {
        let drift = f64::from(round);
        for case in ["get, 1 thread", "get, 2 threads"] {
            report.add(case, "warpkeep, batches", round, "rate", Unit::PerSecond, 2e6 + 1e5 * drift);
            report.add(case, NASTY, round, "rate", Unit::PerSecond, 1e6 + 1e5 * drift);
            report.add(case, NASTY, round, "p99", Unit::Micros, 5.0);
            report.add(case, "memory, lines of a get, prefetched", round, "rate", Unit::PerSecond, 4e6);
        }
        report.add("coming back", "rebuild", round, "total", Unit::Seconds, 1.5);
        report.add("coming back", "re-attach", round, "total", Unit::Seconds, 0.5);
    }
    report.others("get, 1 thread", 0.04);
    report.compare("get, 1 thread", "rate", "warpkeep, batches", NASTY, Some(Goal::AtLeast(1.5)));
    report.notes.push("a note with <b>tags</b> & more".to_owned());
    report.finish();
    let line = |name: &str| Curve { name: name.into(), points: vec![(1e6, 0.1), (2e7, 1.2)] };
    let curves = Drawing::Curves(vec![line("resize <1>"), line("rebuild")]);
    let point = |label: &str, x, y| TradePoint { label: label.into(), x, y };
    let steps = vec![point("1", 0.1, 10.0), point("64", 2.0, 40.0)];
    report.charts = vec![
        Chart::new("time against size", "items", "seconds", curves),
        Chart::trades(
            "rate and latency",
            "M/s",
            "us",
            vec![Trade { name: "warpkeep".into(), points: steps }],
        ),
    ];
    report.charts.extend(Chart::bars_of(&report, "get, 1 thread", "rate", ("M/s", 1e-6), &[]));
    report
}

fn source() -> Source {
    Source::parse("compare", &report().to_json().expect("JSON")).expect("a report")
}

fn render(sources: &[Source]) -> Page {
    page::render(sources).expect("a page")
}

fn parse(html: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(html, options).expect("well-formed")
}

fn all<'a>(document: &'a Document<'_>, name: &'a str) -> impl Iterator<Item = Node<'a, 'a>> {
    document.descendants().filter(move |node| node.has_tag_name(name) || node.tag_name().name() == name)
}

fn text_of(node: Node<'_, '_>) -> String {
    node.descendants().filter_map(|inner| inner.text().filter(|_| inner.is_text())).collect()
}

#[test]
fn the_page_is_well_formed_and_needs_nobody() {
    let page = render(&[source(), source()]);
    let document = parse(&page.html);
    assert!(page.html.starts_with("<!DOCTYPE html>"));
    for name in ["script", "link", "img", "iframe"] {
        assert_eq!(all(&document, name).count(), 0, "{name}");
    }
    let outside = |node: &Node<'_, '_>| {
        node.attributes().any(|attribute| {
            ["href", "src"].contains(&attribute.name()) && !attribute.value().starts_with('#')
        })
    };
    assert!(!document.descendants().any(|node| outside(&node)), "it wants something from elsewhere");
    assert!(!page.html.contains("@import") && !page.html.contains("url("));
    // Every link leads somewhere.
    for link in all(&document, "a") {
        let id = link.attribute("href").expect("a target").trim_start_matches('#');
        assert!(document.descendants().any(|node| node.attribute("id") == Some(id)), "{id}");
    }
    for (name, svg) in &page.plots {
        let plot = Document::parse(svg).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(plot.root_element().tag_name().name(), "svg");
    }
}

#[test]
fn every_table_that_compares_rates_has_its_plot() {
    let page = render(&[source()]);
    let document = parse(&page.html);
    let section = all(&document, "section").next().expect("a section");
    let mut under = String::new();
    let mut found: Vec<(String, &str)> = Vec::new();
    for node in section.children() {
        match node.tag_name().name() {
            "h3" => under = text_of(node),
            name @ ("figure" | "div") => found.push((under.clone(), name)),
            _ => {}
        }
    }
    let found: Vec<(&str, &str)> = found.iter().map(|(case, what)| (case.as_str(), *what)).collect();
    let wanted = [
        ("", "figure"),
        ("", "figure"),
        ("get, 1 thread", "figure"),
        ("get, 1 thread", "div"),
        ("get, 2 threads", "figure"),
        ("get, 2 threads", "div"),
        ("coming back", "div"),
        ("ratios, by rounds", "div"),
    ];
    assert_eq!(found, wanted);
    let files: Vec<&str> = page.plots.iter().map(|plot| plot.0.as_str()).collect();
    let wanted = [
        "compare-time-against-size.svg",
        "compare-rate-and-latency.svg",
        "compare-get-1-thread.svg",
        "compare-get-2-threads.svg",
    ];
    assert_eq!(files, wanted);
}

#[test]
fn plots_have_axes_with_units_whiskers_and_limits() {
    let page = render(&[source()]);
    let words = |file: &str| {
        let (_, svg) = page.plots.iter().find(|plot| plot.0 == file).expect("a plot");
        let plot = Document::parse(svg).expect("well-formed");
        plot.descendants()
            .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "text")))
            .map(text_of)
            .map(|text| text.trim().to_owned())
            .collect::<Vec<String>>()
    };
    let has = |words: &[String], wanted: &str| words.iter().any(|word| word == wanted);
    let bars = words("compare-get-1-thread.svg");
    for wanted in [
        "get, 1 thread",
        "million a second",
        "warpkeep, batches",
        "2.10",
        "limit, memory, lines of a get, prefetched: 4.00",
    ] {
        assert!(has(&bars, wanted), "{wanted}: {bars:?}");
    }
    let curves = words("compare-time-against-size.svg");
    for wanted in ["items", "seconds", "resize <1>", "rebuild", "1M", "10M"] {
        assert!(has(&curves, wanted), "{wanted}: {curves:?}");
    }
    let trades = words("compare-rate-and-latency.svg");
    assert!(["M/s", "us", "warpkeep", "1", "64"].iter().all(|wanted| has(&trades, wanted)), "{trades:?}");
}

#[test]
fn text_is_shown_as_it_is_and_does_nothing() {
    let page = render(&[source()]);
    let document = parse(&page.html);
    let text = text_of(document.root_element());
    for wanted in [
        NASTY,
        "a note with <b>tags</b> & more",
        "--only 'a & b'",
        "2.10 M/s ±2%",
        "5.00 us",
        "at least 1.5",
        "met",
        "Meanwhile others took 4.00% of the processors.",
    ] {
        assert!(text.contains(wanted), "{wanted}");
    }
    assert!(!page.html.contains("<script") && !page.html.contains("<b>"));
}

#[test]
fn files_are_written_and_no_plot_overwrites_another() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        std::fs::write(&path, text).expect("a file");
        path
    };
    let json = report().to_json().expect("JSON");
    let results = [file("one/compare.json", &json), file("two/compare.json", &json)];
    let out = directory.path().join("page");
    let (page, plots) = page::write(&results, &out).expect("a page");
    assert_eq!((page, plots), (out.join("index.html"), 8));
    assert_eq!(std::fs::read_dir(&out).expect("a directory").count(), 9);
}

#[test]
fn what_is_no_report_is_refused_with_its_name() {
    let directory = tempfile::tempdir().expect("a directory");
    let out = directory.path().join("page");
    let newer = report().to_json().expect("JSON").replacen("\"schema\": 1", "\"schema\": 7", 1);
    for (name, text, words) in [
        ("empty.json", "", "--json"),
        ("other.json", "{\"a\": 1}", "--json"),
        ("list.json", "[]", "--json"),
        ("newer.json", &newer, "layout 7"),
    ] {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("a file");
        let error = page::write(&[path], &out).expect_err(name).to_string();
        assert!(error.contains(name) && error.contains(words), "{error}");
    }
    let missing =
        page::write(&[directory.path().join("missing.json")], &out).expect_err("missing").to_string();
    assert!(missing.contains("missing.json"), "{missing}");
    assert!(page::write(&[], &out).is_err() && !out.exists());
}

#[test]
fn results_of_before_are_still_read() {
    let reports = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/reports");
    let mut read = 0;
    for file in std::fs::read_dir(&reports).expect("reports of earlier versions").flatten() {
        let source = Source::read(&file.path()).unwrap_or_else(|error| panic!("{error}"));
        parse(&render(&[source]).html);
        read += 1;
    }
    assert!(read > 0, "no result was found");
}

#[test]
fn a_folder_of_csv_files_is_a_page_with_curves_by_batch() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = Report::new("gpu map", "warpkeep bench gpu map", 3);
    for (batch, rate) in [(64, 1e6), (4096, 9e6)] {
        for operation in ["find, hit", "erase"] {
            let case = format!("{operation}, load 0.8, batches of {batch}");
            report.add(&case, "device", 0, "rate", Unit::PerSecond, rate);
        }
    }
    report.finish();
    let path = folder.path().join("map.csv");
    report.write_csv(&path).unwrap();
    std::fs::write(folder.path().join("map-curves.csv"), "curve,x,y\na,1,2\n").unwrap();
    let pages = folder.path().join("page");
    let (index, plots) = page::write(&[folder.path().to_path_buf()], &pages).unwrap();
    assert_eq!(plots, 1);
    let html = std::fs::read_to_string(index).unwrap();
    let document = parse(&html);
    assert_eq!(all(&document, "figure").count(), 1);
    for shown in ["find, hit, device", "gpu map, load 0.8", "9.00 M/s", "README.md of the folder"] {
        assert!(html.contains(shown), "{shown}");
    }
    // A file by itself is the same, and one that is no result is refused by name.
    assert_eq!(page::write(&[path], &pages).unwrap().1, 1);
    let refused = page::write(&[folder.path().join("map-curves.csv")], &pages).unwrap_err().to_string();
    assert!(refused.contains("map-curves.csv") && refused.contains("--csv"), "{refused}");
    let nothing = tempfile::tempdir().unwrap();
    assert!(page::write(&[nothing.path().to_path_buf()], &pages).is_err());
}
