//! A ring under stress: no buffers left, clients that do not read, sockets that close, full queues.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::{KEPT, Ring, lent};

/// A ring with this many sockets, and their other ends; `None` without io_uring.
fn ring_with(sockets: usize) -> Option<(Ring, Vec<UnixStream>)> {
    if let Err(error) = super::probe() {
        writeln!(std::io::stdout().lock(), "SKIPPED: {error}").unwrap();
        return None;
    }
    let mut ring = Ring::new().unwrap();
    let mut ends = Vec::new();
    for number in 0..sockets {
        let (here, there) = UnixStream::pair().unwrap();
        there.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        ring.add_socket(number, here.into());
        ends.push(there);
    }
    Some((ring, ends))
}

/// Waits until a condition holds.
fn wait_until(ring: &mut Ring, mut is_so: impl FnMut(&mut Ring) -> bool) {
    let begun = Instant::now();
    while !is_so(ring) {
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not come to that");
        ring.wait(Duration::from_millis(10), &mut Vec::new()).unwrap();
    }
}

/// Reads all available input of a socket. Returns whether its end was reached.
fn read_on(ring: &mut Ring, number: usize, into: &mut Vec<u8>) -> bool {
    let mut some = [0; 1000];
    loop {
        match ring.read(number, &mut some) {
            Ok(0) => return true,
            Ok(count) => into.extend_from_slice(&some[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(error) => panic!("{error}"),
        }
    }
}

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8).collect()
}

#[test]
fn more_sockets_than_buffers_and_requests_are_served() {
    let sockets = 8 * lent::BUFFERS;
    let Some((mut ring, mut ends)) = ring_with(sockets) else { return };
    for round in 0..3 {
        for (number, end) in ends.iter_mut().enumerate() {
            write!(end, "{number}/{round}").unwrap();
        }
        let mut read = vec![Vec::new(); sockets];
        wait_until(&mut ring, |ring| {
            for (number, read) in read.iter_mut().enumerate() {
                assert!(!read_on(ring, number, read), "{number} has ended");
            }
            (0..sockets).all(|number| read[number] == format!("{number}/{round}").into_bytes())
        });
        for (number, bytes) in read.iter_mut().enumerate() {
            ring.take_all(number, bytes).unwrap();
        }
        wait_until(&mut ring, |ring| (0..sockets).all(|number| ring.unsent(number) == 0));
        for (number, end) in ends.iter_mut().enumerate() {
            let mut answer = vec![0; format!("{number}/{round}").len()];
            end.read_exact(&mut answer).unwrap();
            assert_eq!(answer, format!("{number}/{round}").into_bytes());
        }
    }
}

#[test]
fn what_nobody_reads_is_not_received_without_end_and_comes_whole() {
    let Some((mut ring, mut ends)) = ring_with(2) else { return };
    let sent = pattern(20 << 20);
    let (mut first, theirs) = (ends.remove(0), sent.clone());
    let writer = std::thread::spawn(move || first.write_all(&theirs));
    for _ in 0..50 {
        ring.wait(Duration::from_millis(1), &mut Vec::new()).unwrap();
        // The other is served meanwhile.
        ends[0].write_all(b"hello").unwrap();
        let mut read = Vec::new();
        wait_until(&mut ring, |ring| {
            read_on(ring, 1, &mut read);
            read == b"hello"
        });
    }
    let kept = ring.channel(0).unwrap().1.kept();
    assert!(kept > KEPT && kept < KEPT + 2 * lent::BUFFERS * lent::BYTES, "{kept} bytes are kept");
    assert!(!writer.is_finished());
    let mut read = Vec::new();
    wait_until(&mut ring, |ring| read_on(ring, 0, &mut read));
    writer.join().unwrap().unwrap();
    assert!(read == sent, "{} bytes of {}", read.len(), sent.len());
}

#[test]
fn what_is_not_taken_at_once_is_sent_when_it_is() {
    let Some((mut ring, mut ends)) = ring_with(1) else { return };
    let sent = pattern(5 << 20);
    ring.take_all(0, &mut sent.clone()).unwrap();
    ring.wait(Duration::ZERO, &mut Vec::new()).unwrap();
    assert!(ring.unsent(0) > 0);
    // More while that is under way, in both ways.
    ring.write(0, b"and ").unwrap();
    ring.take_all(0, &mut b"more".to_vec()).unwrap();
    let mut end = ends.remove(0);
    let reader = std::thread::spawn(move || {
        let mut read = vec![0; (5 << 20) + 8];
        end.read_exact(&mut read).map(|()| read)
    });
    wait_until(&mut ring, |ring| ring.unsent(0) == 0);
    let read = reader.join().unwrap().unwrap();
    assert!(read[..sent.len()] == sent && read.ends_with(b"and more"));
}

#[test]
fn a_socket_leaves_when_the_kernel_has_let_go_of_it() {
    let Some((mut ring, mut ends)) = ring_with(3) else { return };
    // One is silent, one does not read, one is sent a last answer.
    ring.take_all(1, &mut pattern(5 << 20)).unwrap();
    ring.wait(Duration::ZERO, &mut Vec::new()).unwrap();
    ring.write(2, b"goodbye").unwrap();
    (0..3).for_each(|number| ring.remove(number));
    assert_eq!(ring.channels.len(), 3, "the kernel has requests for them");
    // Their numbers are free.
    let (here, mut again) = UnixStream::pair().unwrap();
    ring.add_socket(1, here.into());
    wait_until(&mut ring, |ring| ring.channels.len() == 1);
    let mut read = Vec::new();
    ends[0].read_to_end(&mut read).unwrap();
    assert!(read.is_empty());
    ends[1].read_to_end(&mut read).unwrap();
    assert!(read.len() < 5 << 20 && pattern(5 << 20).starts_with(&read));
    read.clear();
    ends[2].read_to_end(&mut read).unwrap();
    assert_eq!(read, b"goodbye");
    again.write_all(b"new").unwrap();
    let mut read = Vec::new();
    wait_until(&mut ring, |ring| {
        read_on(ring, 1, &mut read);
        read == b"new"
    });
}

#[test]
fn a_ring_that_is_dropped_lets_everything_go() {
    let Some((mut ring, mut ends)) = ring_with(40) else { return };
    ring.take_all(7, &mut pattern(5 << 20)).unwrap();
    ring.wait(Duration::ZERO, &mut Vec::new()).unwrap();
    assert!(ring.let_go(), "the kernel holds on to {} sockets", ring.channels.len());
    drop(ring);
    for end in &mut ends {
        // The closed ones.
        end.read_to_end(&mut Vec::new()).unwrap();
    }
}

#[test]
fn the_end_of_a_client_and_its_failure_are_found() {
    let Some((mut ring, mut ends)) = ring_with(2) else { return };
    ends[0].write_all(b"last words").unwrap();
    drop(ends.remove(0));
    let mut read = Vec::new();
    wait_until(&mut ring, |ring| read_on(ring, 0, &mut read));
    assert_eq!(read, b"last words");
    drop(ends);
    // The other end is closed: the next attempt or the read reports that.
    ring.write(1, b"anybody?").unwrap();
    wait_until(&mut ring, |ring| ring.write(1, b"anybody?").is_err());
    assert!(ring.read(1, &mut [0; 10]).is_err());
}
