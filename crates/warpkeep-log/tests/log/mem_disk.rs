//! A disk in memory that knows which changes a crash could lose.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use warpkeep_log::{Disk, DiskFile};

const SECTOR: usize = 512;

#[derive(Clone, Default)]
struct Inode {
    live: Vec<u8>,
    durable: Vec<u8>,
}

#[derive(Clone)]
enum DirectoryOp {
    Create(String, u64),
    Rename(String, String, u64),
    Remove(String),
}

impl DirectoryOp {
    fn inode(&self) -> Option<u64> {
        match self {
            DirectoryOp::Create(_, inode) | DirectoryOp::Rename(_, _, inode) => Some(*inode),
            DirectoryOp::Remove(_) => None,
        }
    }
}

/// The planned failure.
#[derive(Clone, Copy, Default)]
pub(crate) enum Plan {
    #[default]
    Nothing,
    /// The call of that number fails with this error and has no effect.
    FailOnce(u64, io::ErrorKind),
    /// Every call from that number on fails; the first of them still takes effect.
    DieAt(u64),
    /// Every call that needs space fails.
    Full,
}

#[derive(Clone, Default)]
struct World {
    inodes: HashMap<u64, Inode>,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    pending: Vec<DirectoryOp>,
    next_inode: u64,
    calls: u64,
    plan: Plan,
    /// Files have no more bytes than this in all.
    capacity: Option<u64>,
    dropped_site: Option<&'static str>,
    syncs: HashMap<&'static str, u64>,
}

#[derive(Clone, Default)]
pub(crate) struct MemDisk(Arc<Mutex<World>>);

/// A small generator, so that a failure can be run again from its seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        // Neighbouring seeds must not begin alike.
        let mut dice = Dice(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (0..8).for_each(|_| _ = dice.roll());
        dice
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.roll().is_multiple_of(2)
    }
}

impl World {
    /// Counts a call that changes something; `Ok(true)`: do it; `Ok(false)`: do it, then report failure.
    fn call(&mut self, takes_space: bool) -> io::Result<bool> {
        self.calls += 1;
        match self.plan {
            Plan::FailOnce(at, kind) if self.calls == at => Err(kind.into()),
            Plan::DieAt(at) if self.calls == at => Ok(false),
            Plan::DieAt(at) if self.calls > at => Err(io::Error::other("the machine is gone")),
            Plan::Full if takes_space => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(true),
        }
    }
}

impl World {
    /// Whether a file can have this many bytes.
    fn has_room(&self, inode: u64, len: usize) -> io::Result<()> {
        let old = self.inodes[&inode].live.len();
        let more = len.saturating_sub(old) as u64;
        match self.capacity {
            Some(capacity) if more > 0 && self.used() + more > capacity => {
                Err(io::ErrorKind::StorageFull.into())
            }
            _ => Ok(()),
        }
    }

    fn used(&self) -> u64 {
        self.names.values().map(|inode| self.inodes[inode].live.len() as u64).sum()
    }
}

fn outcome(done: bool) -> io::Result<()> {
    if done { Ok(()) } else { Err(io::Error::other("the machine went away")) }
}

impl MemDisk {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    pub(crate) fn plan(&self, plan: Plan) {
        self.world().plan = plan;
    }

    /// Sets how many bytes the files may have in all.
    pub(crate) fn set_capacity(&self, capacity: u64) {
        self.world().capacity = Some(capacity);
    }

    /// As if other users took all free space.
    pub(crate) fn fill(&self) {
        let mut world = self.world();
        world.capacity = Some(world.used());
    }

    /// Sets the capacity of a disk that a crash has left: what another one had, or what is on it if that is more, because
    /// removals came back.
    pub(crate) fn set_capacity_of(&self, other: &MemDisk) {
        let capacity = other.world().capacity;
        let mut world = self.world();
        world.capacity = capacity.map(|capacity| capacity.max(world.used()));
    }

    pub(crate) fn drop_site(&self, site: &'static str) {
        self.world().dropped_site = Some(site);
    }

    pub(crate) fn calls(&self) -> u64 {
        self.world().calls
    }

    pub(crate) fn syncs(&self, site: &str) -> u64 {
        self.world().syncs.get(site).copied().unwrap_or(0)
    }

    /// The same bytes on a disk of its own, with nothing planned.
    pub(crate) fn fork(&self) -> MemDisk {
        let mut world = self.world().clone();
        world.plan = Plan::Nothing;
        let named: Vec<u64> = world.names.values().chain(world.durable_names.values()).copied().collect();
        let pending: Vec<u64> = world.pending.iter().filter_map(DirectoryOp::inode).collect();
        world.inodes.retain(|inode, _| named.contains(inode) || pending.contains(inode));
        MemDisk(Arc::new(Mutex::new(world)))
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.world().names.keys().cloned().collect()
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        let world = self.world();
        world.inodes[&world.names[name]].live.clone()
    }

    pub(crate) fn set_bytes(&self, name: &str, bytes: Vec<u8>) {
        let mut world = self.world();
        let inode = match world.names.get(name) {
            Some(&inode) => inode,
            None => {
                world.next_inode += 1;
                let inode = world.next_inode;
                world.names.insert(name.to_owned(), inode);
                inode
            }
        };
        world.inodes.insert(inode, Inode { durable: bytes.clone(), live: bytes });
    }

