//! `backup` and `restore`.

use crate::shop::{ROWS, Ran, Shop, damage, value, warpkeep};

fn backup(shop: &Shop) -> std::path::PathBuf {
    let to = shop.path("backup");
    let json = Ran::of(shop.run("backup").arg(&to).arg("--json")).expect(0).json();
    assert_eq!((&json["tables"], &json["items"]), (&1.into(), &ROWS.into()));
    to
}

#[test]
fn a_store_comes_back_from_its_backup() {
    let shop = Shop::new();
    let to = backup(&shop);
    shop.check();
    std::fs::remove_dir_all(shop.store()).expect("removed");
    let ran = Ran::of(warpkeep().arg("restore").arg(&to).arg(shop.store())).expect(0);
    assert!(ran.out.contains("restored 1 table with 600 items"), "{}", ran.out);
    shop.check();
    assert_eq!(shop.ran("verify", &["--json"], 0).json()["sound"], true);
}

#[test]
fn an_image_can_be_restored_elsewhere() {
    let shop = Shop::new();
    let to = backup(&shop);
    let (store, image) = (shop.path("anew"), shop.path("anew-image"));
    Ran::of(warpkeep().arg("restore").arg(&to).arg(&store).arg("--image").arg(&image)).expect(0);
    assert!(image.exists() && !store.join("image").exists());
    let get = Ran::of(
        warpkeep().arg("get").arg(&store).args(["rows", "99", "--format", "hex", "--image"]).arg(&image),
    );
    let hex: String = value(99).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(get.expect(0).out.trim(), hex);
}

#[test]
fn nothing_is_written_over() {
    let shop = Shop::new();
    let to = backup(&shop);
    let again = Ran::of(shop.run("backup").arg(&to)).expect(1);
    assert!(again.err.contains("not empty"), "{}", again.err);
    let over = Ran::of(warpkeep().arg("restore").arg(&to).arg(shop.store())).expect(1);
    assert!(over.err.contains("a store already"), "{}", over.err);
    shop.check();
    let none = Ran::of(warpkeep().arg("restore").arg(shop.store()).arg(shop.path("anew"))).expect(1);
    assert!(none.err.contains("no backup"), "{}", none.err);
    let bare = Shop::empty();
    bare.ran("create", &["t", "--key", "u64", "--value", "var", "--without-log"], 0);
    let no_log = Ran::of(bare.run("backup").arg(bare.path("backup"))).expect(1);
    assert!(no_log.err.contains("no log"), "{}", no_log.err);
}

#[test]
fn a_damaged_backup_is_refused() {
    let shop = Shop::new();
    let to = backup(&shop);
    let files =
        std::fs::read_dir(to.join("log")).expect("a directory").map(|entry| entry.expect("one").path());
    let row = value(300);
    let holds = |path: &std::path::PathBuf| {
        std::fs::read(path).expect("a file").windows(row.len()).any(|window| window == row)
    };
    let checkpoint = files.into_iter().find(holds).expect("the checkpoint");
    damage(&checkpoint, &row);
    let json =
        Ran::of(warpkeep().arg("restore").arg(&to).arg(shop.path("anew")).arg("--json")).expect(3).json();
    assert!(json["error"].as_str().is_some_and(|error| error.contains("damaged")), "{json}");
    assert!(!shop.path("anew").join("image").exists());
}
