//! A store with all items, served in memory.

use tempfile::TempDir;
use warpkeep::{DeviceIndex, Store, StoreOptions};
use warpkeep_device::DeviceChoice;
use warpkeep_server::{MemoryServer, Settings};

use super::Site;
use crate::server::Contents;
use crate::workload::Workload;
use crate::{Amount, BenchError};

/// Clients that load.
const LOADERS: usize = 16;
/// Requests of a client that loads, at a time.
const LOADED: usize = 256;

/// Which index finds the keys of gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Index {
    /// The table's own, searched by the CPU.
    Cpu,
    /// The table's own, searched by kernels.
    InImage,
    /// Mega-KV's, in the device's memory.
    Cuckoo,
}

/// A store with all items, served in memory.
pub(super) struct Contestant {
    pub(super) name: String,
    pub(super) contents: Contents,
    items: u64,
    // Before the directories that it lies in.
    store: Store,
    _image: TempDir,
    _directory: TempDir,
}

impl Contestant {
    /// Stores all items, through the server.
    pub(super) fn load(site: &Site<'_>, index: Index, workload: Workload) -> Result<Contestant, BenchError> {
        let (name, device, device_index) = match (index, site.options.device) {
            (Index::Cpu, _) => ("CPU index".to_owned(), DeviceChoice::Cpu, DeviceIndex::default()),
            (Index::InImage, device) => {
                (format!("index in the image, {device}"), device, DeviceIndex::InImage)
            }
            (Index::Cuckoo, device) => (format!("cuckoo index, {device}"), device, DeviceIndex::Cuckoo),
        };
        let (directory, image) = (site.scratch.fresh_disk()?, site.scratch.fresh_image()?);
        let options = StoreOptions {
            image: Some(image.path().join("image")),
            // The paper's store has none.
            without_log: true,
            device,
            device_index,
            ..StoreOptions::default()
        };
        let store = Store::open_with(directory.path().join("store"), options)?;
        let contents = Contents::new(name.clone(), workload);
        let items = workload.items;
        let contestant = Contestant { name, contents, items, store, _image: image, _directory: directory };
        contestant.fill(site)?;
        Ok(contestant)
    }

    /// A server of its items.
    pub(super) fn server(&self, settings: Settings) -> Result<MemoryServer<'_>, BenchError> {
        Ok(MemoryServer::new(&self.store, settings)?)
    }

    /// This number of clients for each thread, or fewer: every client writes items of its own.
    pub(super) fn clients(&self, wanted: usize, threads: usize) -> usize {
        wanted.clamp(1, (self.items as usize / threads).max(1))
    }

    fn fill(&self, site: &Site<'_>) -> Result<(), BenchError> {
        site.progress.begin(&format!("{}: storing keys", self.name), Amount::Count(self.items));
        let server = self.server(Settings { capacity: self.items, ..Settings::default() })?;
        let mut worker = server.worker();
        let numbers: Vec<usize> = (0..LOADERS).map(|_| worker.connect()).collect();
        let mut loaders = self.contents.loaders(LOADERS);
        let mut requests = Vec::new();
        loop {
            site.progress.check()?;
            let mut sent = 0;
            for (client, &number) in numbers.iter().enumerate() {
                requests.clear();
                sent += (0..LOADED).map(|_| loaders.request(client, 0, &mut requests)).sum::<usize>();
                worker.send(number, &requests);
            }
            if sent == 0 {
                break;
            }
            while loaders.outstanding() > 0 && worker.turn()? > 0 {
                for (client, &number) in numbers.iter().enumerate() {
                    loaders.check(client, worker.answers(number), 0)?;
                    worker.take_answers(number);
                }
            }
            site.progress.advance(sent as u64);
        }
        site.progress.finish();
        match loaders.outstanding() {
            0 => Ok(()),
            left => Err(BenchError::Wrong(format!("{}: {left} requests have no answer", self.name))),
        }
    }
}