    pub(crate) fn delete(&self, name: &str) {
        self.world().names.remove(name);
    }

    /// The state that a power cut may leave: any subset of the sectors and of the directory's changes since
    /// they were last synced.
    pub(crate) fn power_cut(&self, dice: &mut Dice) -> MemDisk {
        let world = self.world();
        let mut names = world.durable_names.clone();
        // All, none or some: the extremes are the most likely in practice and the least likely by chance.
        let mut keep: Box<dyn FnMut() -> bool> = match dice.roll() % 4 {
            0 => Box::new(|| true),
            1 => Box::new(|| false),
            _ => {
                let mut dice = Dice::new(dice.roll());
                Box::new(move || dice.coin())
            }
        };
        for op in &world.pending {
            if !keep() {
                continue;
            }
            match op {
                DirectoryOp::Create(name, inode) => {
                    names.insert(name.clone(), *inode);
                }
                DirectoryOp::Rename(from, to, inode) => {
                    names.remove(from);
                    names.insert(to.clone(), *inode);
                }
                DirectoryOp::Remove(name) => {
                    names.remove(name);
                }
            }
        }
        let mut inodes = HashMap::new();
        for &number in names.values() {
            let inode = &world.inodes[&number];
            let len = if keep() { inode.live.len() } else { inode.durable.len() };
            let mut bytes = inode.durable.clone();
            bytes.resize(len, 0);
            for at in (0..len).step_by(SECTOR) {
                let end = (at + SECTOR).min(len).min(inode.live.len()).max(at);
                if inode.live.get(at..end) != bytes.get(at..end) && keep() {
                    bytes[at..end].copy_from_slice(&inode.live[at..end]);
                }
            }
            inodes.insert(number, Inode { durable: bytes.clone(), live: bytes });
        }
        let next_inode = world.next_inode;
        let dropped_site = world.dropped_site;
        MemDisk(Arc::new(Mutex::new(World {
            inodes,
            durable_names: names.clone(),
            names,
            next_inode,
            dropped_site,
            ..World::default()
        })))
    }
}

impl Disk for MemDisk {
    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let inode = *self.world().names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(MemFile { disk: self.clone(), inode }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut world = self.world();
        let done = world.call(true)?;
        if world.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        world.next_inode += 1;
        let inode = world.next_inode;
        world.inodes.insert(inode, Inode::default());
        world.names.insert(name.to_owned(), inode);
        world.pending.push(DirectoryOp::Create(name.to_owned(), inode));
        outcome(done)?;
        Ok(Box::new(MemFile { disk: self.clone(), inode }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut world = self.world();
        let done = world.call(true)?;
        let inode = world.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        world.names.insert(to.to_owned(), inode);
        world.pending.push(DirectoryOp::Rename(from.to_owned(), to.to_owned(), inode));
        outcome(done)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut world = self.world();
        let done = world.call(false)?;
        world.names.remove(name).ok_or(io::ErrorKind::NotFound)?;
        world.pending.push(DirectoryOp::Remove(name.to_owned()));
        outcome(done)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.names())
    }

    fn sync_dir(&self, site: &'static str) -> io::Result<()> {
        let mut world = self.world();
        let done = world.call(false)?;
        *world.syncs.entry(site).or_default() += 1;
        // A sync interrupted by the crash has done part of its work: the dice decide which part.
        if done && world.dropped_site != Some(site) {
            world.durable_names = world.names.clone();
            world.pending.clear();
        }
        outcome(done)
    }
}

struct MemFile {
    disk: MemDisk,
    inode: u64,
}

impl MemFile {
    /// Makes a change after which the file has at least `len` bytes.
    fn change(&self, len: usize, takes_space: bool, change: impl FnOnce(&mut Inode)) -> io::Result<()> {
        let mut world = self.disk.world();
        let done = world.call(takes_space)?;
        world.has_room(self.inode, len)?;
        change(world.inodes.get_mut(&self.inode).unwrap());
        outcome(done)
    }
}

impl DiskFile for MemFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.world().inodes[&self.inode].live.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let world = self.disk.world();
        let bytes = &world.inodes[&self.inode].live;
        let from = (offset as usize).min(bytes.len());
        let len = buffer.len().min(bytes.len() - from);
        buffer[..len].copy_from_slice(&bytes[from..from + len]);
        Ok(len)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let (from, to) = (offset as usize, offset as usize + bytes.len());
        let inside = to <= self.disk.world().inodes[&self.inode].live.len();
        self.change(to, !inside, |inode| {
            let len = inode.live.len().max(to);
            inode.live.resize(len, 0);
            inode.live[from..to].copy_from_slice(bytes);
        })
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.change(len as usize, true, |inode| {
            let len = inode.live.len().max(len as usize);
            inode.live.resize(len, 0);
        })
    }

    fn sync(&self, site: &'static str) -> io::Result<()> {
        let mut world = self.disk.world();
        let done = world.call(false)?;
        *world.syncs.entry(site).or_default() += 1;
        let dropped = world.dropped_site == Some(site);
        let inode = world.inodes.get_mut(&self.inode).unwrap();
        if done && !dropped {
            inode.durable = inode.live.clone();
        }
        outcome(done)
    }
}
