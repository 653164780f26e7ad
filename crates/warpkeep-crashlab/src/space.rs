//! All states that a crash at one point could leave: the things at risk, and the possible state of each.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use crate::disk::DiskImage;
use crate::hash;
use crate::model::{Crash, LINE, MemoryModel, SECTOR};
use crate::world::{
    Content, FileState, MemoryState, NameChange, Names, PendingStore, World, file_hash, put, sector_hash,
};

/// More sets of surviving name changes than this are not listed; their prefixes are.
const MOST_NAME_SETS: usize = 256;

/// A thing at risk. Choice 0 is its durable state; choice `n` is step `n - 1`.
struct Item {
    target: Target,
    steps: Vec<Step>,
}

enum Target {
    /// A cache line; a step is a number of stores that survived.
    Line(u64),
    /// A word; a step is a value.
    Word(u64),
    /// A step is a length.
    MemoryLength,
    /// A step is the number of a version.
    Sector { file: u64, index: u64 },
    /// A step is a length.
    FileLength { file: u64 },
    /// Name changes that hang together; a step is the index of a set of them.
    Names { sets: Vec<Vec<u32>> },
}

#[derive(Clone, Copy)]
struct Step {
    value: u64,
    /// By how much it changes the hash of the durable state.
    hash: u64,
}

/// The possible outcomes of a crash.
pub(crate) struct Space {
    crash: Crash,
    items: Vec<Item>,
    counts: Vec<u32>,
    memory: Range<usize>,
    memory_length: Option<usize>,
    /// By file: its length, its sectors.
    files: BTreeMap<u64, (Option<usize>, Range<usize>)>,
    names: Range<usize>,
}

impl Space {
    pub(crate) fn new(world: &World, crash: Crash) -> Space {
        let mut items = Vec::new();
        let mut memory_length = None;
        if let (Some(memory), Crash::PowerPersistent(model)) = (&world.memory, crash) {
            for (line, stores) in memory.pending() {
                match model {
                    MemoryModel::X86Lines => items.extend(line_item(memory, line, stores)),
                    MemoryModel::Words => items.extend(word_items(memory, stores)),
                }
            }
        }
        let memory = 0..items.len();
        let mut files = BTreeMap::new();
        let mut names = items.len()..items.len();
        if let (Some(memory), Crash::PowerPersistent(_)) = (&world.memory, crash) {
            let steps = memory.lengths()[1..].iter();
            let steps: Vec<Step> = steps.map(|&value| Step { value, hash: 0 }).collect();
            if !steps.is_empty() {
                memory_length = Some(items.len());
                items.push(Item { target: Target::MemoryLength, steps });
            }
        }
        if crash.is_power() {
            for (&number, file) in &world.files.files {
                files.insert(number, file_items(number, file, &mut items));
            }
            let first = items.len();
            items.extend(name_items(&world.files.pending));
            names = first..items.len();
        }
        let counts = items.iter().map(|item| item.steps.len() as u32 + 1).collect();
        Space { crash, items, counts, memory, memory_length, files, names }
    }

    /// How many choices there are for each thing at risk.
    pub(crate) fn counts(&self) -> &[u32] {
        &self.counts
    }

    pub(crate) fn crash(&self) -> Crash {
        self.crash
    }

    /// The hash of the state that these choices give, without building it.
    pub(crate) fn hash(&self, world: &World, choices: &[u32]) -> u64 {
        let memory = self.memory_hash(world, choices);
        let mut sum = 0;
        for (name, number) in &*self.chosen_names(world, choices) {
            let Some(file) = world.files.files.get(number) else { continue };
            sum ^= hash::of((name, self.file_hash(*number, file, choices)));
        }
        hash::of((memory, sum))
    }

    /// How long the memory is; `None` if it is lost, or has not been made yet.
    pub(crate) fn memory_len(&self, world: &World, choices: &[u32]) -> Option<u64> {
        let memory = world.memory.as_ref()?;
        match self.crash {
            Crash::Process => Some(memory.live().len() as u64),
            Crash::PowerVolatile => None,
            Crash::PowerPersistent(_) => {
                Some(match self.memory_length.and_then(|item| self.step(item, choices)) {
                    Some(step) => step.value,
                    None => memory.lengths()[0],
                })
            }
        }
    }

