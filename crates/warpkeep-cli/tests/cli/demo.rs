//! The demonstration.

use crate::shop::{Ran, warpkeep};

#[test]
fn keeps_its_promises_and_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = ["demo", "--items", "3000", "--kills", "2", "--seconds", "0.05", "--json"];
    let ran = Ran::of(warpkeep().args(arguments).arg("--dir").arg(directory.path())).expect(0);
    let json = ran.json();
    assert_eq!(json["held"], true);
    assert_eq!(json["loading"]["rows"], 3000);
    assert!(json["lookups"]["lookups"].as_u64() >= Some(4096));
    assert_eq!(json["space"]["table"]["items"], 3000);
    let kills = json["kills"].as_array().expect("kills");
    assert_eq!(kills.len(), 2);
    for kill in kills.iter().chain([&json["power_cut"]]) {
        let count = |name: &str| kill[name].as_u64().expect("a number");
        assert!(count("with_power") >= 4 && count("acknowledged") >= count("with_power"), "{kill}");
    }
    let left = std::fs::read_dir(directory.path()).expect("a directory").count();
    assert_eq!(left, 0);
    let image = json["image"]["path"].as_str().expect("a path");
    assert!(!std::path::Path::new(image).exists(), "{image} was left");
}

#[test]
fn a_kept_store_can_be_looked_at() {
    let directory = tempfile::tempdir().expect("a directory");
    let arguments = ["demo", "--items", "400", "--kills", "0", "--keep", "--seed", "7", "--seconds", "0"];
    let ran = Ran::of(warpkeep().args(arguments).arg("--dir").arg(directory.path())).expect(0);
    for word in ["loaded 400 rows", "looked up", "power cut", "load factor", "everything promised was kept"] {
        assert!(ran.out.contains(word), "{}", ran.out);
    }
    let (_, command) = ran.out.split_once("look at it with: warpkeep ").expect("a command");
    let command: Vec<&str> = command.lines().next().expect("a line").split(' ').collect();
    // The image may lie elsewhere than the log.
    let image = std::path::Path::new(command.last().expect("a path"));
    let _gone_at_the_end = (command.len() > 2).then(|| Remove(image.parent().expect("a directory")));
    let stat = Ran::of(warpkeep().args(&command)).expect(0);
    assert!(stat.out.contains("closed cleanly") && stat.out.contains("embeddings"), "{}", stat.out);
}

/// A directory that is removed even if the test fails.
struct Remove<'a>(&'a std::path::Path);

impl Drop for Remove<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0);
    }
}
