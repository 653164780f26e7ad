//! `stat` and `verify`: sound stores, damaged ones, ones in use, and paths that are not stores.

use std::io::Read;
use std::process::Stdio;

use crate::shop::{ROWS, Ran, Shop, damage, flip, value, warpkeep};

#[test]
fn a_sound_store() {
    let shop = Shop::new();
    let stat = shop.ran("stat", &[], 0);
    for word in
        ["closed cleanly", "rows", "600", "fixed:100", "in use", "checkpoint 1: 600 items", "with power"]
    {
        assert!(stat.out.contains(word), "{word} in {}", stat.out);
    }
    let json = shop.ran("stat", &["--json"], 0).json();
    assert_eq!(json["image"]["closed_cleanly"], true);
    assert_eq!(json["image"]["held_by"], serde_json::Value::Null);
    assert_eq!(json["tables"]["tables"][0]["items"], ROWS);
    assert_eq!(json["image"]["store_id"], json["log"]["store_id"]);
    assert_eq!(json["durability"], serde_json::json!(["process", "power"]));

    let verify = shop.ran("verify", &[], 0);
    for word in ["good     table rows: 600 items", "600 items in the checkpoint", "600 in all", "is good"] {
        assert!(verify.out.contains(word), "{word} in {}", verify.out);
    }
    let json = shop.ran("verify", &["--json"], 0).json();
    assert_eq!((&json["sound"], &json["tables"][0]["items"]), (&true.into(), &ROWS.into()));
    shop.check();
}

#[test]
fn looking_changes_nothing() {
    let shop = Shop::new();
    let before = shop.content();
    for command in ["stat", "verify", "list"] {
        shop.ran(command, &[], 0);
        assert!(shop.content() == before, "{command}");
    }
}

#[test]
fn a_table_level_by_level() {
    let shop = Shop::new();
    let stat = shop.ran("stat", &["rows"], 0);
    for word in ["table rows: 600 items", "level 0", "level 1", "overflow", "[#", "slots in"] {
        assert!(stat.out.contains(word), "{word} in {}", stat.out);
    }
    let json = shop.ran("stat", &["rows", "--json"], 0).json();
    let used = |levels: &str| -> u64 {
        json["stats"][levels]
            .as_array()
            .expect("levels")
            .iter()
            .filter_map(|level| level["used"].as_u64())
            .sum()
    };
    assert_eq!(used("levels") + used("overflow"), ROWS);
    shop.ran("stat", &["no such"], 1);
    shop.check();
}

#[test]
fn damage_is_found_wherever_it_is() {
    type Harm<'a> = (&'a str, &'a str, Box<dyn Fn(&Shop)>);
    let in_image = |shop: &Shop| damage(&shop.image(), &value(300));
    let in_checkpoint = |shop: &Shop| damage(&shop.log_file("ckpt-", &value(300)), &value(300));
    let last = value(ROWS + 9);
    let in_log = move |shop: &Shop| damage(&shop.log_file("seg-", &last), &last);
    let harms: Vec<Harm<'_>> = vec![
        ("a record in the image", "image", Box::new(in_image)),
        ("the static header", "image", Box::new(|shop| flip(&shop.image(), 40))),
        ("a descriptor", "image", Box::new(|shop| flip(&shop.image(), 5 * 4096 + 8 + 1))),
        (
            "a cut image",
            "cut short",
            Box::new(|shop| {
                let file = std::fs::OpenOptions::new().write(true).open(shop.image()).expect("a file");
                file.set_len(1 << 20).expect("cut");
            }),
        ),
        ("the checkpoint", "checkpoint", Box::new(in_checkpoint)),
        ("what was committed last", "seg-", Box::new(in_log)),
        (
            "both copies of the manifest",
            "manifest",
            Box::new(|shop| {
                flip(&shop.log().join("MANIFEST"), 50);
                flip(&shop.log().join("MANIFEST.2"), 50);
            }),
        ),
        (
            "no manifest",
            "manifest",
            Box::new(|shop| {
                for name in ["MANIFEST", "MANIFEST.2"] {
                    std::fs::remove_file(shop.log().join(name)).expect("removed");
                }
            }),
        ),
    ];
    for (name, word, harm) in harms {
        let shop = Shop::new();
        harm(&shop);
        let ran = shop.ran("verify", &[], 3);
        assert!(ran.out.contains("DAMAGED"), "{name}: {}", ran.out);
        assert!(ran.out.to_lowercase().contains(word), "{name}: {}", ran.out);
        assert!(ran.err.contains("found damage"), "{name}: {}", ran.err);
        let json = shop.ran("verify", &["--json"], 3).json();
        assert_eq!(json["sound"], false, "{name}");
    }
}

