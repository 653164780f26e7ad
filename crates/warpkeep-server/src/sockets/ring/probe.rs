//! Whether io_uring can be used here: it is tried, on a pair of sockets.

use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::io::Errno;

use super::Ring;
use crate::ServerError;

/// Where the system stores who may use io_uring.
const DISABLED: &str = "/proc/sys/kernel/io_uring_disabled";

/// Receives and sends through a ring, as a worker does.
pub(in crate::sockets) fn probe() -> Result<(), ServerError> {
    let refused = |error: io::Error| {
        let disabled = std::fs::read_to_string(DISABLED).ok();
        let (what, remedy) = explain(Errno::from_io_error(&error), disabled.as_deref().map(str::trim));
        ServerError::Uring { what: what.to_owned(), remedy: remedy.to_owned(), source: error }
    };
    // In a thread of its own: the kernel delivers late completions to the thread that used the ring, and interrupts
    // it for that.
    let probed = std::thread::Builder::new().name("probe".to_owned()).spawn(converse);
    let probed = probed.and_then(|thread| thread.join().unwrap_or_else(|_| Err(Errno::INVAL.into())));
    probed.map_err(refused)
}

/// The meaning of an error, and its remedy.
fn explain(error: Option<Errno>, disabled: Option<&str>) -> (&'static str, &'static str) {
    match (error, disabled) {
        (Some(Errno::PERM | Errno::ACCESS), Some("2")) => {
            ("the system forbids it to every process", "set the sysctl kernel.io_uring_disabled to 0")
        }
        (Some(Errno::PERM | Errno::ACCESS), Some("1")) => (
            "the system forbids it to this user",
            "set the sysctl kernel.io_uring_disabled to 0, or put the user into the group kernel.io_uring_group",
        ),
        (Some(Errno::PERM | Errno::ACCESS), _) => (
            "a filter of system calls forbids it, such as a container's",
            "let seccomp permit io_uring_setup, io_uring_enter and io_uring_register",
        ),
        (Some(Errno::NOSYS), _) => ("this kernel has none", "use Linux 6.0 or later with CONFIG_IO_URING"),
        (Some(Errno::INVAL | Errno::OPNOTSUPP), _) => {
            ("that of this kernel lacks what is needed", "use Linux 6.0 or later")
        }
        (Some(Errno::NOMEM), _) => {
            ("there is too little memory for it", "let the process lock more (ulimit -l)")
        }
        _ => ("it does not work", "look at what the system says"),
    }
}

fn converse() -> io::Result<()> {
    const QUESTION: &[u8] = b"question";
    const ANSWER: &[u8] = b"answer";
    let wrong = || io::Error::from(Errno::INVAL);
    let mut ring = Ring::new()?;
    let (here, mut there) = UnixStream::pair()?;
    there.set_nonblocking(true)?;
    ring.add_socket(0, here.into());
    // Twice, for a request to receive that ends after the first has to be noticed.
    for _ in 0..2 {
        there.write_all(QUESTION)?;
        let mut events = Vec::new();
        ring.wait(Duration::from_millis(100), &mut events)?;
        let mut read = [0; 64];
        let count = ring.read(0, &mut read).map_err(|error| match error.raw_os_error() {
            Some(_) => error,
            None => wrong(),
        })?;
        let is_received = &read[..count] == QUESTION && ring.is_receiving(0);
        ring.write(0, ANSWER)?;
        // This call sends it, finds nothing else to do, and gets no completion.
        ring.wait(Duration::ZERO, &mut events)?;
        if !is_received || events.len() != 1 || ring.unsent(0) != 0 {
            return Err(wrong());
        }
        let count = there.read(&mut read)?;
        if &read[..count] != ANSWER {
            return Err(wrong());
        }
    }
    Ok(())
}

impl Ring {
    fn is_receiving(&mut self, number: usize) -> bool {
        self.channel(number).is_ok_and(|(_, channel)| channel.receiving)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_is_explained() {
        let mut messages: Vec<(&str, &str)> = Vec::new();
        for (error, disabled) in [
            (Errno::PERM, Some("2")),
            (Errno::PERM, Some("1")),
            (Errno::PERM, Some("0")),
            (Errno::NOSYS, None),
            (Errno::INVAL, Some("0")),
            (Errno::NOMEM, Some("0")),
            (Errno::IO, Some("0")),
        ] {
            let said = explain(Some(error), disabled);
            assert!(!messages.contains(&said), "{error} has the message of another");
            messages.push(said);
        }
    }
}
