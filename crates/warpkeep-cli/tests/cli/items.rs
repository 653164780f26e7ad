//! `put`, `get`, `delete` and `scan`.

use std::process::Stdio;

use crate::shop::{ROWS, Ran, Shop, value, with_input};

fn shop(key: &str, value: &str) -> Shop {
    let shop = Shop::empty();
    shop.ran("create", &["t", "--key", key, "--value", value], 0);
    shop
}

#[test]
fn numbers_as_keys() {
    let shop = shop("u64", "var:100");
    assert!(shop.ran("put", &["t", "42", "first"], 0).out.starts_with("created 42"));
    assert!(shop.ran("put", &["t", "0x2a", "second"], 0).out.starts_with("replaced 42"));
    assert_eq!(shop.ran("get", &["t", "42"], 0).out, "second\n");
    assert_eq!(shop.ran("get", &["t", "0x2A", "--format", "hex"], 0).out, "7365636f6e64\n");
    for key in ["forty", "-1", "+1", "18446744073709551616", "0x", ""] {
        let ran = shop.ran("put", &["t", "--", key, "x"], 2);
        assert!(ran.err.contains("no 64-bit integer"), "{key}: {}", ran.err);
    }
    shop.ran("put", &["t", "18446744073709551615", "last"], 0);
    assert_eq!(shop.ran("get", &["t", "0xffffffffffffffff"], 0).out, "last\n");
    let no_prefix = shop.ran("scan", &["t", "--prefix", "4"], 2);
    assert!(no_prefix.err.contains("prefix"), "{}", no_prefix.err);
}

#[test]
fn bytes_as_keys_and_values() {
    let shop = shop("var:16", "var:1000");
    for (key, value) in
        [("plain", "text"), ("hex:00ff", "base64:AAEC"), ("text:hex:", ""), ("gr\u{fc}n", "f32:1.5,-2")]
    {
        shop.ran("put", &["t", key, value], 0);
    }
    assert_eq!(shop.ran("get", &["t", "base64:AP8=", "--format", "hex"], 0).out, "000102\n");
    assert_eq!(shop.ran("get", &["t", "text:hex:"], 0).out, "\n");
    assert_eq!(shop.ran("get", &["t", "gr\u{fc}n", "--format", "f32"], 0).out, "1.5 -2\n");
    let json = shop.ran("get", &["t", "gr\u{fc}n", "--format", "f32", "--json"], 0).json();
    assert_eq!(json["items"][0]["value"], serde_json::json!([1.5, -2.0]));

    let mut lines: Vec<_> =
        shop.ran("scan", &["t", "--keys-only"], 0).out.lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["gr\u{fc}n", "hex:00ff", "plain", "text:hex:"]);
    for key in &lines {
        shop.ran("get", &["t", key], 0);
    }
    assert_eq!(shop.ran("scan", &["t", "--prefix", "pl"], 0).out, "plain\ttext\n");
    for key in ["hex:0", "base64:?", "longer than sixteen bytes"] {
        shop.ran("get", &["t", key], 2);
    }
    let wrong = shop.ran("get", &["t", "plain", "hex:00ff", "--format", "f32"], 1);
    assert!(wrong.err.contains("no row of f32"), "{}", wrong.err);
}

#[test]
fn a_value_from_a_file_or_a_pipe_and_back() {
    let shop = shop("u64", "var:300");
    let bytes: Vec<u8> = (0..=255).collect();
    let file = shop.file("value", &bytes);
    Ran::of(shop.run("put").args(["t", "1", "--file"]).arg(&file)).expect(0);
    with_input(shop.run("put").args(["t", "2", "--file", "-"]), &bytes).expect(0);
    with_input(shop.run("put").args(["t", "3"]), &bytes).expect(0);
    for key in ["1", "2", "3"] {
        let out =
            shop.run("get").args(["t", key, "--raw"]).stderr(Stdio::inherit()).output().expect("it runs");
        assert_eq!(out.stdout, bytes);
    }
    let long = shop.file("long", [0; 301]);
    let ran = Ran::of(shop.run("put").args(["t", "4", "--file"]).arg(long)).expect(2);
    assert!(ran.err.contains("301 bytes"), "{}", ran.err);
    let missing = Ran::of(shop.run("put").args(["t", "4", "--file"]).arg(shop.path("missing"))).expect(1);
    assert!(missing.err.contains("No such file"), "{}", missing.err);
    shop.ran("get", &["t", "1", "2", "--raw"], 2);
    shop.ran("get", &["t", "9", "--raw"], 4);
}

