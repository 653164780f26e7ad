//! `load` and `dump` with NumPy arrays, written here byte by byte as NumPy does.

use std::io::Write as _;
use std::path::Path;

use crate::shop::{Ran, Shop, warpkeep, with_input};

/// An array file: header, padding, data.
fn npy(descr: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    npy_ordered(descr, false, shape, data)
}

/// The same; `fortran` if it lies column by column.
fn npy_ordered(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
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
    refused(&npy("|O", "(3, 2)", &floats(6)), "t", "astype");
    refused(&npy("<f4", "()", &floats(1)), "t", "dimensions");
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

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

const TYPES: [(&str, usize); 14] = [
    ("b1", 1),
    ("i1", 1),
    ("i2", 2),
    ("i4", 4),
    ("i8", 8),
    ("u1", 1),
    ("u2", 2),
    ("u4", 4),
    ("u8", 8),
    ("f2", 2),
    ("f4", 4),
    ("f8", 8),
    ("c8", 8),
    ("c16", 16),
];

fn dump(shop: &Shop, table: &str, arguments: &[&str]) -> Vec<u8> {
    let out = shop.path("out.npy");
    Ran::of(shop.run("dump").arg(table).arg(&out).arg("--force").args(arguments)).expect(0);
    std::fs::read(&out).expect("a file")
}

/// Every type of number, in both byte orders, in one to four dimensions, row by row and column by column: the
/// output equals the input, byte for byte.
#[test]
fn every_array_comes_back() {
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let mut arrays = 0;
    for (name, bytes) in TYPES {
        let shop = Shop::empty();
        for order in if bytes == 1 { &["|"][..] } else { &["<", ">"] } {
            let dimensions = 1 + dice.roll(4);
            let lengths: Vec<u64> = (0..dimensions)
                .map(|at| dice.roll(if at == 0 { 40 } else { 4 }) + u64::from(at > 0))
                .collect();
            let fortran = dimensions > 1 && dice.roll(2) == 1;
            let comma = if dimensions == 1 { "," } else { "" };
            let words: Vec<String> = lengths.iter().map(u64::to_string).collect();
            let shape = format!("({}{comma})", words.join(", "));
            let len = lengths.iter().product::<u64>() as usize * bytes;
            let data: Vec<u8> =
                (0..len).map(|_| dice.roll(if name == "b1" { 2 } else { 256 }) as u8).collect();
            let array = npy_ordered(&format!("{order}{name}"), fortran, &shape, &data);
            let table = format!("t{arrays}");
            load(&shop, &table, &shop.file("in.npy", &array), &["--create"], 0);
            let back = dump(&shop, &table, &[]);
            assert!(
                back == array,
                "{order}{name} {shape} fortran {fortran}: {}",
                String::from_utf8_lossy(&back)
            );
            arrays += 1;
        }
    }
    writeln!(std::io::stdout().lock(), "npy: {arrays} arrays of {} types came back", TYPES.len())
        .expect("written");
}

/// A table's attributes survive a backup, a restoration and a rebuild.
#[test]
fn types_outlive_the_image() {
    let shop = Shop::empty();
    let data: Vec<u8> = (0..48).collect();
    let array = npy_ordered(">i2", true, "(4, 2, 3)", &data);
    load(&shop, "t", &shop.file("in.npy", &array), &["--create"], 0);
    assert!(shop.ran("list", &[], 0).out.contains(">i2[2,3] fortran"));
    let (backup, anew) = (shop.path("backup"), shop.path("anew"));
    Ran::of(shop.run("backup").arg(&backup)).expect(0);
    Ran::of(warpkeep().arg("restore").arg(&backup).arg(&anew)).expect(0);
    let out = shop.path("restored.npy");
    Ran::of(warpkeep().arg("dump").arg(&anew).arg("t").arg(&out)).expect(0);
    assert!(std::fs::read(&out).expect("a file") == array);
    std::fs::remove_file(shop.image()).expect("removed");
    shop.ran("rebuild", &["--yes"], 0);
    assert!(dump(&shop, "t", &[]) == array);
    shop.ran("verify", &[], 0);
    // Values are little-endian in the table, row by row.
    assert_eq!(shop.ran("get", &["t", "0", "--format", "hex"], 0).out, "010011102120090819182928\n");
    let rows = dump(&shop, "t", &["--c-order", "--dtype", "<i2"]);
    assert!(rows.ends_with(&[31, 30, 47, 46]), "{rows:?}");
}

#[test]
fn other_types_are_refused_or_converted() {
    let shop = Shop::empty();
    load(&shop, "t", &shop.file("f4.npy", npy("<f4", "(3, 2)", &floats(6))), &["--create"], 0);
    let integers = |numbers: [i32; 6]| -> Vec<u8> { numbers.iter().flat_map(|n| n.to_le_bytes()).collect() };
    let other = shop.file("i4.npy", npy("<i4", "(3, 2)", &integers([1, -2, 3, 4, 5, 6])));
    let refused = load(&shop, "t", &other, &[], 1);
    for word in ["<i4[2]", "<f4[2]", "--convert"] {
        assert!(refused.err.contains(word), "{word}: {}", refused.err);
    }
    assert_eq!(shop.ran("get", &["t", "0", "--format", "f32"], 0).out, "-3 -2.75\n", "nothing was loaded");
    load(&shop, "t", &other, &["--convert"], 0);
    assert_eq!(shop.ran("get", &["t", "0", "--format", "f32"], 0).out, "1 -2\n");
    // The order of bytes and of elements is the file's affair.
    let big: Vec<u8> = (0..6).flat_map(|n| (n as f32).to_be_bytes()).collect();
    load(&shop, "t", &shop.file("big.npy", npy_ordered(">f4", true, "(3, 2)", &big)), &[], 0);
    assert_eq!(shop.ran("get", &["t", "1", "--format", "f32"], 0).out, "1 4\n");
    // Another shape is another thing, and another number of elements cannot be had.
    let flat = shop.file("flat.npy", npy("<f4", "(6,)", &floats(6)));
    assert!(load(&shop, "t", &flat, &["--convert"], 1).err.contains("cannot become"));

    load(&shop, "bytes", &shop.file("u1.npy", npy("|u1", "(2, 2)", &[1, 2, 3, 255])), &["--create"], 0);
    let large = shop.file("large.npy", npy("<i4", "(3, 2)", &integers([1, 2, 256, 4, 5, 6])));
    let misfit = load(&shop, "bytes", &large, &["--convert"], 1);
    assert!(misfit.err.contains("row 1") && misfit.err.contains("256 is no |u1"), "{}", misfit.err);
    let skipped = load(&shop, "bytes", &large, &["--convert", "--skip-bad", "--json"], 0).json();
    assert_eq!((&skipped["loaded"], &skipped["skipped"]), (&2.into(), &1.into()));

    let refused =
        Ran::of(shop.run("dump").arg("t").arg(shop.path("x.npy")).args(["--dtype", "f64"])).expect(2);
    assert!(refused.err.contains("--convert"), "{}", refused.err);
    let halves = dump(&shop, "t", &["--dtype", "f16", "--convert"]);
    assert!(halves.ends_with(&[0x00, 0x40, 0x00, 0x45]), "{halves:?}");
}

#[test]
fn a_table_that_was_created_empty_learns_its_type() {
    let shop = Shop::empty();
    shop.ran("create", &["rows", "--key", "u64", "--value", "f32x2"], 0);
    let integers = shop.file("i4.npy", npy("<i4", "(3, 2)", &[0; 24]));
    assert!(load(&shop, "rows", &integers, &[], 1).err.contains("--convert"));
    shop.ran("create", &["any", "--key", "u64", "--value", "fixed:8"], 0);
    load(&shop, "any", &integers, &[], 0);
    assert!(
        load(&shop, "any", &shop.file("f4.npy", npy("<f4", "(3, 2)", &floats(6))), &[], 1)
            .err
            .contains("<i4[2]")
    );
    assert!(dump(&shop, "any", &[]) == std::fs::read(&integers).expect("a file"));
    shop.ran("create", &["counts", "--key", "u64", "--value", "u64"], 0);
    shop.ran("put", &["counts", "0", "u64:7"], 0);
    assert!(dump(&shop, "counts", &[]) == npy("<u8", "(1,)", &7_u64.to_le_bytes()));
    // Rows of a table that does not record its type are guessed, and the output says so.
    shop.ran("create", &["plain", "--key", "u64", "--value", "fixed:4"], 0);
    shop.ran("put", &["plain", "0", "hex:00000000"], 0);
    let guessed = Ran::of(shop.run("dump").arg("plain").arg(shop.path("plain.npy"))).expect(0);
    assert!(guessed.out.contains("note: the table does not say"), "{}", guessed.out);
}

#[test]
fn columns_are_put_together_from_a_file_only() {
    let shop = Shop::empty();
    let array = npy_ordered("<f4", true, "(3, 2)", &floats(6));
    let ran = with_input(shop.run("load").args(["t", "-", "--format", "npy", "--create"]), &array).expect(1);
    assert!(ran.err.contains("column by column") && ran.err.contains("give its name"), "{}", ran.err);
}
