//! `create`, `list` and `drop`.

use crate::shop::{Ran, Shop, warpkeep};

#[test]
fn a_table_comes_and_goes() {
    let shop = Shop::empty();
    let ran = shop.ran("create", &["users", "--key", "var:64", "--value", "var", "--capacity", "5000"], 0);
    assert!(ran.out.contains("created table users: var:64 keys"), "{}", ran.out);
    let json = shop
        .ran("create", &["hits", "--key", "u64", "--value", "u64", "--merge", "add-u64", "--json"], 0)
        .json();
    assert_eq!(
        (&json["created"], &json["value"], &json["merge"]),
        (&"hits".into(), &"fixed:8".into(), &"add-u64".into())
    );

    let list = shop.ran("list", &[], 0).out;
    assert!(list.contains("users") && list.contains("var:64") && list.contains("add-u64"), "{list}");
    let json = shop.ran("list", &["--json"], 0).json();
    let tables = json["tables"].as_array().expect("tables");
    let names: Vec<_> = tables.iter().map(|table| table["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["hits", "users"]);
    assert_eq!(tables[1]["items"], 0);

    let again = shop.ran("create", &["users", "--key", "u64", "--value", "var"], 1);
    assert!(again.err.contains("already"), "{}", again.err);
    shop.ran("put", &["users", "ada", "countess"], 0);
    let dropped = shop.ran("drop", &["users", "--yes", "--json"], 0).json();
    assert_eq!((&dropped["dropped"], &dropped["items"]), (&"users".into(), &1.into()));
    let gone = shop.ran("get", &["users", "ada"], 1);
    assert!(gone.err.contains("no table 'users'"), "{}", gone.err);
}

#[test]
fn a_table_is_not_dropped_unasked() {
    let shop = Shop::new();
    let ran = shop.ran("drop", &["rows"], 2);
    assert!(ran.err.contains("--yes"), "{}", ran.err);
    shop.ran("drop", &["no such", "--yes"], 1);
    shop.check();
}

#[test]
fn specs_that_make_no_sense() {
    let shop = Shop::empty();
    let cases: [(&[&str], i32, &str); 8] = [
        (&["t", "--key", "u65", "--value", "var"], 2, "u64, fixed:<bytes> or var"),
        (&["t", "--key", "fixed:1000", "--value", "var"], 2, "1 to 128"),
        (&["t", "--key", "u64", "--value", "fixed:0"], 2, "fixed values"),
        (&["t", "--key", "u64", "--value", "u64", "--capacity", "18446744073709551615"], 2, "--capacity"),
        (&["t", "--key", "u64", "--value", "u64", "--geometry", "3L-3H-3S"], 2, "geometry"),
        (&["t", "--key", "u64", "--value", "u64", "--layout", "loose"], 2, "packed or in-place"),
        (&["t", "--key", "u64", "--value", "fixed:5", "--merge", "add-u64"], 1, "add-u64"),
        (&["", "--key", "u64", "--value", "u64"], 1, "name"),
    ];
    for (arguments, code, word) in cases {
        let ran = shop.ran("create", arguments, code);
        assert!(ran.err.contains(word), "{arguments:?}: {}", ran.err);
    }
}

#[test]
fn a_store_is_made_by_create_alone() {
    let shop = Shop::empty();
    let commands: [(&str, &[&str]); 10] = [
        ("list", &[]),
        ("drop", &["t", "--yes"]),
        ("put", &["t", "1", "x"]),
        ("get", &["t", "1"]),
        ("delete", &["t", "1"]),
        ("scan", &["t"]),
        ("dump", &["t", "out.csv"]),
        ("stat", &[]),
        ("verify", &[]),
        ("checkpoint", &[]),
    ];
    for (command, arguments) in commands {
        let ran = shop.ran(command, arguments, 1);
        assert!(ran.err.contains("no store"), "{command}: {}", ran.err);
        assert!(!shop.store().exists(), "{command} made something");
    }
}

#[test]
fn an_image_elsewhere_is_not_made_twice() {
    let shop = Shop::empty();
    let image = shop.path("elsewhere");
    let at = |command: &str, arguments: &[&str]| {
        Ran::of(shop.run(command).arg("--image").arg(&image).args(arguments)).expect(0)
    };
    at("create", &["t", "--key", "u64", "--value", "var"]);
    at("put", &["t", "1", "one"]);
    assert_eq!(at("get", &["t", "1"]).out, "one\n");
    let ran = shop.ran("get", &["t", "1"], 1);
    assert!(ran.err.contains("--image") && ran.err.contains("warpkeep rebuild"), "{}", ran.err);
    assert!(!shop.image().exists());
    assert_eq!(at("get", &["t", "1"]).out, "one\n");
}

#[test]
fn a_store_without_a_log_stays_without() {
    let shop = Shop::empty();
    shop.ran("create", &["t", "--key", "u64", "--value", "var", "--without-log"], 0);
    shop.ran("put", &["t", "1", "one"], 0);
    assert!(!shop.log().exists());
    let power = shop.ran("put", &["t", "1", "two", "--durability", "power"], 1);
    assert!(power.err.contains("no log"), "{}", power.err);
    let process = shop.ran("put", &["t", "2", "x"], 0);
    assert!(process.out.contains("survives the process"), "{}", process.out);
    assert_eq!(shop.ran("get", &["t", "1"], 0).out, "one\n");
    let logged = Shop::new();
    let ran = logged.ran("create", &["t", "--key", "u64", "--value", "var", "--without-log"], 2);
    assert!(ran.err.contains("has a log"), "{}", ran.err);
}

#[test]
fn a_store_in_use_names_its_holder() {
    let shop = Shop::new();
    let store = shop.open();
    let me = format!("process {}", std::process::id());
    for (command, arguments) in
        [("put", &["rows", "1", "hex:00"][..]), ("get", &["rows", "1"]), ("scan", &["rows"])]
    {
        let ran = shop.ran(command, arguments, 1);
        assert!(ran.err.contains(&me), "{command}: {}", ran.err);
    }
    let json =
        Ran::of(warpkeep().arg("get").arg(shop.store()).args(["rows", "1", "--json"])).expect(1).json();
    assert_eq!(json["exit_code"], 1);
    store.close().expect("closed");
    shop.check();
}