    /// Writes the surviving memory into bytes of just its length.
    pub(crate) fn fill_memory(&self, world: &World, choices: &[u32], bytes: &mut [u8]) {
        let Some(memory) = &world.memory else { return };
        let from = if self.crash.is_power() { memory.durable() } else { memory.live() };
        bytes.copy_from_slice(&from[..bytes.len()]);
        let len = bytes.len() as u64;
        for index in self.memory.clone() {
            let Some(step) = self.step(index, choices) else { continue };
            match self.items[index].target {
                Target::Line(line) if line * LINE < len => {
                    let stores = memory.pending_in(line);
                    for store in &stores[..step.value as usize] {
                        put(bytes, store.offset, store.value);
                    }
                }
                Target::Word(offset) if offset < len => put(bytes, offset, step.value),
                _ => {}
            }
        }
    }

    /// The surviving files.
    pub(crate) fn disk(&self, world: &World, choices: &[u32]) -> DiskImage {
        let mut image = DiskImage { next_file: world.files.next_file, ..DiskImage::default() };
        for (name, number) in &*self.chosen_names(world, choices) {
            let Some(file) = world.files.files.get(number) else { continue };
            image.files.insert(Arc::clone(name), (*number, self.content(*number, file, choices)));
        }
        image
    }

    /// Describes the surviving state: by the things that survived or by those that did not, whichever are fewer.
    pub(crate) fn describe(&self, choices: &[u32]) -> String {
        let newest = |index: &usize| choices[*index] + 1 == self.counts[*index];
        let (new, rest): (Vec<usize>, Vec<usize>) = (0..self.items.len()).partition(newest);
        let mut text = self.crash.to_string();
        if self.items.is_empty() {
            return text;
        }
        let count = self.items.len();
        if rest.is_empty() || choices.iter().all(|&choice| choice == 0) {
            let which = if rest.is_empty() { "newest" } else { "oldest" };
            let _ = write!(text, "; things at risk: {count}, all at their {which}");
            return text;
        }
        let (named, others) = if new.len() < rest.len() { (new, "not newest") } else { (rest, "newest") };
        let _ = write!(text, "; things at risk: {count}");
        for &index in named.iter().take(12) {
            let _ =
                write!(text, ", {} at {} of {}", self.name(index), choices[index], self.counts[index] - 1);
        }
        if named.len() > 12 {
            let _ = write!(text, ", {} more like these", named.len() - 12);
        }
        if named.len() < count {
            let _ = write!(text, ", the others {others}");
        }
        text
    }

    fn name(&self, index: usize) -> String {
        match &self.items[index].target {
            Target::Line(line) => format!("line {:#x}", line * LINE),
            Target::Word(offset) => format!("word {offset:#x}"),
            Target::MemoryLength => "the memory's length".into(),
            Target::Sector { file, index } => format!("sector {index} of file {file}"),
            Target::FileLength { file } => format!("the length of file {file}"),
            Target::Names { .. } => "names".into(),
        }
    }

    fn step(&self, index: usize, choices: &[u32]) -> Option<Step> {
        let choice = choices[index].checked_sub(1)?;
        Some(self.items[index].steps[choice as usize])
    }

    /// The length and the hash of the surviving memory.
    pub(crate) fn memory_hash(&self, world: &World, choices: &[u32]) -> Option<(u64, u64)> {
        let memory = world.memory.as_ref()?;
        let len = self.memory_len(world, choices)?;
        if self.crash == Crash::Process {
            return Some((len, memory.live_hash()));
        }
        let survives = |index: &usize| match self.items[*index].target {
            Target::Line(line) => line * LINE < len,
            Target::Word(offset) => offset < len,
            _ => false,
        };
        let steps = self.memory.clone().filter(survives).filter_map(|index| self.step(index, choices));
        Some((len, steps.fold(memory.durable_hash(len), |sum, step| sum ^ step.hash)))
    }