#[test]
fn one_copy_of_the_manifest_is_no_damage() {
    let shop = Shop::new();
    flip(&shop.log().join("MANIFEST"), 50);
    let ran = shop.ran("verify", &[], 0);
    assert!(ran.out.contains("one copy of the manifest is damaged"), "{}", ran.out);
    shop.check();
    assert!(!shop.ran("verify", &[], 0).out.contains("manifest"), "opening has restored it");
}

#[test]
fn a_torn_state_slot_is_no_damage() {
    let shop = Shop::new();
    flip(&shop.image(), 4096 + 100);
    let ran = shop.ran("verify", &[], 0);
    assert!(ran.out.contains("one state slot is torn"), "{}", ran.out);
}

#[test]
fn what_is_no_store_is_an_error_and_no_damage() {
    let shop = Shop::new();
    let text = shop.file("README", "not an image ".repeat(10_000));
    let empty = shop.path("empty");
    std::fs::create_dir(&empty).expect("made");
    let missing = shop.path("missing");
    for command in ["stat", "verify", "list"] {
        for directory in [&empty, &missing] {
            let ran = Ran::of(warpkeep().arg(command).arg(directory)).expect(1);
            assert!(ran.err.contains("no store"), "{command}: {}", ran.err);
        }
        assert!(!missing.exists(), "looking made it");
        assert_eq!(std::fs::read_dir(&empty).expect("a directory").count(), 0, "looking left something");
        let ran = Ran::of(warpkeep().arg(command).arg(&empty).arg("--image").arg(&text)).expect(1);
        assert!(ran.err.contains("not a Warpkeep image"), "{command}: {}", ran.err);
    }
}

#[test]
fn image_and_log_of_two_stores() {
    let (one, other) = (Shop::new(), Shop::new());
    let ran = Ran::of(warpkeep().arg("verify").arg(one.store()).arg("--image").arg(other.image()));
    assert!(ran.expect(3).out.contains("different stores"));
    let get =
        Ran::of(warpkeep().arg("get").arg(one.store()).args(["rows", "1", "--image"]).arg(other.image()));
    assert!(get.expect(1).err.contains("different stores"));
}

#[test]
fn a_store_in_use_names_its_holder() {
    let shop = Shop::new();
    let store = shop.open();
    let me = format!("process {}", std::process::id());
    let stat = shop.ran("stat", &[], 0);
    assert!(
        stat.out.contains(&format!("open in {me}")) && stat.out.contains("not looked at"),
        "{}",
        stat.out
    );
    for (command, arguments) in [
        ("verify", &[][..]),
        ("list", &[]),
        ("checkpoint", &[]),
        ("rebuild", &["--yes"]),
        ("stat", &["rows"]),
    ] {
        let ran = shop.ran(command, arguments, 1);
        assert!(ran.err.contains(&me), "{command}: {}", ran.err);
    }
    store.close().expect("closed");
    shop.check();
}

#[test]
fn a_store_whose_writer_was_killed() {
    let shop = Shop::empty();
    let values = ["embeddings", "--key", "u64", "--value", "f32x32"];
    shop.ran("create", &values, 0);
    let mut writer = shop.run("demo-writer");
    writer.args(["--rows", "1000", "--writers", "2", "--seed", "1", "--round", "1"]);
    let mut child = writer.stdout(Stdio::piped()).spawn().expect("the binary runs");
    let mut acks = [0; 8 * 50];
    let heard = child.stdout.take().expect("a pipe").read_exact(&mut acks);
    child.kill().expect("killed");
    child.wait().expect("gone");
    heard.expect("fifty acknowledgements");

    let stat = shop.ran("stat", &[], 0);
    assert!(stat.out.contains("left without closing; it will be re-attached"), "{}", stat.out);
    shop.ran("verify", &[], 0);
    let checkpoint = shop.ran("checkpoint", &["--json"], 0).json();
    assert_eq!(checkpoint["opened"]["origin"], "reattached");
    let json = shop.ran("stat", &["--json"], 0).json();
    assert_eq!(json["image"]["closed_cleanly"], true);
}
