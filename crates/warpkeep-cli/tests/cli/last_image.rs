//! Images that are gone or lie elsewhere, and stores that were copied, as commands meet them.

use std::path::Path;
use std::process::Command;

use crate::serve::Served;
use crate::shop::{Ran, Shop, warpkeep};

/// A command about a store whose image lies at `image`, or in its place.
fn command(name: &str, store: &Path, image: Option<&Path>, arguments: &[&str]) -> Command {
    let mut command = warpkeep();
    command.arg(name).arg(store).args(arguments);
    if let Some(image) = image {
        command.arg("--image").arg(image);
    }
    command
}

/// Changes the manifest, with a new checksum.
fn change_manifest(store: &Path, change: impl Fn(&mut [u8])) {
    for entry in std::fs::read_dir(store.join("log")).expect("a log") {
        let path = entry.expect("an entry").path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("MANIFEST")) {
            let mut page = std::fs::read(&path).expect("a manifest");
            change(&mut page[..]);
            let crc = crc32c::crc32c(&page[..4092]);
            page[4092..].copy_from_slice(&crc.to_le_bytes());
            std::fs::write(&path, page).expect("written");
        }
    }
}

#[test]
fn every_command_rebuilds_an_image_that_is_gone() {
    for (name, arguments) in [
        ("get", &["rows", "7"][..]),
        ("scan", &["rows"]),
        ("delete", &["rows", "9"]),
        ("checkpoint", &[]),
        ("compact", &[]),
        ("create", &["more", "--key", "u64", "--value", "var"]),
    ] {
        let shop = Shop::new();
        std::fs::remove_file(shop.image()).expect("removed");
        let ran = Ran::of(&mut command(name, &shop.store(), None, arguments));
        // This test does not check the command's arguments.
        assert!(shop.image().exists(), "{name}: {}", ran.err);
        shop.ran("get", &["rows", "7"], 0);
    }
    let shop = Shop::new();
    std::fs::remove_file(shop.image()).expect("removed");
    let told = shop.ran("get", &["rows", "7"], 0);
    assert!(told.err.contains("was rebuilt from the log"), "{}", told.err);
    assert!(!shop.ran("get", &["rows", "7"], 0).err.contains("rebuilt"));
}

/// A server with its image on tmpfs starts after a reboot; within one boot it refuses to continue without the image
/// until confirmed.
#[test]
fn a_server_starts_without_its_image_after_a_reboot() {
    let home = tempfile::tempdir().expect("a directory");
    let (store, image) = (home.path().join("store"), home.path().join("image"));
    let arguments = ["--threads", "1", "--image", image.to_str().expect("a path")];
    let serve = |more: &[&str]| {
        Served::start_with(&store, &[&arguments[..], more].concat(), std::process::Stdio::null())
    };
    let served = serve(&["--durability", "power"]);
    served.ask("set greeting 0 0 5\r\nhello\r\n", "STORED\r\n");
    drop(served); // killed
    std::fs::remove_file(&image).expect("removed");
    let refused =
        Ran::of(&mut command("serve", &store, Some(&image), &["--listen", "127.0.0.1:0"])).expect(1);
    for word in ["Process", "--abandon-image", image.to_str().expect("a path")] {
        assert!(refused.err.contains(word), "{word}: {}", refused.err);
    }
    assert!(!image.exists(), "nothing was made");

    // As after a restart of the machine.
    change_manifest(&store, |page| page[96] ^= 1);
    let served = serve(&[]);
    served.ask("get greeting\r\n", "VALUE greeting 0 5\r\nhello\r\nEND\r\n");
    drop(served);
    std::fs::remove_file(&image).expect("removed");
    let served = serve(&["--abandon-image"]);
    served.ask("get greeting\r\n", "VALUE greeting 0 5\r\nhello\r\nEND\r\n");
}

#[test]
fn an_image_that_lies_elsewhere_is_named() {
    let shop = Shop::empty();
    let image = shop.path("elsewhere");
    let create = ["t", "--key", "u64", "--value", "var"];
    Ran::of(&mut command("create", &shop.store(), Some(&image), &create)).expect(0);
    Ran::of(&mut command("put", &shop.store(), Some(&image), &["t", "1", "one"])).expect(0);
    for (name, arguments) in [
        ("get", &["t", "1"][..]),
        ("list", &[]),
        ("verify", &[]),
        ("rebuild", &["--yes"]),
        ("checkpoint", &[]),
    ] {
        let ran = Ran::of(&mut command(name, &shop.store(), None, arguments)).expect(1);
        let advice = format!("--image {}", image.canonicalize().expect("it is there").display());
        assert!(ran.err.contains(&advice), "{name}: {}", ran.err);
        assert!(!shop.image().exists(), "{name} made another image");
    }
    let ran = Ran::of(&mut command("get", &shop.store(), Some(&image), &["t", "1"])).expect(0);
    assert_eq!(ran.out.trim(), "one");
    Ran::of(&mut command("get", &shop.store(), None, &["t", "1", "--abandon-image"])).expect(0);
    assert!(shop.image().exists());
}

/// The log of an older program does not record its image's path; the advice repeats the given options.
#[test]
fn advice_names_the_options_that_were_given() {
    let shop = Shop::new();
    std::fs::remove_file(shop.image()).expect("removed");
    change_manifest(&shop.store(), |page| page[96..4092].fill(0));
    let image = shop.path("elsewhere");
    let ran = Ran::of(&mut command("get", &shop.store(), Some(&image), &["rows", "1"])).expect(1);
    let advice = format!("`warpkeep rebuild {} --image {}`", shop.store().display(), image.display());
    assert!(ran.err.contains(&advice), "{}", ran.err);
    Ran::of(&mut command("rebuild", &shop.store(), Some(&image), &[])).expect(0);
    Ran::of(&mut command("get", &shop.store(), Some(&image), &["rows", "1"])).expect(0);
}

#[test]
fn a_copied_store_is_opened_with_the_option_that_the_message_names() {
    let shop = Shop::new();
    let copy = shop.path("copy");
    std::fs::create_dir_all(copy.join("log")).expect("made");
    std::fs::copy(shop.image(), copy.join("image")).expect("copied");
    for entry in std::fs::read_dir(shop.log()).expect("a log") {
        let entry = entry.expect("an entry");
        std::fs::copy(entry.path(), copy.join("log").join(entry.file_name())).expect("copied");
    }
    let refused = Ran::of(&mut command("get", &copy, None, &["rows", "7"])).expect(1);
    assert!(refused.err.contains("--adopt-copy"), "{}", refused.err);
    Ran::of(&mut command("get", &copy, None, &["rows", "7", "--adopt-copy"])).expect(0);
    // From now on it is a store of its own, and so is the original.
    Ran::of(&mut command("get", &copy, None, &["rows", "7"])).expect(0);
    shop.check();
}
