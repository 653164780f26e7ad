//! `load` and `dump` with CSV and JSON lines.

use std::collections::BTreeSet;

use crate::shop::{ROWS, Ran, Shop, with_input};

/// The lines of a file, without their order.
fn lines(text: &str) -> BTreeSet<&str> {
    text.lines().collect()
}

fn read(path: &std::path::Path) -> String {
    std::fs::read_to_string(path).expect("a file")
}

fn load(shop: &Shop, table: &str, file: &std::path::Path, arguments: &[&str], code: i32) -> Ran {
    Ran::of(shop.run("load").arg(table).arg(file).args(arguments)).expect(code)
}

fn dump(shop: &Shop, table: &str, name: &str, arguments: &[&str]) -> String {
    let path = shop.path(name);
    Ran::of(shop.run("dump").arg(table).arg(&path).args(arguments)).expect(0);
    read(&path)
}

#[test]
fn csv_there_and_back() {
    let shop = Shop::empty();
    let text = "key,value\n1,one\n2,\"two, with a comma\"\n3,\"two\nlines\"\n4,hex:00ff\n5,\n6,text:hex:\n7,\"a \"\"quote\"\"\"\n";
    let file = shop.file("in.csv", text);
    let json = load(&shop, "t", &file, &["--create", "--json"], 0).json();
    assert_eq!((&json["loaded"], &json["new"], &json["skipped"]), (&7.into(), &7.into(), &0.into()));
    assert_eq!(shop.ran("get", &["t", "2"], 0).out, "two, with a comma\n");
    let tables = shop.ran("list", &["--json"], 0).json();
    assert_eq!(tables["tables"][0]["key"], "u64");
    assert_eq!(lines(&dump(&shop, "t", "out.csv", &[])), lines(text));

    // A dump loads into the same.
    load(&shop, "u", &shop.path("out.csv"), &["--create"], 0);
    assert_eq!(lines(&dump(&shop, "u", "again.csv", &[])), lines(text));
    for coding in ["hex", "base64"] {
        let name = format!("{coding}.csv");
        dump(&shop, "t", &name, &["--as", coding]);
        load(&shop, coding, &shop.path(&name), &["--create", "--as", coding], 0);
        assert_eq!(lines(&dump(&shop, coding, &format!("from-{name}"), &[])), lines(text));
    }
    let again = load(&shop, "t", &file, &["--json"], 0).json();
    assert_eq!((&again["loaded"], &again["new"]), (&7.into(), &0.into()));
}

#[test]
fn columns_by_name_and_by_number() {
    let shop = Shop::empty();
    let file = shop.file("in.csv", "id,name,age\nada,Ada,36\nalan,Alan,41\n");
    let words = load(&shop, "t", &file, &["--create"], 1);
    assert!(words.err.contains("line 2") && words.err.contains("'Ada' is no <f4"), "{}", words.err);
    let nameless = shop.file("nameless.csv", "name,age\nAda,36\n");
    let missing = load(&shop, "t", &nameless, &["--create"], 1);
    assert!(missing.err.contains("no column 'key', only name, age"), "{}", missing.err);
    load(&shop, "t", &file, &["--create", "--key-column", "id", "--value-column", "3"], 0);
    assert_eq!(shop.ran("get", &["t", "alan"], 0).out, "41\n");
    let bare = shop.file("bare.csv", "1,one\n2,two\n");
    load(&shop, "u", &bare, &["--create", "--no-headers"], 0);
    assert_eq!(shop.ran("get", &["u", "1"], 0).out, "one\n");
    load(&shop, "v", &bare, &["--create", "--no-headers", "--key-column", "2", "--value-column", "1"], 0);
    assert_eq!(shop.ran("get", &["v", "two"], 0).out, "2\n");
}

