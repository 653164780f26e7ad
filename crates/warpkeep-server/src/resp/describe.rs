//! `COMMAND`: the available commands, and where their keys are.

use super::commands::To;
use super::encode::{bulk, error, null};
use super::table::{COMMANDS, Spec, find};
use crate::pattern::matches;
use crate::session::Parsed;
use crate::text::number;

pub(super) fn command(to: &mut To<'_>) -> Parsed {
    let mut answer = Vec::new();
    match to.asked.get(1).to_ascii_uppercase().as_slice() {
        b"" if to.asked.len() == 1 => {
            array(&mut answer, COMMANDS.len());
            COMMANDS.iter().for_each(|spec| info(&mut answer, spec, to.session.resp3));
        }
        b"COUNT" if to.asked.len() == 2 => integer(&mut answer, COMMANDS.len() as i64),
        b"INFO" => {
            let named: Vec<Option<&Spec>> = match to.asked.len() {
                2 => COMMANDS.iter().map(Some).collect(),
                _ => to.asked.all().skip(2).map(find).collect(),
            };
            array(&mut answer, named.len());
            for spec in named {
                match spec {
                    Some(spec) => info(&mut answer, spec, to.session.resp3),
                    None => null(&mut answer, to.session.resp3),
                }
            }
        }
        b"DOCS" => {
            let named: Vec<&Spec> = match to.asked.len() {
                2 => COMMANDS.iter().collect(),
                _ => to.asked.all().skip(2).filter_map(find).collect(),
            };
            map(&mut answer, named.len(), to.session.resp3);
            for spec in named {
                bulk(&mut answer, spec.name.as_bytes());
                map(&mut answer, 2, to.session.resp3);
                for (name, value) in [("summary", "See the documentation of Redis."), ("group", group(spec))]
                {
                    bulk(&mut answer, name.as_bytes());
                    bulk(&mut answer, value.as_bytes());
                }
            }
        }
        b"LIST" => list(to, &mut answer),
        b"GETKEYS" if to.asked.len() > 3 => keys(to, &mut answer),
        b"GETKEYS" => error(&mut answer, "wrong number of arguments for 'command|getkeys' command"),
        _ => {
            let what = String::from_utf8_lossy(to.asked.get(1)).into_owned();
            error(&mut answer, &format!("unknown subcommand '{what}'. Try COMMAND HELP."));
        }
    }
    to.say(&answer)
}

/// One command, in the ten fields that Redis 7 has.
fn info(out: &mut Vec<u8>, spec: &Spec, resp3: bool) {
    array(out, 10);
    bulk(out, spec.name.as_bytes());
    integer(out, spec.arity.into());
    words(out, spec.flags, resp3);
    let (first, last, step) = spec.keys;
    [first, last, step].iter().for_each(|&place| integer(out, place.into()));
    words(out, spec.categories, resp3);
    // Tips, key specifications and subcommands are empty.
    (0..3).for_each(|_| array(out, 0));
}

fn words(out: &mut Vec<u8>, words: &str, resp3: bool) {
    out.push(if resp3 { b'~' } else { b'*' });
    number(out, words.split_whitespace().count());
    out.extend_from_slice(b"\r\n");
    for word in words.split_whitespace() {
        out.push(b'+');
        out.extend_from_slice(word.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

fn group(spec: &Spec) -> &'static str {
    let is = |category: &str| spec.categories.contains(category);
    match () {
        () if is("@string") => "string",
        () if is("@bitmap") => "bitmap",
        () if is("@keyspace") => "generic",
        () if is("@connection") => "connection",
        () if is("@transaction") => "transactions",
        () => "server",
    }
}

/// `COMMAND LIST`, all of them or those of a pattern or a category.
fn list(to: &To<'_>, out: &mut Vec<u8>) {
    let argument = to.asked.get(4);
    let chosen: Vec<&Spec> = match to.asked.len() {
        2 => COMMANDS.iter().collect(),
        5 if to.asked.is(2, "FILTERBY") && to.asked.is(3, "PATTERN") => {
            COMMANDS.iter().filter(|spec| matches(argument, spec.name.as_bytes())).collect()
        }
        5 if to.asked.is(2, "FILTERBY") && to.asked.is(3, "ACLCAT") => {
            let has = |spec: &&Spec| {
                spec.categories.split_whitespace().any(|category| category.as_bytes()[1..] == *argument)
            };
            COMMANDS.iter().filter(has).collect()
        }
        5 if to.asked.is(2, "FILTERBY") && to.asked.is(3, "MODULE") => Vec::new(),
        _ => return out.extend_from_slice(super::commands::SYNTAX),
    };
    array(out, chosen.len());
    chosen.iter().for_each(|spec| bulk(out, spec.name.as_bytes()));
}

/// `COMMAND GETKEYS`: the keys of a command that is given.
fn keys(to: &To<'_>, out: &mut Vec<u8>) {
    let given: Vec<&[u8]> = to.asked.all().skip(2).collect();
    let Some(spec) = find(given[0]) else { return error(out, "Invalid command specified") };
    if spec.key_places(usize::MAX / 2).next().is_none() {
        return error(out, "The command has no key arguments");
    }
    if !spec.takes(given.len()) {
        return error(out, "Invalid number of arguments specified for command");
    }
    let places: Vec<usize> = spec.key_places(given.len()).collect();
    array(out, places.len());
    places.into_iter().for_each(|place| bulk(out, given[place]));
}

fn array(out: &mut Vec<u8>, len: usize) {
    out.push(b'*');
    number(out, len);
    out.extend_from_slice(b"\r\n");
}

fn map(out: &mut Vec<u8>, len: usize, resp3: bool) {
    match resp3 {
        false => array(out, 2 * len),
        true => {
            out.push(b'%');
            number(out, len);
            out.extend_from_slice(b"\r\n");
        }
    }
}

fn integer(out: &mut Vec<u8>, value: i64) {
    out.push(b':');
    number(out, value);
    out.extend_from_slice(b"\r\n");
}