    fn chosen_names<'w>(&self, world: &'w World, choices: &[u32]) -> std::borrow::Cow<'w, Names> {
        use std::borrow::Cow;
        if !self.crash.is_power() {
            return Cow::Borrowed(&world.files.names);
        }
        let mut chosen: Vec<u32> = Vec::new();
        for index in self.names.clone() {
            if let (Some(step), Target::Names { sets }) =
                (self.step(index, choices), &self.items[index].target)
            {
                chosen.extend(&sets[step.value as usize]);
            }
        }
        if chosen.is_empty() {
            return Cow::Borrowed(&world.files.durable_names);
        }
        chosen.sort_unstable();
        let mut names = world.files.durable_names.clone();
        for change in chosen {
            world.files.pending[change as usize].apply(&mut names);
        }
        Cow::Owned(names)
    }

    fn file_len(&self, number: u64, file: &FileState, choices: &[u32]) -> u64 {
        let item = self.files.get(&number).and_then(|(length, _)| *length);
        item.and_then(|item| self.step(item, choices)).map_or(file.durable.len(), |step| step.value)
    }

    /// The sectors of a file that did not stay as they were on disk, cut to its length.
    fn surviving_sectors<'w>(
        &'w self,
        number: u64,
        file: &'w FileState,
        len: u64,
        choices: &'w [u32],
    ) -> impl Iterator<Item = (u64, &'w [u8], Step)> {
        let range = self.files.get(&number).map_or(0..0, |(_, sectors)| sectors.clone());
        range.filter_map(move |item| {
            let Target::Sector { index, .. } = self.items[item].target else { return None };
            let step = self.step(item, choices).filter(|_| index * SECTOR < len)?;
            let bytes = &file.pending.get(&index)?.versions[step.value as usize];
            Some((index, &bytes[..(len - index * SECTOR).min(SECTOR) as usize], step))
        })
    }

    fn file_hash(&self, number: u64, file: &FileState, choices: &[u32]) -> u64 {
        if self.crash == Crash::Process {
            return file.live.hash();
        }
        let len = self.file_len(number, file, choices);
        let mut sum = if len == file.durable.len() {
            file.durable.sum()
        } else {
            (0..len.div_ceil(SECTOR)).fold(0, |sum, index| sum ^ file.durable_sector_hash(index, len))
        };
        for (index, bytes, step) in self.surviving_sectors(number, file, len, choices) {
            let (old, new) = if bytes.len() as u64 == SECTOR && (index + 1) * SECTOR <= file.durable.len() {
                (0, step.hash)
            } else {
                (file.durable_sector_hash(index, len), sector_hash(index, bytes))
            };
            sum ^= old ^ new;
        }
        file_hash(len, sum)
    }

    fn content(&self, number: u64, file: &FileState, choices: &[u32]) -> Content {
        if self.crash == Crash::Process {
            return file.live.clone();
        }
        let len = self.file_len(number, file, choices);
        let mut content = file.durable.clone();
        content.resize(len);
        for (index, bytes, _) in self.surviving_sectors(number, file, len, choices) {
            content.write(index * SECTOR, bytes);
        }
        content
    }
}

/// A line's prefixes of stores; those that change nothing are not choices.
fn line_item(memory: &MemoryState, line: u64, stores: &[PendingStore]) -> Option<Item> {
    let mut words: Vec<(u64, u64)> = Vec::with_capacity(8);
    let (mut steps, mut delta) = (Vec::new(), 0);
    for (index, store) in stores.iter().enumerate() {
        let slot = match words.iter().position(|(offset, _)| *offset == store.offset) {
            Some(slot) => slot,
            None => {
                words.push((store.offset, memory.durable_word(store.offset)));
                words.len() - 1
            }
        };
        let old = std::mem::replace(&mut words[slot].1, store.value);
        if old != store.value {
            delta ^= hash::word(store.offset, old) ^ hash::word(store.offset, store.value);
            steps.push(Step { value: index as u64 + 1, hash: delta });
        }
    }
    (!steps.is_empty()).then_some(Item { target: Target::Line(line), steps })
}

