//! `checkpoint`, `compact`, `rebuild` and `repair`.

use crate::shop::{ROWS, Ran, Shop, damage, value, warpkeep};

#[test]
fn a_checkpoint_takes_in_the_log() {
    let shop = Shop::new();
    let ran = shop.ran("checkpoint", &[], 0);
    // Of items, not of tables.
    assert!(ran.out.contains("checkpoint 2: 600 items"), "{}", ran.out);
    let json = shop.ran("stat", &["--json"], 0).json();
    assert_eq!(
        (&json["log"]["checkpoint"]["id"], &json["log"]["checkpoint"]["items"]),
        (&2.into(), &ROWS.into())
    );
    assert!(shop.ran("stat", &[], 0).out.contains("checkpoint 2: 600 items"));
    assert!(shop.ran("verify", &[], 0).out.contains("600 items in the checkpoint, 600 in all"));
    assert_eq!(json["log"]["found"]["records"], 0);
    shop.check();
}

#[test]
fn a_checkpoint_makes_no_store() {
    let bare = Shop::empty();
    bare.ran("create", &["t", "--key", "u64", "--value", "var", "--without-log"], 0);
    assert!(bare.ran("checkpoint", &[], 1).err.contains("no log"));
    assert!(bare.ran("rebuild", &["--yes"], 1).err.contains("no log to rebuild it from"));
    let nowhere = Shop::empty();
    let none = nowhere.ran("rebuild", &["--yes"], 1);
    assert!(none.err.contains("no store in") && none.err.contains("check the path"), "{}", none.err);
    assert!(!nowhere.store().exists());
}

#[test]
fn compacting_gives_space_back_and_keeps_every_row() {
    let shop = Shop::new();
    shop.ran("create", &["large", "--key", "u64", "--value", "fixed:8", "--capacity", "1000000"], 0);
    let json = shop.ran("compact", &["--json"], 0).json();
    assert!(json["shrunk"].as_u64() > Some(0), "{json}");
    assert!(json["free_after"].as_u64() > json["free_before"].as_u64(), "{json}");
    shop.check();
    assert!(shop.ran("compact", &[], 0).out.starts_with("0 tables made smaller"));
}

#[test]
fn a_rebuild_brings_everything_back() {
    let shop = Shop::new();
    let json = shop.ran("rebuild", &["--yes", "--json"], 0).json();
    assert_eq!(json["opened"]["origin"], "rebuilt");
    assert_eq!(json["opened"]["loaded"], ROWS);
    assert_eq!(json["opened"]["redone"], 10);
    assert_eq!(json["tables"], serde_json::json!(["rows"]));
    shop.check();

    // This is for a damaged image.
    damage(&shop.image(), &value(ROWS / 2));
    shop.ran("verify", &[], 3);
    shop.ran("rebuild", &["--yes"], 0);
    shop.ran("verify", &[], 0);
    shop.check();

    std::fs::remove_file(shop.image()).expect("removed");
    let lost = shop.ran("list", &[], 0);
    assert!(lost.out.contains("600") && lost.out.contains("no image"), "{}", lost.out);
    assert_eq!(shop.ran("stat", &["--json"], 0).json()["tables"]["source"], "log");
    shop.ran("rebuild", &[], 0);
    shop.check();
}

#[test]
fn a_rebuild_asks_and_looks_before_it_throws_away() {
    let shop = Shop::new();
    let before = std::fs::read(shop.image()).expect("an image");
    let unchanged = || assert!(std::fs::read(shop.image()).expect("an image") == before);
    let unasked = shop.ran("rebuild", &[], 2);
    assert!(unasked.err.contains("--yes"), "{}", unasked.err);
    unchanged();
    let other = Shop::new();
    let mixed =
        Ran::of(warpkeep().args(["rebuild", "--yes"]).arg(other.store()).arg("--image").arg(shop.image()));
    assert!(mixed.expect(1).err.contains("different stores"));
    unchanged();
    let victim = value(ROWS / 2);
    damage(&shop.log_file("ckpt-", &victim), &victim);
    shop.ran("rebuild", &["--yes"], 1);
    unchanged();
    let left = std::fs::read_dir(shop.store()).expect("a directory").count();
    assert_eq!(left, 2, "image and log, and nothing beside them");
}

#[test]
fn a_manifest_is_made_again() {
    let shop = Shop::new();
    assert!(shop.ran("repair", &["--manifest"], 0).out.contains("nothing was changed"));
    for name in ["MANIFEST", "MANIFEST.2"] {
        crate::shop::flip(&shop.log().join(name), 50);
    }
    let refused = shop.ran("get", &["rows", "7"], 1);
    assert!(refused.err.contains("repair STORE --manifest"), "{}", refused.err);
    shop.ran("verify", &[], 3);
    let json = shop.ran("repair", &["--manifest", "--json"], 0).json();
    assert_eq!(json["manifest"]["checkpoint"]["id"], 1);
    assert!(json["manifest"]["records"].as_u64() >= Some(10), "{json}");
    shop.ran("verify", &[], 0);
    // The image is the one that was there, with all that was in it.
    assert!(!shop.ran("get", &["rows", "7"], 0).err.contains("rebuilt"));
    shop.check();
    shop.ran("repair", &["rows", "--manifest"], 2);
}

#[test]
fn damaged_items_are_named_and_put_right() {
    let shop = Shop::new();
    assert!(shop.ran("repair", &[], 0).out.contains("0 put right"));
    damage(&shop.image(), &value(ROWS / 2));
    let found = shop.ran("verify", &[], 3);
    assert!(found.out.contains("key") && found.err.contains("warpkeep repair"), "{}{}", found.out, found.err);
    let before = std::fs::read(shop.image()).expect("an image");
    let planned = shop.ran("repair", &["--dry-run"], 0);
    assert!(planned.out.contains("nothing was changed; 1 put right"), "{}", planned.out);
    assert!(std::fs::read(shop.image()).expect("an image") == before);
    shop.ran("repair", &["nowhere"], 1);
    let json = shop.ran("repair", &["rows", "--json"], 0).json();
    assert_eq!((json["restored"].as_u64(), json["lost"].as_u64()), (Some(1), Some(0)), "{json}");
    shop.ran("verify", &[], 0);
    shop.check();
}
