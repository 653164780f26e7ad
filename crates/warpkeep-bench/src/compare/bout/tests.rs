use super::*;
use crate::compare::contestant::Way;
use crate::workload::{Action, Mix};

const WORKLOAD: Workload = Workload { items: 100, key_bytes: 8, value_bytes: 32, seed: 1 };

/// Returns the same value for every key, and stores nothing.
struct Liar;

impl Contestant for Liar {
    fn name(&self) -> &str {
        "liar"
    }

    fn settings(&self) -> String {
        String::new()
    }

    fn ways(&self) -> Vec<Way> {
        vec![Way::one_by_one("")]
    }

    fn session<'a>(&'a self, _way: usize) -> Result<Box<dyn Session + 'a>, BenchError> {
        Ok(Box::new(Liar))
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        Ok(())
    }
}

impl Session for Liar {
    fn get(&mut self, numbers: &[u64], tally: &mut Tally) -> Result<(), BenchError> {
        let mut value = [0; 32];
        WORKLOAD.write_value(7, 0, &mut value);
        numbers.iter().for_each(|&number| tally.see(&WORKLOAD, number, Some(&value)));
        Ok(())
    }

    fn put(&mut self, _numbers: &[u64], _generation: u64) -> Result<(), BenchError> {
        Ok(())
    }

    fn delete(&mut self, numbers: &[u64], tally: &mut Tally) -> Result<(), BenchError> {
        numbers.iter().for_each(|number| tally.note(number.is_multiple_of(2)));
        Ok(())
    }

    fn mix(
        &mut self,
        numbers: &[u64],
        actions: &[Action],
        _generation: u64,
        tally: &mut Tally,
    ) -> Result<(), BenchError> {
        // Half of the keys are not found.
        let mut value = [0; 32];
        for (&number, _) in numbers.iter().zip(actions).filter(|(_, action)| **action != Action::Put) {
            WORKLOAD.write_value(number, 0, &mut value);
            tally.see_there(&WORKLOAD, number, number.is_multiple_of(2).then_some(&value));
        }
        Ok(())
    }

    fn value(&mut self, number: u64) -> Result<Option<Vec<u8>>, BenchError> {
        let mut value = vec![0; 32];
        WORKLOAD.write_value(number, 0, &mut value);
        // Whole only if it is a multiple of four.
        value[16] ^= u8::from(!number.is_multiple_of(4));
        Ok(number.is_multiple_of(2).then_some(value))
    }
}

fn bout() -> Bout<'static> {
    Bout {
        contestant: &Liar,
        way: 0,
        workload: &WORKLOAD,
        distribution: Distribution::Uniform,
        threads: 2,
        block: 256,
        time: Duration::ZERO,
        operations: None,
        stream: 1,
        generation: 0,
    }
}

fn wrong<T>(result: Result<T, BenchError>) -> u64 {
    match result {
        Err(BenchError::WrongAnswers { wrong, .. }) => wrong,
        Err(other) => panic!("{other}"),
        Ok(_) => 0,
    }
}

#[test]
fn every_wrong_answer_is_noticed() {
    let bout = bout();
    let ranges = [100..110, 110..120];
    let run = |task| bout.run(Work::Task(task), &ranges);
    // A block a thread; the right value for the one item it is of.
    let sevens =
        |thread: u64| WORKLOAD.draws((1 << 10) + thread).take(256).filter(|&number| number == 7).count();
    let expected = 512 - (sevens(0) + sevens(1)) as u64;
    assert_eq!(wrong(run(Task::Hit)), expected);
    // Found, but with another key's value.
    assert_eq!(wrong(run(Task::Miss)), 1024);
    assert_eq!(wrong(run(Task::Delete)), 10);
    let inserted = run(Task::Insert).expect("it says so");
    assert_eq!(inserted.done, ranges);
    assert_eq!(inserted.sample, (100..120).collect::<Vec<_>>());
    assert_eq!(wrong(bout.check(Work::Task(Task::Insert), &inserted.sample)), 15);
    assert_eq!(wrong(bout.check(Work::Task(Task::Delete), &inserted.sample)), 10);
    assert_eq!(wrong(bout.check(Work::Task(Task::Hit), &[4, 8])), 0);
    // Torn, and not there.
    assert_eq!(wrong(bout.check(Work::Mix(Mix::A), &[4, 6, 7])), 2);
}

#[test]
fn wrong_answers_in_mixes_and_traces_are_noticed_too() {
    for work in [Work::Mix(Mix::A), Work::Mix(Mix::F), Work::PageRank, Work::Mix(Mix::D)] {
        let script = |thread| {
            let part = Part { stream: 1, thread, threads: 2 };
            Script::draw(work, &WORKLOAD, work.distribution(None), part, 256).expect("a script")
        };
        let bout = Bout { distribution: work.distribution(None), ..bout() };
        let ranges = [100..200, 200..300];
        let mut expected = 0;
        for (thread, range) in ranges.iter().enumerate() {
            let mut feed = bout.feed(work, thread, range.clone()).expect("a feed");
            let block = feed.next(256);
            assert_eq!(block.actions, script(thread).actions);
            let reads = block.numbers.iter().zip(block.actions).filter(|(_, action)| **action != Action::Put);
            expected += reads.filter(|(number, _)| !number.is_multiple_of(2)).count() as u64;
        }
        assert!(expected > 50, "{}", work.name());
        assert_eq!(wrong(bout.run(work, &ranges)), expected, "{}", work.name());
    }
    // Pure reads get the same answers as gets.
    for work in [Work::Mix(Mix::C), Work::Dlrm] {
        let workload = Workload { items: 1000, ..WORKLOAD };
        let bout = Bout { distribution: Distribution::Zipfian(0.5), workload: &workload, ..bout() };
        assert!(wrong(bout.run(work, &[])) > 400, "{}", work.name());
    }
}

#[test]
fn so_many_operations_if_they_are_counted() {
    let bout = Bout { operations: Some(1001), threads: 2, ..bout() };
    let outcome = bout.run(Work::Task(Task::Update), &[]).expect("a liar never minds");
    assert_eq!(outcome.operations, 1002);
    assert_eq!(outcome.latencies.count(), 4);
    let deleted = Bout { operations: Some(3), ..bout };
    assert_eq!(wrong(deleted.run(Work::Task(Task::Delete), &[0..100, 100..200])), 100);
}
