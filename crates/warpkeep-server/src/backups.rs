//! Backups of a served store, requested by clients with `WARPKEEP.BACKUP`.
//!
//! They are written to a directory from the settings, under names that clients choose, by a thread of their own: a
//! backup takes as long as writing all items.

use std::path::PathBuf;
use std::time::Duration;

use parking_lot::Mutex;
use warpkeep::BackupReport;

use crate::resp;
use crate::server::Shared;

/// How often the thread checks for a request.
const TICK: Duration = Duration::from_millis(20);
const LONGEST_NAME: usize = 128;

/// The state of the last requested backup.
#[derive(Debug, Default)]
enum State {
    #[default]
    None,
    Asked(String),
    Running(String),
    Done(String, BackupReport),
    Failed(String, String),
}

/// Where backups are made, and the one that is being made.
#[derive(Debug)]
pub(crate) struct Backups {
    directory: Option<PathBuf>,
    state: Mutex<State>,
}

impl Backups {
    pub(crate) fn new(directory: Option<PathBuf>) -> Backups {
        Backups { directory, state: Mutex::default() }
    }

    /// Answers `WARPKEEP.BACKUP`: with a name, starts a backup of that name; without one, reports the state of the
    /// last.
    pub(crate) fn answer(&self, name: &[u8], out: &mut Vec<u8>) {
        if name.is_empty() {
            return resp::bulk(out, self.state_text().as_bytes());
        }
        match self.ask(name) {
            Ok(()) => out.extend_from_slice(b"+Backup started\r\n"),
            Err(what) => resp::error(out, &what),
        }
    }

    fn ask(&self, name: &[u8]) -> Result<(), String> {
        if self.directory.is_none() {
            return Err("this server makes no backups; start it with --backups DIRECTORY".to_owned());
        }
        let name = std::str::from_utf8(name).ok().filter(|name| is_plain(name)).ok_or(
            "a backup's name has letters, digits, '.', '-' and '_', at most 128 of them, and does not begin with '.'; \
             choose another",
        )?;
        let mut state = self.state.lock();
        match &*state {
            State::Asked(other) | State::Running(other) => {
                Err(format!("the backup '{other}' is being made; wait until it is done"))
            }
            State::None | State::Done(..) | State::Failed(..) => {
                *state = State::Asked(name.to_owned());
                Ok(())
            }
        }
    }

    /// One line: the state, the name, and details.
    fn state_text(&self) -> String {
        match &*self.state.lock() {
            State::None => "none".to_owned(),
            State::Asked(name) | State::Running(name) => format!("running {name}"),
            State::Done(name, made) => {
                format!("done {name} {} {} {} {:.3}", made.tables, made.items, made.bytes, made.seconds)
            }
            State::Failed(name, why) => format!("failed {name} {why}"),
        }
    }

    fn take(&self) -> Option<(PathBuf, String)> {
        let directory = self.directory.as_ref()?;
        let mut state = self.state.lock();
        match &*state {
            State::Asked(name) => {
                let name = name.clone();
                *state = State::Running(name.clone());
                Some((directory.join(&name), name))
            }
            _ => None,
        }
    }
}

/// Whether a name stays within the directory: no separator, nothing hidden, and not that of a backup which is being made.
fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    name.len() <= LONGEST_NAME
        && name.bytes().all(plain)
        && !name.starts_with('.')
        && !name.ends_with(".partial")
}

/// Makes the requested backups until the server stops. A running one is finished first.
pub(crate) fn run(shared: &Shared<'_>) {
    while !shared.is_stopping() {
        let Some((path, name)) = shared.backups.take() else {
            std::thread::sleep(TICK);
            continue;
        };
        let made = shared.keyspace.store.backup(&path, &mut |_, _| ());
        *shared.backups.state.lock() = match made {
            Ok(made) => {
                tracing::info!(backup = %path.display(), items = made.items, "a backup was made");
                State::Done(name, made)
            }
            Err(error) => {
                tracing::error!(backup = %path.display(), %error, "no backup was made");
                State::Failed(name, error.to_string())
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_within_the_directory() {
        for good in ["monday", "2026-11-18", "a.b_c", &"x".repeat(128)] {
            assert!(is_plain(good), "{good}");
        }
        for bad in ["..", ".hidden", "a/b", "/etc", "a\0b", "a b", "x.partial", "é", &"x".repeat(129)] {
            assert!(!is_plain(bad), "{bad}");
        }
    }

    #[test]
    fn one_is_made_at_a_time_and_only_where_it_is_allowed() {
        let answer = |backups: &Backups, name: &str| {
            let mut out = Vec::new();
            backups.answer(name.as_bytes(), &mut out);
            String::from_utf8(out).unwrap()
        };
        assert!(answer(&Backups::new(None), "monday").contains("--backups"));
        let backups = Backups::new(Some(PathBuf::from("/backups")));
        assert!(answer(&backups, "").contains("none"));
        assert!(answer(&backups, "a/b").starts_with("-ERR"));
        assert_eq!(answer(&backups, "monday"), "+Backup started\r\n");
        assert!(answer(&backups, "tuesday").contains("'monday' is being made"));
        assert_eq!(backups.take(), Some((PathBuf::from("/backups/monday"), "monday".to_owned())));
        assert_eq!(backups.take(), None);
        assert!(answer(&backups, "").contains("running monday"));
    }
}
