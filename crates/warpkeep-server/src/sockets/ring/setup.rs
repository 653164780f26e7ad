//! Sets up a ring with the fastest features that the kernel has.

use std::io;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use io_uring::{Builder, IoUring, cqueue, squeue};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use slab::Slab;

use super::lent::Lent;
use super::{Ring, Uring};

/// Requests submitted at a time; more take several calls. Tests have few, so that this happens.
const REQUESTS: u32 = if cfg!(test) { 16 } else { 1024 };
/// Completions that may wait to be looked at; the kernel keeps more by itself.
const COMPLETIONS: u32 = if cfg!(test) { 32 } else { 8192 };

type Make = fn(&mut Builder<squeue::Entry, cqueue::Entry>);

/// From the features of new kernels to those of all usable kernels.
const WAYS: [Make; 3] = [
    // Completions are gathered when the thread asks for them, and only this thread submits: Linux 6.1.
    |builder| {
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_submit_all();
    },
    // No thread is interrupted for a completion: Linux 5.19.
    |builder| {
        builder.setup_coop_taskrun().setup_taskrun_flag().setup_submit_all();
    },
    |_| {},
];

impl Ring {
    /// A ring without sockets, for the thread that first waits for it.
    pub(in crate::sockets) fn new() -> io::Result<Ring> {
        let uring = make()?;
        let features = uring.params();
        if !features.is_feature_ext_arg()
            || !features.is_feature_nodrop()
            || !features.is_feature_skip_cqe_on_success()
        {
            return Err(Errno::INVAL.into());
        }
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        // SAFETY: the ring's drop frees the memory only when no request is left.
        let lent = unsafe { Lent::to(&uring.submitter()) }?;
        Ok(Ring {
            uring: ManuallyDrop::new(Uring(uring)),
            lent: ManuallyDrop::new(lent),
            channels: ManuallyDrop::new(Slab::new()),
            places: Vec::new(),
            bell,
            bell_is_watched: false,
            is_enabled: false,
            to_send: Vec::new(),
            to_receive: Vec::new(),
            to_keep: Vec::new(),
            leaving: Vec::new(),
            silent: Vec::new(),
            spare: Vec::new(),
        })
    }
}

fn make() -> io::Result<IoUring> {
    let mut last = Errno::INVAL.into();
    for way in WAYS {
        let mut builder = IoUring::builder();
        // It belongs to the thread that enables it.
        builder.setup_r_disabled().setup_clamp().setup_cqsize(COMPLETIONS).dontfork();
        way(&mut builder);
        match builder.build(REQUESTS) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INVAL) => last = error,
            done => return done,
        }
    }
    Err(last)
}
