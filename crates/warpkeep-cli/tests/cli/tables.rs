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
    let cases: [(&[&str], i32, &str); 12] = [
        (&["t", "--key", "u65", "--value", "var"], 2, "u64, fixed:<bytes> or var"),
        (&["t", "--key", "fixed:1000", "--value", "var"], 2, "1 to 128"),
        (&["t", "--key", "u64", "--value", "fixed:0"], 2, "fixed values"),
        (&["t", "--key", "u64", "--value", "u64", "--capacity", "18446744073709551615"], 2, "--capacity"),
        (&["t", "--key", "u64", "--value", "u64", "--geometry", "3L-3H-3S"], 2, "geometry"),
        (&["t", "--key", "u64", "--value", "u64", "--layout", "loose"], 2, "packed or in-place"),
        (&["t", "--key", "u64", "--value", "fixed:5", "--merge", "add-u64"], 1, "add-u64"),
        (&["t", "--key", "u64", "--value", "u64", "--index", "btree"], 2, "gphash or turbohash"),
        (&["t", "--key", "u64", "--value", "u64", "--shards", "4"], 2, "leave it out"),
        (
            &["t", "--key", "u64", "--value", "u64", "--index", "turbohash", "--layout", "packed"],
            2,
            "--layout",
        ),
        (
            &["t", "--key", "u64", "--value", "u64", "--index", "turbohash", "--geometry", "2L-2H-8S"],
            2,
            "--geometry",
        ),
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
    let advice = format!("--image {}", image.display());
    assert!(ran.err.contains(&advice) && ran.err.contains("--abandon-image"), "{}", ran.err);
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

#[test]
fn a_turbohash_table() {
    let shop = Shop::empty();
    let create = ["words", "--key", "var:20", "--value", "var", "--index", "turbohash", "--shards", "8"];
    let ran = shop.ran("create", &create, 0);
    assert!(ran.out.contains("turbohash in 8 shards") && !ran.out.contains("note"), "{}", ran.out);
    for number in 0..20 {
        shop.ran("put", &["words", &format!("key {number}"), "value"], 0);
    }
    shop.ran("delete", &["words", "key 3"], 0);
    assert_eq!(shop.ran("get", &["words", "key 4"], 0).out.trim(), "value");

    let list = shop.ran("list", &[], 0).out;
    assert!(list.contains("turbohash") && list.contains("8 shards"), "{list}");
    let json = shop.ran("list", &["--json"], 0).json();
    assert_eq!((&json["tables"][0]["index"], &json["tables"][0]["shards"]), (&"turbohash".into(), &8.into()));
    assert_eq!(json["tables"][0].get("geometry"), None);

    let stat = shop.ran("stat", &["words"], 0).out;
    for word in [
        "19 items",
        "8 shards of 16 buckets",
        "deleted",
        "found",
        "missed",
        "buckets a search",
        "runs on the CPU",
    ] {
        assert!(stat.contains(word), "{word} in {stat}");
    }
    let json = shop.ran("stat", &["words", "--json"], 0).json();
    let stats = &json["stats"];
    assert_eq!(
        (&stats["index"], &stats["items"], &stats["shards"]),
        (&"turbohash".into(), &19.into(), &8.into())
    );
    assert!(stats["misses"]["mean"].as_f64().is_some_and(|mean| mean >= 1.0), "{stats}");
    assert!(stats["deleted_share"].as_f64().is_some(), "{stats}");

    let verify = shop.ran("verify", &[], 0).out;
    assert!(verify.contains("good     table words: 19 items"), "{verify}");
    shop.ran("compact", &[], 0);
    assert_eq!(shop.ran("get", &["words", "key 4"], 0).out.trim(), "value");
}

/// A user who requests a device gets a note that it does not support such a table.
#[test]
fn a_device_does_not_work_a_turbohash_table() {
    let shop = Shop::empty();
    let create = ["t", "--key", "u64", "--value", "u64", "--index", "turbohash", "--device", "sim"];
    let ran = Ran::of(warpkeep().arg("create").arg(shop.store()).args(create));
    // A program without the simulator cannot open it at all.
    if ran.code == 0 {
        assert!(ran.out.contains("run on the CPU"), "{}", ran.out);
    }
}
