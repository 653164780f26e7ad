//! The memory image of Warpkeep: a named file of bytes that outlives the process, and the heap inside it.

mod backing;
mod check;
mod coherent;
mod error;
mod heap;
mod hold;
mod holder;
mod image;
mod layout;
mod limits;
mod lock;
mod mapping;
mod memory;
mod open;
mod pages;
mod pending;
mod persist;
mod placement;
mod process;
mod region;
mod settled;
mod state;
mod static_header;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use backing::Backing;
pub use coherent::Coherent;
pub use crossbeam_epoch::Guard;
pub use error::ImageError;
pub use heap::{
    Block, Blocks, ClassUsage, Clear, Clearing, Epochs, Heap, HeapOptions, HeapUsage, MAX_BLOCK, MIN_BLOCK,
    Marker, PoolId, Purpose, Tile, Vacate, size_class,
};
pub use hold::ImageHold;
pub use holder::{Holder, boot_id, wait_until_gone};
pub use image::{Attached, Attachment, Format, Image, Surroundings};
pub use layout::{DEFAULT_CHUNK, FORMAT_VERSION, MAX_CHUNK, MIN_CHUNK, PENDING_COUNT, ROOT_COUNT};
pub use mapping::{Access, FileIdentity, MapOptions, MappedFile};
pub use memory::PlainMemory;
pub use open::{CreateOptions, OpenOptions, fill_random, store_id_of};
pub use pages::{HugePages, PageReport};
pub use pending::Pending;
pub use persist::Persist;
pub use placement::{Domain, Medium, Placement, Survival};
pub use process::Owner;
pub use state::{Identity, LastUse};
pub use static_header::StaticHeader;
#[cfg(target_arch = "x86_64")]
pub use x86::WriteBack;
