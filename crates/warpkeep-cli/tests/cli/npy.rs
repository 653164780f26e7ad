//! `load` and `dump` with NumPy arrays, written here byte by byte as NumPy does.

use std::path::Path;

use crate::shop::{Ran, Shop, with_input};

/// An array file: header, padding, data.
fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    while (text.len() + 11) % 64 != 0 {
        text.push(' ');
    }
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes.extend_from_slice(data);
    bytes
}

fn floats(count: usize) -> Vec<u8> {
    (0..count).flat_map(|n| (n as f32 * 0.25 - 3.0).to_le_bytes()).collect()
}

fn load(shop: &Shop, table: &str, file: &Path, arguments: &[&str], code: i32) -> Ran {
    Ran::of(shop.run("load").arg(table).arg(file).args(arguments)).expect(code)
}

#[test]
fn rows_there_and_back() {
    let shop = Shop::empty();
    let array = npy("<f4", "(5000, 8)", &floats(40_000));
    let json = load(&shop, "rows", &shop.file("in.npy", &array), &["--create", "--json"], 0).json();
    assert_eq!((&json["loaded"], &json["new"]), (&5000.into(), &5000.into()));
    let tables = shop.ran("list", &["--json"], 0).json();
    let table = &tables["tables"][0];
    assert_eq!(
        (&table["key"], &table["value"], &table["items"]),
        (&"u64".into(), &"fixed:32".into(), &5000.into())
    );
    assert_eq!(
        shop.ran("get", &["rows", "0", "--format", "f32"], 0).out,
        "-3 -2.75 -2.5 -2.25 -2 -1.75 -1.5 -1.25\n"
    );

    let out = shop.path("out.npy");
    Ran::of(shop.run("dump").arg("rows").arg(&out)).expect(0);
    assert!(std::fs::read(&out).expect("a file") == array, "the very bytes");
    let refused = Ran::of(shop.run("dump").arg("rows").arg(&out)).expect(1);
    assert!(refused.err.contains("--force"), "{}", refused.err);
}

#[test]
fn other_types_of_elements() {
    for (descr, word, shape, bytes) in
        [("<f2", "f16", "(3, 4)", 24), ("|i1", "i8", "(4, 5)", 20), ("<f8", "f64", "(2, 1)", 16)]
    {
        let shop = Shop::empty();
        let data: Vec<u8> = (0..bytes).map(|n| n as u8 * 9).collect();
        let array = npy(descr, shape, &data);
        load(&shop, "t", &shop.file("in.npy", &array), &["--create"], 0);
        let out = shop.path("out.npy");
        Ran::of(shop.run("dump").arg("t").arg(&out).args(["--dtype", word])).expect(0);
        assert!(std::fs::read(&out).expect("a file") == array, "{descr}");
    }
    // One dimension: an element a row.
    let shop = Shop::empty();
    let numbers: Vec<u8> = [5_u64, 6].iter().flat_map(|n| n.to_le_bytes()).collect();
    load(&shop, "t", &shop.file("in.npy", npy("<u8", "(2,)", &numbers)), &["--create"], 0);
    assert_eq!(shop.ran("get", &["t", "1", "--format", "u64"], 0).out, "6\n");
}

#[test]
fn keys_from_another_array() {
    let shop = Shop::empty();
    let rows = shop.file("rows.npy", npy("<f4", "(3, 2)", &floats(6)));
    let keys = |descr: &str, keys: &[i64]| {
        let data: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
        shop.file("keys.npy", npy(descr, &format!("({},)", keys.len()), &data))
    };
    let path = keys("<i8", &[900, 7, 1 << 40]);
    let with_keys = ["--keys", path.to_str().expect("text")];
    load(&shop, "t", &rows, &[&with_keys[..], &["--create"]].concat(), 0);
    assert_eq!(shop.ran("get", &["t", "7", "--format", "f32"], 0).out, "-2.5 -2.25\n");

    let (out, out_keys) = (shop.path("out.npy"), shop.path("out-keys.npy"));
    let sparse = Ran::of(shop.run("dump").arg("t").arg(&out)).expect(1);
    assert!(sparse.err.contains("--keys FILE"), "{}", sparse.err);
    Ran::of(shop.run("dump").arg("t").arg(&out).arg("--keys").arg(&out_keys)).expect(0);
    let back = ["--create", "--keys", out_keys.to_str().expect("text")];
    load(&shop, "u", &out, &back, 0);
    for key in ["900", "7", "1099511627776"] {
        let row = |table| shop.ran("get", &[table, key, "--format", "f32"], 0).out;
        assert_eq!(row("u"), row("t"));
    }

    keys("<i8", &[1, -1, 2]);
    let negative = load(&shop, "t", &rows, &with_keys, 1);
    assert!(negative.err.contains("row 1") && negative.err.contains("negative"), "{}", negative.err);
    let skipped = load(&shop, "t", &rows, &[&with_keys[..], &["--skip-bad", "--json"]].concat(), 0).json();
    assert_eq!((&skipped["loaded"], &skipped["skipped"]), (&2.into(), &1.into()));
    keys("<i8", &[1, 2]);
    assert!(load(&shop, "t", &rows, &with_keys, 1).err.contains("2 keys for 3 rows"));
    keys("<f8", &[1, 2, 3]);
    assert!(load(&shop, "t", &rows, &with_keys, 1).err.contains("astype('<u8')"));
}

