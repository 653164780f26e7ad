//! The demonstration.

use crate::shop::{Ran, warpkeep};

#[test]
fn keeps_its_promises_and_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = ["demo", "--items", "3000", "--kills", "2", "--json"];
    let ran = Ran::of(warpkeep().args(arguments).arg("--dir").arg(directory.path())).expect(0);
    let json = ran.json();
    assert_eq!(json["held"], true);
    assert_eq!(json["loading"]["rows"], 3000);
    let kills = json["kills"].as_array().expect("kills");
    assert_eq!(kills.len(), 2);
    for kill in kills.iter().chain([&json["power_cut"]]) {
        let count = |name: &str| kill[name].as_u64().expect("a number");
        assert!(count("with_power") >= 4 && count("acknowledged") >= count("with_power"), "{kill}");
    }
    assert_eq!(json["heap"]["classes"][0]["used"], 3000);
    let left = std::fs::read_dir(directory.path()).expect("a directory").count();
    assert_eq!(left, 0);
    let image = json["image"]["path"].as_str().expect("a path");
    assert!(!std::path::Path::new(image).exists(), "{image} was left");
}

#[test]
fn a_kept_store_can_be_looked_at() {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = ["demo", "--items", "400", "--kills", "0", "--keep", "--seed", "7"];
    let ran = Ran::of(warpkeep().args(arguments).arg("--dir").arg(directory.path())).expect(0);
    for word in ["loaded 400 rows", "power cut", "everything promised was kept"] {
        assert!(ran.out.contains(word), "{}", ran.out);
    }
    let (_, command) = ran.out.split_once("look at it with: warpkeep ").expect("a command");
    let command = command.lines().next().expect("a line");
    // The image may lie elsewhere than the log.
    let image = std::path::Path::new(command.split(' ').nth(2).expect("a path"));
    let _gone_at_the_end = Remove(image.parent().expect("a directory"));
    let stat = Ran::of(warpkeep().args(command.split(' '))).expect(0);
    assert!(stat.out.contains("closed cleanly") && stat.out.contains("400 cells"), "{}", stat.out);
}

/// A directory that goes also if the test fails.
struct Remove<'a>(&'a std::path::Path);

impl Drop for Remove<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0);
    }
}
