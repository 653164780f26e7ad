//! Help, completions, and command lines that make no sense.

use crate::shop::{Ran, warpkeep};

#[test]
fn help_tells_the_exit_codes() {
    let commands = [
        "",
        "demo",
        "create",
        "list",
        "drop",
        "put",
        "get",
        "delete",
        "scan",
        "load",
        "dump",
        "info",
        "stat",
        "verify",
        "backup",
        "restore",
        "checkpoint",
        "rebuild",
        "serve",
        "bench",
    ];
    for command in commands {
        let arguments: Vec<&str> = if command.is_empty() { vec!["--help"] } else { vec![command, "--help"] };
        let ran = Ran::of(warpkeep().args(arguments)).expect(0);
        for line in ["Exit codes:", "2  the command line was not understood", "3  a check found damage"] {
            assert!(ran.out.contains(line), "{command}: {}", ran.out);
        }
    }
    let help = Ran::of(warpkeep().arg("--help"));
    assert!(commands[1..].iter().all(|command| help.out.contains(command)), "{}", help.out);
    assert!(!help.out.contains("demo-writer"), "it is nobody's business");
}

#[test]
fn nonsense_is_answered_with_2() {
    let cases = [
        &["fly"][..],
        &[],
        &["stat"],
        &["demo", "--items", "3"],
        &["demo", "--seconds", "-1"],
        &["create", "store"],
        &["get", "store", "table"],
        &["get", "store", "table", "key", "--raw", "--json"],
        &["load", "store", "table", "file.csv", "--key", "u64"],
        &["bench", "storage", "--sizes", "big"],
    ];
    for arguments in cases {
        let ran = Ran::of(warpkeep().args(arguments)).expect(2);
        assert!(ran.err.contains("Usage") || ran.err.contains("error"), "{}", ran.err);
    }
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = Ran::of(warpkeep().args(["completions", shell])).expect(0);
        assert!(ran.out.contains("warpkeep") && ran.out.contains("rebuild"), "{shell}");
    }
}

#[test]
fn info_tells_what_survives() {
    let directory = tempfile::tempdir().expect("a directory");
    let ran = Ran::of(warpkeep().arg("info").arg(directory.path())).expect(0);
    for word in ["the process dies", "the machine goes down", "GPU", "huge pages", "locked memory"] {
        assert!(ran.out.contains(word), "{}", ran.out);
    }
    let json =
        Ran::of(warpkeep().args(["info", "--json"]).arg(directory.path().join("new"))).expect(0).json();
    assert_eq!(json["places"][0]["survives_process"], true);
    Ran::of(warpkeep().arg("info")).expect(0);

    let missing =
        Ran::of(warpkeep().args(["info", "--json"]).arg(directory.path().join("no/such/file"))).expect(1);
    assert_eq!(missing.json()["exit_code"], 1);
    assert!(missing.err.starts_with("warpkeep: "), "{}", missing.err);
}
