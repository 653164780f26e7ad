//! Commands about the connection and the server rather than about keys.

use super::commands::To;
use super::describe;
use super::encode::{bulk, error, null, one_line};
use crate::databases::DATABASES;
use crate::server_commands::ServerCommand;
use crate::session::Parsed;
use crate::text::number;

/// The version of Redis whose commands are implemented, for clients that check it.
pub(crate) const REDIS_VERSION: &str = "7.0.0";

const WRONG_PASSWORD: &[u8] = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n";
const OK: &[u8] = b"+OK\r\n";

/// Adds a command by its name in capitals.
pub(super) fn command(to: &mut To<'_>, name: &[u8]) -> Parsed {
    match name {
        // These change the session.
        b"HELLO" | b"AUTH" | b"CLIENT" | b"RESET" if to.session.must_wait() => Parsed::Waits,
        b"PING" => ping(to),
        b"ECHO" if to.asked.len() == 2 => {
            let mut answer = Vec::new();
            bulk(&mut answer, to.asked.get(1));
            to.say(&answer)
        }
        b"HELLO" => hello(to),
        b"AUTH" => auth(to),
        b"CLIENT" => client(to),
        b"COMMAND" => describe::command(to),
        b"SELECT" => select(to),
        b"QUIT" => to.session.say_and_close(to.batch, to.asked.next, OK),
        b"RESET" => {
            to.session.resp3 = false;
            to.session.name.clear();
            to.session.authenticated = to.access.password.is_none();
            to.session.transaction = None;
            to.session.database = 0;
            to.session.note();
            to.say(b"+RESET\r\n")
        }
        b"CONFIG" => to.server_command(2..=usize::MAX, ServerCommand::Config),
        b"SAVE" => to.server_command(1..=1, ServerCommand::Save),
        b"BGSAVE" => to.server_command(1..=2, ServerCommand::SaveBehind),
        b"LASTSAVE" => to.server_command(1..=1, ServerCommand::LastSave),
        b"SHUTDOWN" => to.server_command(1..=usize::MAX, ServerCommand::Shutdown),
        b"TIME" => to.server_command(1..=1, ServerCommand::Time),
        b"WARPKEEP.BACKUP" => to.server_command(1..=2, ServerCommand::Backup),
        b"ECHO" => to.wrong_number(),
        _ => unknown(to),
    }
}

pub(super) fn unknown(to: &mut To<'_>) -> Parsed {
    const SHOWN: usize = 128;
    let shown = |argument: &[u8]| one_line(&String::from_utf8_lossy(&argument[..argument.len().min(SHOWN)]));
    let mut answer = format!("-ERR unknown command '{}', with args beginning with: ", shown(to.asked.get(0)));
    for index in 1..to.asked.len() {
        if answer.len() > 2 * SHOWN {
            break;
        }
        answer += &format!("'{}' ", shown(to.asked.get(index)));
    }
    answer += "\r\n";
    to.say(answer.as_bytes())
}

fn ping(to: &mut To<'_>) -> Parsed {
    match to.asked.len() {
        1 => to.say(b"+PONG\r\n"),
        2 => {
            let mut answer = Vec::new();
            bulk(&mut answer, to.asked.get(1));
            to.say(&answer)
        }
        _ => to.wrong_number(),
    }
}

