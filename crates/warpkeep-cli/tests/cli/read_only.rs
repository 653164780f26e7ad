//! Commands that only read a store, and stores that are served meanwhile.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use crate::serve::Served;
use crate::shop::{ROWS, Ran, Shop, warpkeep};

/// A user without rights, by convention.
const STRANGER: u32 = 65534;

fn files(directory: &Path) -> BTreeMap<PathBuf, (Vec<u8>, std::time::SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let changed = path.metadata().and_then(|found| found.modified()).expect("a time");
            found.insert(path.clone(), (std::fs::read(&path).expect("a file"), changed));
        }
    }
    found
}

/// Each command that can read without writing, and a part of its expected output.
fn reading(out: &Path) -> Vec<(&'static str, Vec<String>, &'static str)> {
    let to = |name: &str| out.join(name).to_str().expect("a path").to_owned();
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<String>>();
    vec![
        ("get", words(&["rows", "7", "--format", "hex"]), ""),
        ("scan", words(&["rows", "--keys-only", "--limit", "3"]), ""),
        ("dump", words(&["rows", &to("rows.jsonl")]), "600"),
        ("stat", words(&[]), "rows"),
        ("stat", words(&["rows"]), "rows"),
        ("list", words(&[]), "rows"),
        ("verify", words(&[]), "good"),
        ("backup", words(&[&to("backup")]), "600"),
    ]
}

/// Runs them all with a store; `prepare` sets the user.
fn read_all(store: &Path, out: &Path, prepare: impl Fn(&mut std::process::Command)) {
    for (name, arguments, expected) in reading(out) {
        let mut command = warpkeep();
        command.arg(name).arg(store).args(&arguments).arg("--read-only");
        prepare(&mut command);
        let ran = Ran::of(&mut command).expect(0);
        assert!(ran.out.contains(expected), "{name}: {}", ran.out);
    }
    let dumped = std::fs::read_to_string(out.join("rows.jsonl")).expect("a dump");
    assert_eq!(dumped.lines().count() as u64, ROWS);
}

#[test]
fn what_is_only_read_is_not_changed() {
    let shop = Shop::new();
    let out = tempfile::tempdir().expect("a directory");
    for left in [false, true] {
        if left {
            drop(shop.open());
        }
        let before = files(&shop.store());
        let out = out.path().join(if left { "left" } else { "closed" });
        std::fs::create_dir(&out).expect("made");
        read_all(&shop.store(), &out, |_| ());
        assert!(files(&shop.store()) == before, "a file has changed");
    }
    let restored = shop.path("restored");
    let backup = out.path().join("left/backup");
    Ran::of(warpkeep().arg("restore").arg(backup).arg(&restored)).expect(0);
    Ran::of(warpkeep().arg("get").arg(&restored).args(["rows", "7"])).expect(0);
}

/// Another user with the owner's permission to read, and nothing else.
#[test]
fn another_user_reads_what_is_permitted() {
    let say = |why: &str| {
        let line = format!("SKIPPED: a store that another user reads: {why}");
        let _ = writeln!(std::io::stdout().lock(), "{line}");
    };
    if !rustix::process::geteuid().is_root() {
        return say("only root can become another user");
    }
    let set = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("ours");
    };
    let shop = Shop::new();
    drop(shop.open());
    let out = tempfile::tempdir().expect("a directory");
    std::os::unix::fs::chown(out.path(), Some(STRANGER), Some(STRANGER)).expect("we are root");
    // The binary may lie where the other user cannot go.
    let binary = out.path().join("warpkeep");
    std::fs::copy(env!("CARGO_BIN_EXE_warpkeep"), &binary).expect("copied");
    set(&binary, 0o755);
    for directory in [shop.directory.path().to_path_buf(), shop.store(), shop.log()] {
        set(&directory, 0o755);
    }
    for path in files(&shop.store()).keys() {
        set(path, 0o644);
    }
    let before = files(&shop.store());
    let as_stranger = |arguments: &[&str]| {
        let mut command = std::process::Command::new(&binary);
        command
            .args(arguments)
            .uid(STRANGER)
            .gid(STRANGER)
            .current_dir("/")
            .stdin(std::process::Stdio::null());
        command
    };
    if let Err(error) = as_stranger(&["--version"]).output() {
        return say(&format!("it cannot run the binary ({error})"));
    }
    let store = shop.store();
    let store = store.to_str().expect("a path");
    let refused = Ran::of(&mut as_stranger(&["get", store, "rows", "7"])).expect(1);
    assert!(refused.err.contains("ermission denied"), "{}", refused.err);
    for (name, arguments, expected) in reading(out.path()) {
        let mut all = vec![name, store, "--read-only"];
        all.extend(arguments.iter().map(String::as_str));
        let ran = Ran::of(&mut as_stranger(&all)).expect(0);
        assert!(ran.out.contains(expected), "{name}: {}", ran.out);
    }
    assert!(files(&shop.store()) == before, "a file has changed");
    // A file without permission is not read.
    set(&shop.image(), 0o600);
    let refused = Ran::of(&mut as_stranger(&["get", store, "rows", "7", "--read-only"])).expect(1);
    assert!(refused.err.contains("ermission denied"), "{}", refused.err);
}