#[test]
fn json_lines_there_and_back() {
    let shop = Shop::empty();
    let text = "{\"key\":\"a\",\"value\":\"plain\"}\n{\"key\":\"hex:ff00\",\"value\":\"two\\nlines\"}\n\
                {\"key\":\"c\",\"value\":\"hex:ff\"}\n";
    let file = shop.file("in.jsonl", text);
    load(&shop, "t", &file, &["--create"], 0);
    assert_eq!(lines(&dump(&shop, "t", "out.jsonl", &[])), lines(text));
    let tables = shop.ran("list", &["--json"], 0).json();
    assert_eq!(tables["tables"][0]["key"], "var:1024");

    let rows =
        "{\"key\":1,\"value\":[0.1,-2.5,1e-40]}\n{\"key\":2,\"value\":[\"inf\",\"NaN\",3.4028235e+38]}\n";
    let file = shop.file("rows.jsonl", rows);
    load(&shop, "rows", &file, &["--create", "--as", "f32"], 0);
    let tables = shop.ran("list", &["--json"], 0).json();
    assert_eq!(tables["tables"][0]["value"], "fixed:12");
    assert_eq!(lines(&dump(&shop, "rows", "rows-out.jsonl", &["--as", "f32"])), lines(rows));
    assert_eq!(shop.ran("get", &["rows", "1", "--format", "f32"], 0).out, "0.1 -2.5 1e-40\n");

    let counts = "{\"key\":\"x\",\"value\":18446744073709551615}\n";
    load(&shop, "counts", &shop.file("counts.ndjson", counts), &["--create", "--as", "u64"], 0);
    assert_eq!(dump(&shop, "counts", "counts-out.jsonl", &["--as", "u64"]), counts);
}

/// Keys of any length with values of one length, which the table stores in cells of one size: all lengths survive
/// the round trip.
#[test]
fn short_names_there_and_back() {
    let shop = Shop::empty();
    shop.ran("create", &["names", "--key", "var:12", "--value", "u64"], 0);
    // One is the prefix of another; one ends with zeros.
    let text = "{\"key\":\"a\",\"value\":1}\n{\"key\":\"ab\",\"value\":2}\n{\"key\":\"a\\u0000\",\"value\":3}\n\
                {\"key\":\"twelve bytes\",\"value\":4}\n";
    let file = shop.file("in.jsonl", text);
    load(&shop, "names", &file, &["--as", "u64"], 0);
    assert_eq!(lines(&dump(&shop, "names", "out.jsonl", &["--as", "u64"])), lines(text));
    assert_eq!(shop.ran("get", &["names", "ab", "--format", "u64"], 0).out, "2\n");
    shop.ran("get", &["names", "abc", "--format", "u64"], 4);
    let longer = shop.file("longer.jsonl", "{\"key\":\"thirteen byte\",\"value\":5}\n");
    let refused = load(&shop, "names", &longer, &["--as", "u64"], 1);
    assert!(refused.err.contains("12"), "{}", refused.err);
}

#[test]
fn more_than_one_batch() {
    let shop = Shop::empty();
    let text: String = (0..10_000).map(|n| format!("{{\"key\":{n},\"value\":\"{}\"}}\n", n * n)).collect();
    let json = load(&shop, "t", &shop.file("in.jsonl", &text), &["--create", "--json"], 0).json();
    assert_eq!(json["loaded"], 10_000);
    assert_eq!(lines(&dump(&shop, "t", "out.jsonl", &[])), lines(&text));
    assert_eq!(shop.ran("get", &["t", "9999"], 0).out, "99980001\n");
}

