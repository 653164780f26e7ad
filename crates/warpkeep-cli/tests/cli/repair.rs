//! `checkpoint` and `rebuild`.

use crate::shop::{CELLS, FILLED, Ran, Shop, damage, value, warpkeep};

#[test]
fn a_checkpoint_takes_in_the_log() {
    let shop = Shop::new();
    let ran = Ran::of(&mut shop.run("checkpoint")).expect(0);
    assert!(ran.out.contains("checkpoint 2: 600 items"), "{}", ran.out);
    let json = Ran::of(shop.run("stat").arg("--json")).expect(0).json();
    assert_eq!(json["log"]["checkpoint"]["id"], 2);
    assert_eq!(json["log"]["found"]["records"], 0);
    shop.check();
}

#[test]
fn a_checkpoint_makes_no_store() {
    let shop = Shop::new();
    std::fs::remove_file(shop.image()).expect("removed");
    let ran = Ran::of(&mut shop.run("checkpoint")).expect(1);
    assert!(ran.err.contains("warpkeep rebuild"), "{}", ran.err);
    assert!(!shop.image().exists());

    let empty = shop.directory.path().join("empty");
    std::fs::create_dir(&empty).expect("made");
    let ran = Ran::of(warpkeep().arg("checkpoint").arg("--image").arg(shop.image()).arg("--log").arg(&empty));
    assert!(ran.expect(1).err.contains("holds no log"));
    assert_eq!(std::fs::read_dir(&empty).expect("a directory").count(), 0);
}

#[test]
fn a_rebuild_brings_everything_back() {
    let shop = Shop::new();
    let json = Ran::of(shop.run("rebuild").args(["--yes", "--json"])).expect(0).json();
    assert_eq!(json["opened"]["origin"], "rebuilt");
    assert_eq!(json["opened"]["loaded"], FILLED);
    assert_eq!(json["opened"]["redone"], 10);
    assert_eq!(json["cells"], CELLS, "as many as the image had, not as the log names");
    shop.check();

    // A damaged image is what this is for.
    damage(&shop.image(), &value(FILLED / 2));
    Ran::of(&mut shop.run("verify")).expect(3);
    Ran::of(shop.run("rebuild").arg("--yes")).expect(0);
    Ran::of(&mut shop.run("verify")).expect(0);
    shop.check();

    std::fs::remove_file(shop.image()).expect("removed");
    let named = Ran::of(shop.run("rebuild").arg("--json")).expect(0).json();
    assert_eq!(named["cells"], FILLED, "without an image, the log is all there is");
    std::fs::remove_file(shop.image()).expect("removed");
    Ran::of(shop.run("rebuild").args(["--cells", "1000"])).expect(0);
    shop.check();
}

#[test]
fn a_rebuild_asks_and_looks_before_it_throws_away() {
    let shop = Shop::new();
    let before = std::fs::read(shop.image()).expect("an image");
    let unchanged = || assert!(std::fs::read(shop.image()).expect("an image") == before);
    let unasked = Ran::of(&mut shop.run("rebuild")).expect(2);
    assert!(unasked.err.contains("--yes"), "{}", unasked.err);
    unchanged();
    let few = Ran::of(shop.run("rebuild").args(["--yes", "--cells", "10"])).expect(2);
    assert!(few.err.contains("--cells 600"), "{}", few.err);
    unchanged();
    let other = Shop::new();
    let mixed = Ran::of(
        warpkeep().args(["rebuild", "--yes", "--image"]).arg(shop.image()).arg("--log").arg(other.log()),
    );
    assert!(mixed.expect(1).err.contains("different stores"));
    unchanged();
    let victim = value(FILLED / 2);
    damage(&shop.log_file("ckpt-", &victim), &victim);
    Ran::of(shop.run("rebuild").arg("--yes")).expect(1);
    unchanged();
}

#[test]
fn a_rebuild_that_fails_puts_the_old_image_back() {
    let shop = Shop::new();
    let before = std::fs::read(shop.image()).expect("an image");
    let many = Ran::of(shop.run("rebuild").args(["--yes", "--cells", &u64::MAX.to_string()])).expect(1);
    assert!(many.err.contains("not possible") && many.err.contains("back in its place"), "{}", many.err);
    assert!(std::fs::read(shop.image()).expect("an image") == before);
    assert_eq!(std::fs::read_dir(shop.directory.path()).expect("a directory").count(), 2);
    shop.check();
}
