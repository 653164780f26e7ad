//! `stat` and `verify`: sound stores, damaged ones, ones in use, and what is no store at all.

use std::io::Read;
use std::process::Stdio;

use crate::shop::{CELLS, FILLED, Ran, Shop, damage, flip, value, warpkeep};

#[test]
fn a_sound_store() {
    let shop = Shop::new();
    let stat = Ran::of(&mut shop.run("stat")).expect(0);
    for word in ["closed cleanly", "1,000 cells", "in use", "checkpoint 1: 600 items", "10 records"] {
        assert!(stat.out.contains(word), "{word} in {}", stat.out);
    }
    let json = Ran::of(shop.run("stat").arg("--json")).expect(0).json();
    assert_eq!(json["image"]["cells"], CELLS);
    assert_eq!(json["image"]["closed_cleanly"], true);
    assert_eq!(json["image"]["held_by"], serde_json::Value::Null);
    assert_eq!(json["heap"]["classes"][0]["used"], FILLED);
    assert_eq!(json["log"]["checkpoint"]["changes"], FILLED);
    assert_eq!(json["image"]["store_id"], json["log"]["store_id"]);

    let verify = Ran::of(&mut shop.run("verify")).expect(0);
    for word in ["600 blocks", "600 items in the checkpoint", "10 changes", "the same store", "is good"] {
        assert!(verify.out.contains(word), "{word} in {}", verify.out);
    }
    let json = Ran::of(shop.run("verify").arg("--json")).expect(0).json();
    assert_eq!(json["sound"], true);
    assert_eq!(json["checks"].as_array().expect("checks").len(), 5);
    shop.check();
}

#[test]
fn looking_changes_nothing() {
    let shop = Shop::new();
    let content = || {
        let mut files: Vec<_> =
            std::fs::read_dir(shop.log()).expect("a directory").map(|e| e.expect("one").path()).collect();
        files.sort();
        files.push(shop.image());
        files.into_iter().map(|path| (std::fs::read(&path).expect("a file"), path)).collect::<Vec<_>>()
    };
    let before = content();
    Ran::of(&mut shop.run("stat")).expect(0);
    Ran::of(&mut shop.run("verify")).expect(0);
    assert!(content() == before);
}

#[test]
fn the_image_alone() {
    let shop = Shop::new();
    for command in ["stat", "verify"] {
        Ran::of(warpkeep().arg(command).arg("--image").arg(shop.image())).expect(0);
    }
}

#[test]
fn damage_is_found_wherever_it_is() {
    let store = "what was committed last";
    let victim = value(FILLED / 2);
    type Harm<'a> = (&'a str, &'a str, Box<dyn Fn(&Shop)>);
    let bytes = victim.clone();
    let in_image = move |shop: &Shop| damage(&shop.image(), &bytes);
    let bytes = victim.clone();
    let in_checkpoint = move |shop: &Shop| damage(&shop.log_file("ckpt-", &bytes), &bytes);
    let last = value(CELLS + 9);
    let in_log = move |shop: &Shop| damage(&shop.log_file("seg-", &last), &last);
    let harms: Vec<Harm<'_>> = vec![
        ("a record in the image", "every record in the image", Box::new(in_image)),
        ("the static header", "header", Box::new(|shop| flip(&shop.image(), 40))),
        ("a root", "header", Box::new(|shop| flip(&shop.image(), 3 * 4096 + 1))),
        ("a descriptor", "descriptors", Box::new(|shop| flip(&shop.image(), 5 * 4096 + 8 + 1))),
        (
            "a cut image",
            "header",
            Box::new(|shop| {
                let file = std::fs::OpenOptions::new().write(true).open(shop.image()).expect("a file");
                file.set_len(1 << 20).expect("cut");
            }),
        ),
        ("the checkpoint", "every block of the checkpoint", Box::new(in_checkpoint)),
        (store, "every frame of the log", Box::new(in_log)),
        ("the manifest", "manifest", Box::new(|shop| flip(&shop.log().join("MANIFEST"), 50))),
    ];
    for (name, check, harm) in harms {
        let shop = Shop::new();
        harm(&shop);
        let ran = Ran::of(&mut shop.run("verify")).expect(3);
        let found = ran.out.lines().find(|line| line.starts_with("DAMAGED")).unwrap_or_default();
        assert!(found.contains(check), "{name}: {}", ran.out);
        assert!(ran.err.contains("found damage"), "{name}: {}", ran.err);
        let json = Ran::of(shop.run("verify").arg("--json")).expect(3).json();
        assert_eq!(json["sound"], false, "{name}");
    }
}

