//! A server that was started does not outlive us, whatever ends us.
#![allow(unsafe_code, reason = "what a child does before it becomes another program")]

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Signal, set_parent_process_death_signal};

/// Has the child killed when the thread that starts it ends, and shields it from Ctrl-C: this program handles the
/// signal, and stops the child in order.
pub(super) fn put_on(command: &mut Command) {
    command.process_group(0);
    // SAFETY: the closure runs between fork and exec, and makes one system call: no memory is allocated, no lock is taken.
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
}