fn hello(to: &mut To<'_>) -> Parsed {
    let mut resp3 = to.session.resp3;
    if to.asked.len() > 1 {
        resp3 = match to.asked.get(1) {
            b"2" => false,
            b"3" => true,
            version if super::numbers::integer(version).is_none() => {
                return to.say(b"-ERR Protocol version is not an integer or out of range\r\n");
            }
            _ => return to.say(b"-NOPROTO unsupported protocol version\r\n"),
        };
    }
    let mut name = None;
    let mut authenticated = to.session.authenticated;
    let mut index = 2;
    while index < to.asked.len() {
        if to.asked.is(index, "AUTH") && index + 2 < to.asked.len() {
            if to.access.password.is_some() && !admitted(to, to.asked.get(index + 1), to.asked.get(index + 2))
            {
                to.session.admit(false);
                return to.say(WRONG_PASSWORD);
            }
            authenticated = true;
            index += 3;
        } else if to.asked.is(index, "SETNAME") && index + 1 < to.asked.len() {
            name = Some(to.asked.get(index + 1).to_vec());
            index += 2;
        } else {
            let what = one_line(&String::from_utf8_lossy(to.asked.get(index)));
            return to.say(format!("-ERR Syntax error in HELLO option '{what}'\r\n").as_bytes());
        }
    }
    if !authenticated {
        return to.say(
            b"-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time\r\n",
        );
    }
    if !to.session.authenticated {
        to.session.admit(true);
    }
    to.session.resp3 = resp3;
    if let Some(name) = name {
        to.session.name = name;
    }
    let mut answer = Vec::new();
    answer.extend_from_slice(if resp3 { b"%7\r\n" } else { b"*14\r\n" });
    let integer = |answer: &mut Vec<u8>, value: u64| {
        answer.push(b':');
        number(answer, value);
        answer.extend_from_slice(b"\r\n");
    };
    for (field, value) in [("server", "warpkeep"), ("version", REDIS_VERSION)] {
        bulk(&mut answer, field.as_bytes());
        bulk(&mut answer, value.as_bytes());
    }
    bulk(&mut answer, b"proto");
    integer(&mut answer, if resp3 { 3 } else { 2 });
    bulk(&mut answer, b"id");
    integer(&mut answer, to.session.number);
    for (field, value) in [("mode", "standalone"), ("role", "master")] {
        bulk(&mut answer, field.as_bytes());
        bulk(&mut answer, value.as_bytes());
    }
    bulk(&mut answer, b"modules");
    answer.extend_from_slice(b"*0\r\n");
    to.say(&answer)
}

fn admitted(to: &To<'_>, user: &[u8], password: &[u8]) -> bool {
    user == b"default" && to.access.admits(password)
}

fn auth(to: &mut To<'_>) -> Parsed {
    let (user, password) = match to.asked.len() {
        2 => (&b"default"[..], to.asked.get(1)),
        3 => (to.asked.get(1), to.asked.get(2)),
        0 | 1 => return to.wrong_number(),
        _ => return to.say(b"-ERR syntax error\r\n"),
    };
    if to.access.password.is_none() && to.asked.len() == 2 {
        return to.say(
            b"-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?\r\n",
        );
    }
    let is_right = admitted(to, user, password);
    to.session.admit(is_right);
    to.say(if is_right { OK } else { WRONG_PASSWORD })
}

fn client(to: &mut To<'_>) -> Parsed {
    let mut answer = Vec::new();
    match to.asked.get(1).to_ascii_uppercase().as_slice() {
        b"SETNAME" if to.asked.len() == 3 => {
            let name = to.asked.get(2);
            match name.iter().all(|byte| (b'!'..=b'~').contains(byte)) {
                true => {
                    to.session.name = name.to_vec();
                    answer.extend_from_slice(OK);
                }
                false => {
                    error(&mut answer, "Client names cannot contain spaces, newlines or special characters.");
                }
            }
        }
        b"GETNAME" if to.asked.len() == 2 => match to.session.name.is_empty() {
            true => null(&mut answer, to.session.resp3),
            false => bulk(&mut answer, &to.session.name),
        },
        b"ID" if to.asked.len() == 2 => {
            answer.push(b':');
            number(&mut answer, to.session.number);
            answer.extend_from_slice(b"\r\n");
        }
        b"INFO" if to.asked.len() == 2 => {
            let name = String::from_utf8_lossy(&to.session.name);
            let protocol = if to.session.resp3 { 3 } else { 2 };
            let text = format!(
                "id={} name={name} db={} resp={protocol} user=default\n",
                to.session.number, to.session.database
            );
            bulk(&mut answer, text.as_bytes());
        }
        b"SETINFO" | b"NO-EVICT" | b"NO-TOUCH" if to.asked.len() >= 3 => answer.extend_from_slice(OK),
        _ => {
            let what = String::from_utf8_lossy(to.asked.get(1)).into_owned();
            error(&mut answer, &format!("Unknown subcommand or wrong number of arguments for '{what}'."));
        }
    }
    to.say(&answer)
}

fn select(to: &mut To<'_>) -> Parsed {
    if to.asked.len() != 2 {
        return to.wrong_number();
    }
    match super::numbers::integer(to.asked.get(1)) {
        Some(database) if (0..i64::from(DATABASES)).contains(&database) => {
            to.server_command_that_halts(ServerCommand::Select { database: database as u8 })
        }
        Some(_) => to.say(b"-ERR DB index is out of range\r\n"),
        None => to.say(b"-ERR value is not an integer or out of range\r\n"),
    }
}