#[test]
fn a_torn_state_slot_is_no_damage() {
    let shop = Shop::new();
    flip(&shop.image(), 4096 + 100);
    let ran = Ran::of(&mut shop.run("verify")).expect(0);
    assert!(ran.out.contains("one state slot is torn"), "{}", ran.out);
}

#[test]
fn what_is_no_store_is_an_error_and_no_damage() {
    let shop = Shop::new();
    let text = shop.directory.path().join("README");
    std::fs::write(&text, "not an image ".repeat(10_000)).expect("written");
    let empty = shop.directory.path().join("empty");
    std::fs::create_dir(&empty).expect("made");
    let missing = shop.directory.path().join("missing");
    for command in ["stat", "verify"] {
        let image = |path| Ran::of(warpkeep().arg(command).arg("--image").arg(path)).expect(1).err;
        assert!(image(&text).contains("not a Warpkeep image"));
        assert!(image(&missing).contains("No such file"));
        image(&empty);

        let log = |path| {
            let ran =
                Ran::of(warpkeep().arg(command).arg("--image").arg(shop.image()).arg("--log").arg(path));
            ran.expect(1).err
        };
        assert!(log(&empty).contains("holds no log"));
        assert!(log(&missing).contains("No such file"));
        assert!(!missing.exists(), "looking made it");
        assert_eq!(std::fs::read_dir(&empty).expect("a directory").count(), 0, "looking left something");
    }
}

#[test]
fn image_and_log_of_two_stores() {
    let (one, other) = (Shop::new(), Shop::new());
    let ran = Ran::of(warpkeep().arg("verify").arg("--image").arg(one.image()).arg("--log").arg(other.log()));
    assert!(ran.expect(3).out.contains("different stores"));
}

#[test]
fn a_store_in_use_names_its_holder() {
    let shop = Shop::new();
    let store = shop.open();
    let me = format!("process {}", std::process::id());
    let stat = Ran::of(&mut shop.run("stat")).expect(0);
    assert!(stat.out.contains(&format!("open in {me}")) && stat.out.contains("not walked"), "{}", stat.out);
    let verify = Ran::of(&mut shop.run("verify")).expect(1);
    assert!(verify.err.contains(&me) && verify.err.contains("close it there first"), "{}", verify.err);
    let checkpoint = Ran::of(&mut shop.run("checkpoint")).expect(1);
    assert!(checkpoint.err.contains(&me), "{}", checkpoint.err);
    let rebuild = Ran::of(shop.run("rebuild").arg("--yes")).expect(1);
    assert!(rebuild.err.contains(&me), "{}", rebuild.err);
    store.close().expect("closed");
    shop.check();
}

#[test]
fn a_store_whose_writer_was_killed() {
    let shop = Shop::empty();
    let mut writer = warpkeep();
    writer.arg("demo-writer").arg("--image").arg(shop.image()).arg("--log").arg(shop.log());
    writer.args(["--rows", "1000", "--writers", "2", "--seed", "1", "--round", "1"]);
    let mut child = writer.stdout(Stdio::piped()).spawn().expect("the binary runs");
    let mut acks = [0; 8 * 50];
    let heard = child.stdout.take().expect("a pipe").read_exact(&mut acks);
    child.kill().expect("killed");
    child.wait().expect("gone");
    heard.expect("fifty acknowledgements");

    let stat = Ran::of(&mut shop.run("stat")).expect(0);
    assert!(stat.out.contains("left without closing; it will be re-attached"), "{}", stat.out);
    Ran::of(&mut shop.run("verify")).expect(0);
    let checkpoint = Ran::of(shop.run("checkpoint").arg("--json")).expect(0).json();
    assert_eq!(checkpoint["opened"]["origin"], "reattached");
    let json = Ran::of(shop.run("stat").arg("--json")).expect(0).json();
    assert_eq!(json["image"]["closed_cleanly"], true);
}