#[test]
fn bad_lines_are_told_by_number() {
    let shop = Shop::empty();
    shop.ran("create", &["t", "--key", "u64", "--value", "var:5"], 0);
    let csv = "key,value\n1,one\nx,two\n3\n4,toolong\n5,hex:0\n6,six\n";
    let file = shop.file("in.csv", csv);
    let ran = load(&shop, "t", &file, &[], 1);
    for word in ["line 3", "'x' is no 64-bit integer", "--skip-bad", "nothing was loaded"] {
        assert!(ran.err.contains(word), "{word}: {}", ran.err);
    }
    let json = load(&shop, "t", &file, &["--skip-bad", "--json"], 0).json();
    assert_eq!((&json["loaded"], &json["skipped"]), (&2.into(), &4.into()));
    assert_eq!(json["skipped_examples"].as_array().map(Vec::len), Some(4));
    assert_eq!(shop.ran("scan", &["t"], 0).out.lines().count(), 2);

    let json_lines = [
        ("{\"key\":1}", "missing field"),
        ("{\"key\":1,\"value\":[1]}", "--as f32"),
        ("{\"key\":-1,\"value\":\"x\"}", "integer from 0 up"),
        ("{\"key\":1,\"value\":7}", "--as u64"),
        ("{\"key\":1,\"value\":null}", "neither"),
        ("{\"key\":1,\"value\":\"x\"", "EOF"),
        ("[1,\"x\"]", "write it like"),
        ("key,value", "write it like"),
    ];
    for (line, word) in json_lines {
        let file = shop.file("bad.jsonl", format!("\n{line}\n{{\"key\":8,\"value\":\"good\"}}\n"));
        let ran = load(&shop, "t", &file, &[], 1);
        assert!(ran.err.contains("line 2") && ran.err.contains(word), "{line}: {}", ran.err);
        let json = load(&shop, "t", &file, &["--skip-bad", "--json"], 0).json();
        assert_eq!((&json["loaded"], &json["skipped"]), (&1.into(), &1.into()), "{line}");
    }
    // The items before it are there, and the message says so.
    let mut text: String = (0..5000).map(|n| format!("{{\"key\":{n},\"value\":\"v\"}}\n")).collect();
    text += "oops\n";
    let ran = load(&shop, "t", &shop.file("late.jsonl", text), &[], 1);
    assert!(ran.err.contains("line 5001") && ran.err.contains("4,096 items before it"), "{}", ran.err);
}

#[test]
fn files_that_are_none() {
    let shop = Shop::empty();
    shop.ran("create", &["t", "--key", "u64", "--value", "var"], 0);
    let empty_csv = load(&shop, "t", &shop.file("empty.csv", ""), &[], 1);
    assert!(empty_csv.err.contains("is empty"), "{}", empty_csv.err);
    let empty = shop.file("empty.jsonl", "");
    assert_eq!(load(&shop, "t", &empty, &["--json"], 0).json()["loaded"], 0);
    let told = load(&shop, "new", &empty, &["--create"], 2);
    assert!(told.err.contains("--key and --value"), "{}", told.err);
    load(&shop, "new", &empty, &["--create", "--key", "u64", "--value", "var"], 0);
    assert_eq!(load(&shop, "t", &shop.file("head.csv", "key,value\n"), &["--json"], 0).json()["loaded"], 0);

    let nameless = load(&shop, "t", &shop.file("data", "x"), &[], 2);
    assert!(nameless.err.contains("--format"), "{}", nameless.err);
    let missing = load(&shop, "t", &shop.path("missing.csv"), &[], 1);
    assert!(missing.err.contains("No such file"), "{}", missing.err);
    load(&shop, "t", &shop.store(), &["--format", "csv"], 2);
    let binary = shop.file("binary.csv", [b"key,value\n1,".as_slice(), &[0xff, 0xfe], b"\n"].concat());
    let ran = load(&shop, "t", &binary, &[], 1);
    assert!(ran.err.contains("line 2") && ran.err.contains("UTF-8"), "{}", ran.err);
    let unfit = load(&shop, "t", &empty, &["--no-headers"], 2);
    assert!(unfit.err.contains("CSV only"), "{}", unfit.err);
}