#[test]
fn values_of_one_length() {
    let shop = shop("fixed:2", "u64");
    shop.ran("put", &["t", "ab", "u64:7"], 0);
    assert_eq!(shop.ran("get", &["t", "ab", "--format", "u64"], 0).out, "7\n");
    let short = shop.ran("put", &["t", "ab", "7"], 2);
    assert!(short.err.contains("value of 1 bytes in a table of fixed:8"), "{}", short.err);
    shop.ran("put", &["t", "abc", "u64:7"], 2);
    shop.ran("put", &["t", "ab", "u64:x"], 2);
}

#[test]
fn what_is_not_there() {
    let shop = Shop::new();
    let ran = shop.ran("get", &["rows", "1", "1000", "--format", "hex"], 4);
    assert_eq!(ran.out.lines().count(), 1);
    assert!(ran.err.contains("not in table rows: 1000"), "{}", ran.err);
    let json = shop.ran("get", &["rows", "1000", "--json"], 4).json();
    assert_eq!((&json["items"][0]["found"], &json["missing"]), (&false.into(), &1.into()));
    let deleted = shop.ran("delete", &["rows", "20", "0x15", "1000", "--json"], 0).json();
    assert_eq!((&deleted["deleted"], &deleted["not_there"]), (&2.into(), &1.into()));
    shop.ran("get", &["rows", "20"], 4);
    shop.ran("put", &["rows", "30", "hex:00"], 2);
    shop.ran("get", &["no such table", "1"], 1);
}

#[test]
fn a_scan_gives_all_or_as_many_as_asked() {
    let shop = Shop::new();
    let all = shop.ran("scan", &["rows", "--format", "hex", "--json"], 0).json();
    assert_eq!(all["count"], ROWS);
    let mut keys: Vec<_> = all["items"]
        .as_array()
        .expect("items")
        .iter()
        .map(|item| item["key"].as_u64().expect("a key"))
        .collect();
    keys.sort_unstable();
    assert!(keys.into_iter().eq(0..ROWS));
    let item = all["items"].as_array().expect("items").iter().find(|item| item["key"] == 77).expect("row 77");
    let hex: String = value(77).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(item["value"], hex.as_str());
    for (limit, count) in [("0", 0), ("7", 7), ("1000", ROWS as usize)] {
        assert_eq!(shop.ran("scan", &["rows", "--limit", limit], 0).out.lines().count(), count);
        assert_eq!(shop.ran("scan", &["rows", "--limit", limit, "--json"], 0).json()["count"], count);
    }
    let wrong = shop.ran("scan", &["rows", "--format", "u64", "--json"], 1).json();
    assert!(wrong["error"].as_str().is_some_and(|error| error.contains("no u64")), "{wrong}");
    shop.check();
}

#[test]
fn json_that_was_begun_is_ended() {
    let shop = shop("u64", "var");
    shop.ran("put", &["t", "1", "u64:1"], 0);
    shop.ran("put", &["t", "2", "no number"], 0);
    let json = shop.ran("scan", &["t", "--format", "u64", "--json"], 1).json();
    assert!(json["error"].as_str().is_some_and(|error| error.contains("no u64")), "{json}");
}

#[test]
fn durability_is_a_word_of_the_command() {
    let shop = shop("u64", "var");
    for word in ["process", "power"] {
        let json = shop.ran("put", &["t", "1", word, "--durability", word, "--json"], 0).json();
        assert_eq!(json["durability"], word);
        assert_eq!(shop.ran("get", &["t", "1"], 0).out, format!("{word}\n"));
        shop.ran("delete", &["t", "1", "--durability", word], 0);
    }
    shop.ran("put", &["t", "1", "x", "--durability", "forever"], 2);
}
