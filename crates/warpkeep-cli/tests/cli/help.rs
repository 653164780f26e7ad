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
        for line in [
            "Exit codes:",
            "2  the command line was not understood",
            "3  a check found damage",
            "4  a key that was asked for is not there",
            "130, 143  interrupted",
        ] {
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
        let json = arguments.contains(&"--json");
        assert!(ran.err.contains("Usage") || ran.err.contains("error") || json, "{}", ran.err);
        assert_eq!(json, ran.out.contains("\"kind\": \"usage\""), "{}", ran.out);
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

/// One place explains the options about devices.
#[test]
fn options_about_devices_are_short_but_in_one_place() {
    let long = "Batches too small for a GPU";
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    for command in ["create", "put", "get", "delete", "load", "stat", "serve"] {
        let help = flat(&Ran::of(warpkeep().args([command, "--help"])).expect(0).out);
        assert!(help.contains("--device") && help.contains("warpkeep info --help"), "{command}: {help}");
        assert!(!help.contains(long), "{command}: {help}");
    }
    assert!(flat(&Ran::of(warpkeep().args(["info", "--help"])).expect(0).out).contains(long));
}

#[test]
fn failures_are_objects_where_json_was_asked_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    std::fs::write(&file, "x").expect("written");
    let store = directory.path().join("store");
    let path = |path: &std::path::Path| path.to_str().expect("text").to_owned();
    let cases = [
        (vec!["get".to_owned(), path(&store), "t".into(), "1".into()], 1, "no-store", "warpkeep create"),
        (vec!["get".into(), path(&file), "t".into(), "1".into()], 1, "no-store", "give another path"),
        (
            vec![
                "create".into(),
                path(&file),
                "t".into(),
                "--key".into(),
                "u64".into(),
                "--value".into(),
                "var".into(),
            ],
            1,
            "no-store",
            "give another path",
        ),
        (vec!["get".into(), path(&store), "t".into()], 2, "usage", "warpkeep help"),
        (vec!["fly".into()], 2, "usage", "warpkeep help"),
    ];
    for (arguments, code, kind, advice) in cases {
        let ran = Ran::of(warpkeep().args(&arguments).arg("--json")).expect(code);
        let json = ran.json();
        assert_eq!((&json["kind"], &json["exit_code"]), (&kind.into(), &code.into()), "{json}");
        assert!(json["advice"].as_str().is_some_and(|text| text.contains(advice)), "{json}");
        assert!(
            json["error"]
                .as_str()
                .is_some_and(|text| text.contains(json["advice"].as_str().expect("advice"))),
            "{json}"
        );
        assert!(ran.err.starts_with("warpkeep: "), "{}", ran.err);
    }
    let advised = Ran::of(warpkeep().args(["list"]).arg(&store)).expect(1);
    let advised = advised.err + &Ran::of(warpkeep().args(["scan"]).arg(&store).arg("t")).expect(1).err;
    assert!(advised.contains("--key u64 --value var"), "{advised}");
}