#[test]
fn a_served_store_is_backed_up_by_its_server() {
    let home = tempfile::tempdir().expect("a directory");
    let (store, backups) = (home.path().join("store"), home.path().join("backups"));
    let at = |path: &Path| path.to_str().expect("a path").to_owned();
    let password = home.path().join("password");
    std::fs::write(&password, "secret\n").expect("written");
    let settings = [
        "--threads",
        "1",
        "--backups",
        &at(&backups),
        "--password-file",
        &at(&password),
        "--log-level",
        "error",
    ];
    let served = Served::start_with(&store, &settings, std::process::Stdio::null());
    let auth = "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n";
    served.ask(&format!("{auth}*3\r\n$3\r\nSET\r\n$8\r\ngreeting\r\n$5\r\nhello\r\n"), "+OK\r\n+OK\r\n");

    // Another process cannot open it, and the message advises asking the server.
    let refused = Ran::of(warpkeep().arg("backup").arg(&store).arg(home.path().join("own"))).expect(1);
    assert!(refused.err.contains("warpkeep backup --address"), "{}", refused.err);
    let refused =
        Ran::of(warpkeep().arg("get").arg(&store).args(["items.1", "greeting", "--read-only"])).expect(1);
    assert!(refused.err.contains("process") && refused.err.contains("server"), "{}", refused.err);

    let backup = |name: &str, arguments: &[&str]| {
        let mut command = warpkeep();
        command.args(["backup", "--address", served.address(), name]).args(arguments);
        Ran::of(&mut command)
    };
    assert!(backup("monday", &[]).expect(1).err.contains("--password-file"));
    let with_password = ["--password-file", &at(&password)];
    let made = backup("monday", &[&with_password[..], &["--json"]].concat()).expect(0).json();
    assert_eq!((made["name"].as_str(), made["tables"].as_u64()), (Some("monday"), Some(1)));
    assert!(backup("monday", &with_password).expect(1).err.contains("not empty"));
    assert!(backup("../monday", &with_password).expect(1).err.contains("choose another"));
    // It serves on, and the backup equals its contents.
    served.ask(&format!("{auth}*2\r\n$3\r\nGET\r\n$8\r\ngreeting\r\n"), "+OK\r\n$5\r\nhello\r\n");
    let anew = home.path().join("anew");
    Ran::of(warpkeep().arg("restore").arg(backups.join("monday")).arg(&anew)).expect(0);
    let restored = Served::start_with(&anew, &["--threads", "1"], std::process::Stdio::null());
    restored.ask("get greeting\r\n", "VALUE greeting 0 5\r\nhello\r\nEND\r\n");
    // A server that was given no directory makes none.
    let refused = Ran::of(warpkeep().args(["backup", "--address", restored.address(), "tuesday"])).expect(1);
    assert!(refused.err.contains("--backups"), "{}", refused.err);
}
