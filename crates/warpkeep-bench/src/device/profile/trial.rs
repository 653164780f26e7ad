//! Batches of one size under one setting, timed and checked.

use std::time::Duration;

use warpkeep::{Durability, HostGetStrategy};
use warpkeep_core::Op;
use warpkeep_gphash::gpu::DeviceProfile;

use super::super::library::Library;
use super::super::{Expected, Pool, Rig, Strategy, Variant};
use super::ProfileOptions;
use super::threshold::Pair;
use crate::limits::median;
use crate::report::{Report, Unit};
use crate::{BenchError, Progress};

/// Batches of writes in a round, at the most.
const MOST_WRITES: u32 = 8;

/// What a batch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Gets with keys and values in device memory.
    Get,
    /// The same without values.
    Locate,
    /// Gets from host memory to host memory.
    HostGet,
    /// The same with keys and values in pinned memory.
    PinnedGet,
    /// Updates with keys and values in device memory.
    Update,
    /// Updates from host memory.
    HostUpdate,
}

/// A change of the profile, or a strategy, that is compared with others.
pub(super) struct Setting {
    name: String,
    change: Box<dyn Fn(&mut DeviceProfile)>,
    gets: Option<HostGetStrategy>,
}

impl Setting {
    /// A change of the profile.
    pub(super) fn change(name: impl Into<String>, change: impl Fn(&mut DeviceProfile) + 'static) -> Setting {
        Setting { name: name.into(), change: Box::new(change), gets: None }
    }

    /// A strategy of gets from host memory.
    pub(super) fn host_gets(name: &str, gets: HostGetStrategy) -> Setting {
        Setting::change(name, |_| ()).with_host_gets(gets)
    }

    /// The same change, with a strategy of gets from host memory.
    pub(super) fn with_host_gets(self, gets: HostGetStrategy) -> Setting {
        Setting { gets: Some(gets), ..self }
    }
}

/// The loaded tables, and the profile as far as it is known.
pub(super) struct Trials<'t> {
    pub(super) options: &'t ProfileOptions,
    pub(super) rig: Rig,
    pub(super) library: Library,
    pub(super) pool: Pool,
    pub(super) profile: DeviceProfile,
    pub(super) generation: u64,
    pub(super) progress: &'t dyn Progress,
}

impl Trials<'_> {
    /// The times of two settings by batch size. Settings alternate, so that a drift of the machine affects both.
    pub(super) fn compare(
        &mut self,
        field: &str,
        work: Work,
        sizes: &[usize],
        [below, above]: [Setting; 2],
        report: &mut Report,
    ) -> Result<Vec<Pair>, BenchError> {
        let settings = [below, above];
        let pair = |&batch: &usize| {
            let times = self.times(field, work, batch, &settings, report)?;
            Ok(Pair { batch, below: times[0], above: times[1] })
        };
        sizes.iter().map(pair).collect()
    }

    /// The place of the fastest of some settings at one batch size.
    pub(super) fn fastest(
        &mut self,
        field: &str,
        work: Work,
        batch: usize,
        settings: &[Setting],
        report: &mut Report,
    ) -> Result<usize, BenchError> {
        let times = self.times(field, work, batch, settings, report)?;
        Ok((0..times.len()).min_by_key(|&place| times[place]).unwrap_or(0))
    }

    fn times(
        &mut self,
        field: &str,
        work: Work,
        batch: usize,
        settings: &[Setting],
        report: &mut Report,
    ) -> Result<Vec<Duration>, BenchError> {
        let case = format!("{field}, batches of {batch}");
        if work == Work::HostUpdate {
            // A checkpoint: the log must not fill the disk.
            self.library.use_durability(Durability::Process)?;
        }
        let mut micros = vec![Vec::new(); settings.len()];
        for round in 0..self.options.rounds {
            for (setting, micros) in settings.iter().zip(&mut micros) {
                self.apply(setting)?;
                let took = self.time(work, batch, round)?.as_secs_f64() * 1e6;
                report.add(&case, &setting.name, round, "time of a batch", Unit::Micros, took);
                micros.push(took);
            }
        }
        self.progress.advance(1);
        Ok(micros.iter().map(|micros| Duration::from_secs_f64(median(micros) * 1e-6)).collect())
    }

    fn apply(&self, setting: &Setting) -> Result<(), BenchError> {
        let mut profile = self.profile;
        (setting.change)(&mut profile);
        self.rig.engine.adjust(|current| *current = profile);
        self.library.use_profile(profile)?;
        self.library.use_strategy(setting.gets)
    }

    /// The mean time of a batch. The first batch of a setting allocates what later ones use, and does not count.
    fn time(&mut self, work: Work, batch: usize, round: u32) -> Result<Duration, BenchError> {
        self.library.use_pinned(work == Work::PinnedGet);
        let (mut busy, mut batches, mut turn) = (Duration::ZERO, 0, round as usize * 7);
        self.batch(work, batch, turn)?;
        let most = if matches!(work, Work::Update | Work::HostUpdate) { MOST_WRITES } else { u32::MAX };
        while batches == 0 || (busy < self.options.round_time && batches < most) {
            self.progress.check()?;
            turn += 1;
            busy += self.batch(work, batch, turn)?;
            batches += 1;
        }
        Ok(busy / batches)
    }

    /// One batch, whose answers are checked.
    fn batch(&mut self, work: Work, batch: usize, turn: usize) -> Result<Duration, BenchError> {
        let Trials { rig, library, pool, generation, .. } = self;
        let parts = [pool.batch(turn, batch)];
        match work {
            Work::Get | Work::Locate => {
                let with_values = work == Work::Get;
                let variant = Variant { strategy: Strategy::Index, share: 0.0 };
                let took = rig.look_up(variant, pool, &parts, with_values)?;
                let expected = if with_values { Expected::Whole } else { Expected::There };
                rig.check(pool, &parts, expected)?;
                Ok(took)
            }
            Work::HostGet | Work::PinnedGet => {
                let took = library.get(pool.keys(), &parts[0])?;
                library.check(&pool.numbers[parts[0].clone()], Expected::Whole)?;
                Ok(took)
            }
            Work::Update => {
                *generation += 1;
                let numbers = &pool.numbers[parts[0].clone()];
                let written = rig.write_fused(Op::Update, &[numbers], *generation)?;
                Ok(written[0].whole)
            }
            Work::HostUpdate => {
                *generation += 1;
                library.write(Op::Update, &pool.numbers[parts[0].clone()], *generation)
            }
        }
    }
}
