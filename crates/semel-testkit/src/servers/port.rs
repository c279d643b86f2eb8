//! Ports for servers that cannot be told to take any.

use std::{
    net::{Ipv4Addr, TcpListener},
    sync::atomic::{AtomicU16, Ordering},
};

use super::Process;

/// Below the ports that a system gives to whoever asks for any.
const LAST: u16 = 31_999;
const FIRST: u16 = 20_000;

/// Returns a free loopback port that this process gives to nobody else, and that no machine hands
/// out by chance while its server is down.
///
/// Prefer port 0 wherever the server can say what it got.
#[must_use]
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let span = LAST - FIRST;
    // Test processes begin at different places, so that they seldom meet.
    let start = u16::try_from(std::process::id() % u32::from(span)).unwrap_or(0);
    for _ in 0..span {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + (start.wrapping_mul(61) % span + step % span) % span;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no port between {FIRST} and {LAST} is free");
}

/// How often another port is tried where somebody was quicker.
const PORTS_TRIED: usize = 5;

/// Starts a server on a free port: two test processes that look for one may find the same.
pub(super) fn start_on_free_port(
    mut start: impl FnMut(u16) -> Result<Process, String>,
) -> (u16, Process) {
    let mut why = String::new();
    for _ in 0..PORTS_TRIED {
        let port = free_port();
        match start(port) {
            Ok(process) => return (port, process),
            Err(error) if error.contains("Address already in use") => why = error,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("{why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_twice() {
        let mut ports: Vec<_> = (0..50).map(|_| free_port()).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 50);
    }
}
