//! The generator's limit with a server that takes no time: requests written, answers read and checked, and nothing
//! else.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::connection::take_answers;
use super::expected::{Expected, Judge};
use super::inbox::Inbox;
use super::ledger::{Ledger, next_write};
use super::protocol::{Protocol, Requests};
use super::tally::{Tally, Window};
use super::work::{Turn, Work};
use super::{Case, Options, ServerError};

/// Requests of a turn: enough that reading the clock costs nothing.
const TURN: usize = 512;
/// Items: few, so that the ledger is near, as it is for a server's hot keys.
const ITEMS: u64 = 1 << 16;

/// Operations a second of one thread without a server, measured for as long as this.
pub(super) fn measure(
    options: &Options,
    case: Case,
    protocol: Protocol,
    time: Duration,
) -> Result<f64, ServerError> {
    let items = options.contents();
    let requests = Requests::new(protocol, &items, case.many);
    let count = options.items.min(ITEMS);
    let ledger = Ledger::new(count as usize);
    let judge = Judge {
        protocol,
        items: &items,
        ledger: &ledger,
        cache: false,
        by_sending: false,
        window: Window { from: 0, to: u64::MAX },
        address: "the generator itself",
    };
    let mut work = Work::Mix(options.mix(case, count, (0, 1), 0)?);
    let (mut expected, mut tally) = (Expected::default(), Tally::default());
    let (mut out, mut answers) = (Vec::new(), Vec::new());
    let (mut numbers, mut asked) = (Vec::new(), Vec::new());
    let (mut spent, mut write) = (Duration::ZERO, 1);
    let mut turns: Vec<(Turn, Range<usize>)> = Vec::with_capacity(TURN);
    (0..count).for_each(|number| ledger.acknowledge(number as u32, write));
    while spent < time {
        let begun = Instant::now();
        out.clear();
        turns.clear();
        asked.clear();
        for _ in 0..TURN {
            let Some(turn) = work.next(&mut numbers) else { break };
            let from = asked.len();
            match (turn, &numbers[..]) {
                (Turn::Set(number), _) => {
                    write = next_write(write);
                    requests.set(number, write, &mut out);
                    expected.set(number, write, 0);
                }
                (Turn::Get, &[number]) => {
                    requests.get(number, &mut out);
                    expected.get(number, &judge, 0);
                    asked.push(number);
                }
                (Turn::Get, numbers) => {
                    requests.get_many(numbers, &mut out);
                    expected.get_many(numbers, &judge, 0);
                    asked.extend_from_slice(numbers);
                }
            }
            turns.push((turn, from..asked.len()));
        }
        std::hint::black_box(&out);
        spent += begun.elapsed();
        answers.clear();
        for (turn, range) in &turns {
            match (turn, &asked[range.clone()]) {
                (Turn::Set(_), _) => protocol.answer_set(&mut answers),
                (Turn::Get, &[number]) => protocol.answer_get(&items, number, write, &mut answers),
                (Turn::Get, numbers) => protocol.answer_many(&items, numbers, write, &mut answers),
            }
        }
        let mut inbox = Inbox::new(answers.len() + 1);
        let begun = Instant::now();
        // Whole in memory: a read cannot fail.
        let _ = inbox.fill(&mut &answers[..]);
        take_answers(&mut inbox, &mut expected, &judge, &mut tally, begun.elapsed().as_nanos() as u64)?;
        spent += begun.elapsed();
    }
    Ok(tally.done() as f64 / spent.as_secs_f64())
}