#[test]
fn pipes_at_both_ends() {
    let shop = Shop::empty();
    let text = "{\"key\":1,\"value\":\"one\"}\n";
    let mut load = shop.run("load");
    with_input(load.args(["t", "-", "--format", "jsonl", "--create"]), text.as_bytes()).expect(0);
    let ran = shop.ran("dump", &["t", "-", "--format", "jsonl"], 0);
    assert_eq!(ran.out, text);
    assert!(ran.err.contains("dumped 1 item of"), "{}", ran.err);
    shop.ran("dump", &["t", "-", "--format", "jsonl", "--json"], 2);
}

#[test]
fn a_dump_replaces_nothing_unasked() {
    let shop = Shop::new();
    let path = shop.file("out.csv", "precious");
    let refused = Ran::of(shop.run("dump").arg("rows").arg(&path)).expect(1);
    assert!(refused.err.contains("--force"), "{}", refused.err);
    assert_eq!(read(&path), "precious");
    let json = Ran::of(shop.run("dump").arg("rows").arg(&path).args(["--force", "--json"])).expect(0).json();
    assert_eq!(json["dumped"], ROWS);
    assert_eq!(read(&path).lines().count() as u64, ROWS + 1);
    // A failed one leaves nothing.
    let wrong = shop.path("wrong.csv");
    Ran::of(shop.run("dump").arg("rows").arg(&wrong).args(["--as", "u64"])).expect(1);
    let names: Vec<_> = std::fs::read_dir(shop.directory.path())
        .expect("a directory")
        .map(|entry| entry.expect("one").file_name())
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

/// A quote that is never closed would make one value of the rest of the file.
#[test]
fn quotes_out_of_order_are_errors_with_a_line() {
    let shop = Shop::empty();
    for (text, line, word) in [
        ("key,value\n1,one\n2,\"two\n3,three\n4,four\n", 3, "never closed"),
        ("key,value\n1,\"one\n2,\"two\"\n", 3, "behind a closing quote"),
        ("key,\"value\n1,one\n", 1, "never closed"),
    ] {
        let file = shop.file("in.csv", text);
        let ran = load(&shop, "t", &file, &["--create"], 1);
        assert!(ran.err.contains(&format!("in.csv, line {line}:")), "{}", ran.err);
        assert!(
            ran.err.contains(word) && ran.err.contains("nothing was loaded") == (line > 1),
            "{}",
            ran.err
        );
        assert!(!shop.store().exists(), "nothing was made of {text:?}");
    }
}

#[test]
fn surplus_columns_are_errors_with_a_line() {
    let shop = Shop::empty();
    let surplus = shop.file("in.csv", "key,value\n1,one\n2,two, or three\n");
    let ran = load(&shop, "t", &surplus, &["--create"], 1);
    for word in ["line 3", "it has 3 columns, and the header names 2", "in quotes"] {
        assert!(ran.err.contains(word), "{word}: {}", ran.err);
    }
    let json = load(&shop, "t", &surplus, &["--create", "--skip-bad", "--json"], 0).json();
    assert_eq!((&json["loaded"], &json["skipped"]), (&1.into(), &1.into()));
    let bare = shop.file("bare.csv", "1,one\n2,two,three\n");
    assert!(load(&shop, "u", &bare, &["--create", "--no-headers"], 1).err.contains("line 2"));
    // An unexpected column is not dropped silently, but an explicitly excluded one is.
    let third = shop.file("third.csv", "key,value,note\n1,one,x\n");
    let ran = load(&shop, "u", &third, &["--create"], 1);
    assert!(ran.err.contains("key, value, note") && ran.err.contains("--value-column"), "{}", ran.err);
    load(&shop, "u", &third, &["--create", "--value-column", "value"], 0);
    assert_eq!(shop.ran("get", &["u", "1"], 0).out, "one\n");
}

/// `id,f0,f1,...`: a row of numbers a line, there and back.
#[test]
fn rows_of_numbers_in_csv() {
    let shop = Shop::empty();
    let text = "id,f0,f1,f2\n7,0.1,-2.5,1e-40\n8,inf,NaN,3.4028235e38\n";
    let file = shop.file("in.csv", text);
    load(&shop, "rows", &file, &["--create"], 0);
    let tables = shop.ran("list", &["--json"], 0).json();
    assert_eq!(tables["tables"][0]["value"], "fixed:12");
    assert_eq!(tables["tables"][0]["attributes"]["elements"], "<f4[3]");
    assert_eq!(shop.ran("get", &["rows", "7", "--format", "f32"], 0).out, "0.1 -2.5 1e-40\n");
    assert_eq!(lines(&dump(&shop, "rows", "out.csv", &[])), lines(text));
    load(&shop, "again", &shop.path("out.csv"), &["--create"], 0);
    assert_eq!(lines(&dump(&shop, "again", "again.csv", &[])), lines(text));

    // Names of columns and other types are remembered; the key may stand anywhere.
    let text = "user,age,height\nada,36,-1\nalan,41,70000\n";
    let file = shop.file("people.csv", "age,user,height\n36,ada,-1\n41,alan,70000\n");
    load(&shop, "people", &file, &["--create", "--dtype", "i32", "--key-column", "user"], 0);
    assert_eq!(lines(&dump(&shop, "people", "people-out.csv", &[])), lines(text));
    let wrong = shop.file("wrong.csv", "id,age,height\nbob,1,2\neve,3,x\nfay,4\n");
    let ran = load(&shop, "people", &wrong, &[], 1);
    assert!(ran.err.contains("line 3") && ran.err.contains("'x' is no <i4"), "{}", ran.err);
    let json = load(&shop, "people", &wrong, &["--skip-bad", "--json"], 0).json();
    assert_eq!((&json["loaded"], &json["skipped"]), (&1.into(), &2.into()));
    assert!(load(&shop, "people", &wrong, &["--dtype", "f32"], 2).err.contains("leave --dtype out"));

    // The same rows as JSON lines and as an array.
    let json_lines =
        "{\"key\":7,\"value\":[0.1,-2.5,1e-40]}\n{\"key\":8,\"value\":[\"inf\",\"NaN\",3.4028235e38]}\n";
    let out = dump(&shop, "rows", "out.jsonl", &[]);
    assert_eq!(lines(&out.replace("e+", "e")), lines(json_lines));
    load(&shop, "rows", &shop.path("out.jsonl"), &[], 0);
    load(&shop, "third", &shop.path("out.jsonl"), &["--create", "--dtype", "f32"], 0);
    assert_eq!(
        lines(&dump(&shop, "third", "third.csv", &[])),
        lines("id,f0,f1,f2\n7,0.1,-2.5,1e-40\n8,inf,NaN,3.4028235e38\n")
    );
    assert!(
        load(&shop, "rows", &shop.file("short.jsonl", "{\"key\":1,\"value\":[1]}"), &[], 1)
            .err
            .contains("it has 1 numbers")
    );
}

/// A table cannot be created for invalid records; the message gives the fault.
#[test]
fn what_a_table_cannot_be_made_of_is_told() {
    let shop = Shop::empty();
    for (name, content, code, words) in [
        ("numbers.jsonl", &b"{\"key\":1,\"value\":7}\n"[..], 1, ["line 1", "--as u64"]),
        ("arrays.jsonl", b"{\"key\":1,\"value\":[7]}\n", 1, ["line 1", "--dtype"]),
        ("bad.jsonl", b"{\"key\":1,\"value\":\"\xff\"}\n", 1, ["line 1", "UTF-8"]),
        ("bad.csv", b"key,value\n1,\xff\n", 1, ["line 2", "UTF-8"]),
        ("header.csv", b"key,value\n", 2, ["header.csv has no items", "--key and --value"]),
    ] {
        let ran = load(&shop, "t", &shop.file(name, content), &["--create"], code);
        assert!(words.iter().all(|word| ran.err.contains(word)), "{name}: {}", ran.err);
        assert!(!shop.store().exists(), "{name}");
    }
}
