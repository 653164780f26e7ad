//! The workload by itself: draws keys, makes values and checks them, without a contestant. Every other figure
//! includes this cost.

use crate::BenchError;
use crate::compare::contestant::{Contestant, Session, Tally, Way};
use crate::workload::{Action, Workload};

pub(crate) struct Alone {
    pub(crate) workload: Workload,
}

impl Contestant for Alone {
    fn name(&self) -> &str {
        super::ALONE
    }

    fn settings(&self) -> String {
        "draws numbers, makes keys and values and checks them, and calls no store: every other figure contains this cost".to_owned()
    }

    fn ways(&self) -> Vec<Way> {
        vec![Way { has_latency: false, ..Way::one_by_one("") }]
    }

    fn holds_items(&self) -> bool {
        false
    }

    fn session<'a>(&'a self, _way: usize) -> Result<Box<dyn Session + 'a>, BenchError> {
        let (key, value) = (vec![0; self.workload.key_bytes], vec![0; self.workload.value_bytes]);
        Ok(Box::new(NoStore { workload: &self.workload, key, value }))
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        Ok(())
    }
}

struct NoStore<'a> {
    workload: &'a Workload,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl NoStore<'_> {
    #[inline]
    fn make_key(&mut self, number: u64) {
        self.workload.write_key(number, &mut self.key);
        std::hint::black_box(&self.key);
    }
}

impl Session for NoStore<'_> {
    fn get(&mut self, numbers: &[u64], tally: &mut Tally) -> Result<(), BenchError> {
        for &number in numbers {
            self.make_key(number);
            // Checked like the other contestants' answers; the answer itself is not made here.
            std::hint::black_box(self.workload.is_of(number, &self.value));
            tally.note(!Workload::is_absent(number));
        }
        Ok(())
    }

    fn put(&mut self, numbers: &[u64], generation: u64) -> Result<(), BenchError> {
        for &number in numbers {
            self.make_key(number);
            self.workload.write_value(number, generation, &mut self.value);
            std::hint::black_box(&self.value);
        }
        Ok(())
    }

    fn delete(&mut self, numbers: &[u64], tally: &mut Tally) -> Result<(), BenchError> {
        for &number in numbers {
            self.make_key(number);
            tally.note(true);
        }
        Ok(())
    }

    fn mix(
        &mut self,
        numbers: &[u64],
        actions: &[Action],
        generation: u64,
        tally: &mut Tally,
    ) -> Result<(), BenchError> {
        for (number, action) in numbers.iter().zip(actions) {
            let number = std::slice::from_ref(number);
            match action {
                Action::Get => self.get(number, tally)?,
                Action::Put => self.put(number, generation)?,
                Action::Modify => {
                    self.get(number, tally)?;
                    self.workload.modify(number[0], &mut self.value);
                    std::hint::black_box(&self.value);
                }
            }
        }
        Ok(())
    }

    fn value(&mut self, _number: u64) -> Result<Option<Vec<u8>>, BenchError> {
        Ok(None)
    }
}