/// The values of each word of a line.
fn word_items(memory: &MemoryState, stores: &[PendingStore]) -> Vec<Item> {
    let mut words: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for store in stores {
        let values = words.entry(store.offset).or_default();
        // The newest value comes last, so that "everything survived" is the state before the crash.
        values.retain(|&value| value != store.value);
        values.push(store.value);
    }
    let items = words.into_iter().filter_map(|(offset, values)| {
        let durable = memory.durable_word(offset);
        let base = hash::word(offset, durable);
        if values.last() == Some(&durable) && values.len() > 1 {
            // Back at the durable value: it is both the oldest and the newest, and is listed as both.
            let steps = values.iter().map(|&value| Step { value, hash: base ^ hash::word(offset, value) });
            return Some(Item { target: Target::Word(offset), steps: steps.collect() });
        }
        let changed = values.into_iter().filter(|&value| value != durable);
        let steps: Vec<Step> =
            changed.map(|value| Step { value, hash: base ^ hash::word(offset, value) }).collect();
        (!steps.is_empty()).then_some(Item { target: Target::Word(offset), steps })
    });
    items.collect()
}

fn file_items(number: u64, file: &FileState, items: &mut Vec<Item>) -> (Option<usize>, Range<usize>) {
    let steps: Vec<Step> = file.lengths.iter().map(|&value| Step { value, hash: 0 }).collect();
    let length = (!steps.is_empty()).then_some(items.len());
    if length.is_some() {
        items.push(Item { target: Target::FileLength { file: number }, steps });
    }
    let first = items.len();
    for (&index, sector) in &file.pending {
        let durable = file.durable.sector(index);
        let base = file.durable.sector_hash(index);
        let mut steps: Vec<Step> = Vec::new();
        let mut last: &[u8; SECTOR as usize] = &durable;
        for (value, version) in sector.versions.iter().enumerate() {
            if **version != *last {
                last = version;
                steps.push(Step { value: value as u64, hash: base ^ sector_hash(index, &version[..]) });
            }
        }
        if !steps.is_empty() {
            items.push(Item { target: Target::Sector { file: number, index }, steps });
        }
    }
    (length, first..items.len())
}

/// Groups changes that share names, directly or through others, and lists the sets that can survive of each.
fn name_items(pending: &[NameChange]) -> Vec<Item> {
    let mut groups: Vec<Vec<u32>> = Vec::new();
    for (index, change) in pending.iter().enumerate() {
        let touches =
            |group: &Vec<u32>| group.iter().any(|&other| pending[other as usize].shares_a_name(change));
        let (mut joined, apart): (Vec<_>, Vec<_>) = groups.into_iter().partition(touches);
        let mut group: Vec<u32> = joined.drain(..).flatten().collect();
        group.push(index as u32);
        group.sort_unstable();
        groups = apart;
        groups.push(group);
    }
    groups.sort_unstable();
    let items = groups.into_iter().map(|group| {
        let sets = name_sets(pending, &group);
        let steps = (1..sets.len() as u64).map(|value| Step { value, hash: 0 }).collect();
        Item { target: Target::Names { sets }, steps }
    });
    items.collect()
}

/// Every set of changes in which each has with it all earlier ones that share a name; the empty set first, all
/// of them last.
fn name_sets(pending: &[NameChange], group: &[u32]) -> Vec<Vec<u32>> {
    let mut sets: Vec<Vec<u32>> = vec![Vec::new()];
    for (place, &index) in group.iter().enumerate() {
        let needed: Vec<u32> = group[..place]
            .iter()
            .copied()
            .filter(|&other| pending[other as usize].shares_a_name(&pending[index as usize]))
            .collect();
        let longer = sets.iter().filter(|set| needed.iter().all(|other| set.contains(other)));
        let longer: Vec<Vec<u32>> = longer.map(|set| set.iter().copied().chain([index]).collect()).collect();
        sets.extend(longer);
        if sets.len() > MOST_NAME_SETS {
            return (0..=group.len()).map(|len| group[..len].to_vec()).collect();
        }
    }
    sets
}
