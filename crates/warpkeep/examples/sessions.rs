//! Sessions with keys of any length, written by several threads; a backup is made meanwhile and restored.
//!
//! ```text
//! cargo run --release -p warpkeep --example sessions
//! ```

use std::path::Path;

use warpkeep::{Durability, Error, Store, StoreOptions, restore, verify};

fn main() -> Result<(), Error> {
    let home = std::env::temp_dir().join(format!("warpkeep-sessions-{}", std::process::id()));
    let done = run(&home);
    let _ = std::fs::remove_dir_all(&home);
    done
}

fn run(home: &Path) -> Result<(), Error> {
    let (backup, anew) = (home.join("backup"), home.join("anew"));
    let store = Store::open(home.join("store"))?;
    store.create_typed::<String, String>("sessions", 10_000)?;
    let report = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let store = &store;
                scope.spawn(move || {
                    let sessions = store.typed::<String, String>("sessions")?;
                    for number in 0..5000 {
                        let (token, user) = (format!("token-{writer}-{number}"), format!("user {number}"));
                        sessions.put(&token, &user, Durability::Process)?;
                    }
                    Ok::<(), Error>(())
                })
            })
            .collect();
        let report = store.backup(&backup, &mut |_, _| ());
        writers.into_iter().try_for_each(|writer| writer.join().expect("no writer panics"))?;
        report
    })?;
    println!("backed up {} sessions in {:.3} s, while there came to be more:", report.items, report.seconds);
    println!("{} sessions in the store", store.table("sessions")?.len());
    store.close()?;

    let report = restore(&backup, &anew, StoreOptions::default(), &mut |_, _| ())?;
    println!("restored {} sessions in {:.3} s", report.items, report.seconds);
    let report = verify(&anew, &StoreOptions::default())?;
    println!("the restored store is {}", if report.sound { "sound" } else { "damaged" });
    Ok(())
}