#[test]
fn arrays_that_are_damaged_or_do_not_fit() {
    let shop = Shop::empty();
    shop.ran("create", &["t", "--key", "u64", "--value", "fixed:8"], 0);
    shop.ran("create", &["words", "--key", "var", "--value", "fixed:8"], 0);
    let good = npy("<f4", "(3, 2)", &floats(6));
    let refused = |content: &[u8], table: &str, word: &str| {
        let ran = load(&shop, table, &shop.file("in.npy", content), &[], 1);
        assert!(ran.err.contains(word), "{word}: {}", ran.err);
    };
    refused(&[], "t", "cut short");
    refused(&good[..7], "t", "cut short");
    refused(&good[..50], "t", "cut short");
    refused(&good[..good.len() - 1], "t", "cut short");
    refused(&[&good[..], b"x"].concat(), "t", "1 bytes after its last row");
    refused(b"key,value\n1,2\n", "t", "no NumPy array");
    refused(&npy(">f4", "(3, 2)", &floats(6)), "t", "astype");
    refused(&npy("<f4", "(3, 2, 1)", &floats(6)), "t", "dimensions");
    refused(&npy("<f4", "(3, 0)", &[]), "t", "rows have 0 bytes");
    refused(&npy("<f4", "(18446744073709551615, 4)", &[]), "t", "rows");
    refused(&npy("<f4", "(3, 1)", &floats(3)), "t", "value of 4 bytes");
    refused(&good, "words", "the key 0 is a number");
    assert_eq!(shop.ran("scan", &["t"], 0).out, "", "nothing of them was loaded");

    let pipe = |content: &[u8]| with_input(shop.run("load").args(["t", "-", "--format", "npy"]), content);
    pipe(&good).expect(0);
    let endless = npy("<f4", "(1152921504606846976, 2)", &floats(6));
    let create = ["anew", "-", "--format", "npy", "--create"];
    assert!(with_input(shop.run("load").args(create), &endless).expect(1).err.contains("row 3 of"));
    assert!(pipe(&good[..good.len() - 1]).expect(1).err.contains("row 2 of 3"));
    assert!(pipe(&[&good[..], b"x"].concat()).expect(1).err.contains("after its last row"));
}

#[test]
fn tables_that_are_no_array() {
    let shop = Shop::empty();
    shop.ran("create", &["words", "--key", "var", "--value", "fixed:8"], 0);
    shop.ran("create", &["texts", "--key", "u64", "--value", "var"], 0);
    shop.ran("create", &["empty", "--key", "u64", "--value", "fixed:6"], 0);
    let dump = |table: &str, arguments: &[&str], code| {
        Ran::of(shop.run("dump").arg(table).arg(shop.path("out.npy")).args(arguments)).expect(code)
    };
    assert!(dump("words", &[], 2).err.contains("var:1024 keys"));
    assert!(dump("texts", &[], 2).err.contains("one length"));
    assert!(dump("empty", &["--dtype", "f64"], 2).err.contains("--dtype"));
    dump("empty", &["--dtype", "complex"], 2);
    shop.ran("dump", &["empty", "-", "--format", "npy"], 2);
    dump("empty", &[], 0);
    assert!(load(&shop, "empty", &shop.path("out.npy"), &["--json"], 0).json()["loaded"] == 0);
}
