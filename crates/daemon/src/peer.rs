//! Whether a connection to our port comes from inside a sandbox.
//!
//! A sandbox has a network of its own, so nothing inside reaches the loopback of this machine, with two exceptions that its user
//! asked for: the network of the host, and a port of it (`--reach`). Neither is meant to lead here: whoever is inside must not
//! approve its own changes, even if it got hold of a token. So the process that has the other end of a connection must be one of our
//! own PID namespace, and not the supervisor of a sandbox's network.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use whatif_types::SandboxId;

/// Of our own namespaces.
const OWN_PIDS: &str = "/proc/self/ns/pid";

/// What is known of the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Socket {
    uid: u32,
    inode: u64,
}

/// Who has the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A process of our own user.
    Own,
    /// A process of another user of this machine.
    Other,
    /// A process in a sandbox, or one that nothing is known about.
    Inside,
}

/// Who has the other ends of connections from there to us, in one walk over all processes. If we may not look at a process of another
/// user, it runs in no sandbox of ours.
pub fn of(from: &[SocketAddr], to: SocketAddr) -> io::Result<Vec<Peer>> {
    let sockets = sockets_of(from, to)?;
    let we = rustix::process::geteuid().as_raw();
    let by_uid = |uid| if uid == we { Peer::Own } else { Peer::Other };
    let is_closed_to_us = |socket: &Socket| we != 0 && socket.uid != we;
    let wanted = sockets.iter().flatten().filter(|socket| !is_closed_to_us(socket)).map(|socket| socket.inode).collect();
    let outside = held_outside(wanted)?;
    let peer = |socket: Option<Socket>| match socket {
        Some(socket) if is_closed_to_us(&socket) || outside.contains(&socket.inode) => by_uid(socket.uid),
        _ => Peer::Inside,
    };
    Ok(sockets.into_iter().map(peer).collect())
}

/// Those of the sockets that a process outside of all sandboxes has.
fn held_outside(mut wanted: HashSet<u64>) -> io::Result<HashSet<u64>> {
    let own = fs::read_link(OWN_PIDS)?;
    // A client has most likely been started just now.
    let mut pids: Vec<u32> = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable_by(|one, other| other.cmp(one));
    let mut found = HashSet::new();
    for process in pids.iter().map(|pid| PathBuf::from(format!("/proc/{pid}"))) {
        if wanted.is_empty() {
            break;
        }
        // A process that has ended, or that is closed to us, does not have it as far as anybody can tell.
        if is_outer(&process, &own) {
            for inode in sockets_in(&process) {
                found.extend(wanted.take(&inode));
            }
        }
    }
    Ok(found)
}

fn is_outer(process: &Path, own: &Path) -> bool {
    fs::read_link(process.join("ns/pid")).is_ok_and(|namespace| namespace == own) && !is_supervisor(process)
}

/// It relays what programs inside send.
fn is_supervisor(process: &Path) -> bool {
    let line = fs::read(process.join("cmdline")).unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    // Its program may have any name.
    let is_id = |word: &[u8]| std::str::from_utf8(word).is_ok_and(|word| SandboxId::parse(word).is_some());
    matches!(words.as_slice(), [_, b"supervisor", id, ..] if is_id(id))
}

fn sockets_in(process: &Path) -> Vec<u64> {
    let Ok(descriptors) = fs::read_dir(process.join("fd")) else { return Vec::new() };
    let inode = |to: PathBuf| to.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
    descriptors.filter_map(|entry| inode(fs::read_link(entry.ok()?.path()).ok()?)).collect()
}

/// The sockets of the other ends, which are on this machine.
fn sockets_of(from: &[SocketAddr], to: SocketAddr) -> io::Result<Vec<Option<Socket>>> {
    let table = if to.is_ipv4() { "/proc/self/net/tcp" } else { "/proc/self/net/tcp6" };
    let to = spelled(to);
    let text = fs::read_to_string(table)?;
    let rows: HashMap<&str, Socket> = text.lines().filter_map(|line| row(line, &to)).collect();
    Ok(from.iter().map(|from| rows.get(spelled(*from).as_str()).copied()).collect())
}

/// A line says: number, local address, remote address, state, queues, timer, retransmits, uid, timeout, inode …
fn row<'a>(line: &'a str, remote: &str) -> Option<(&'a str, Socket)> {
    let mut fields = line.split_whitespace().skip(1);
    let local = fields.next()?;
    if fields.next()? != remote {
        return None;
    }
    let (uid, inode) = (fields.nth(4)?.parse().ok()?, fields.nth(1)?.parse().ok()?);
    Some((local, Socket { uid, inode }))
}

/// As the kernel prints it: words of 32 bits in the order of the processor, and the port.
fn spelled(address: SocketAddr) -> String {
    let words: Vec<[u8; 4]> = match address.ip() {
        IpAddr::V4(ip) => vec![ip.octets()],
        IpAddr::V6(ip) => ip.octets().chunks_exact(4).map(|word| [word[0], word[1], word[2], word[3]]).collect(),
    };
    let words: String = words.iter().map(|word| format!("{:08X}", u32::from_ne_bytes(*word))).collect();
    format!("{words}:{:04X}", address.port())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_line_of_a_connection_is_found() {
        let line = "   3: 0100007F:1E25 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000000000000000 20 4 30 10 -1";
        let (local, remote) = (spelled("127.0.0.1:7717".parse().unwrap()), spelled("127.0.0.1:50000".parse().unwrap()));
        assert_eq!(row(line, &remote), Some((local.as_str(), Socket { uid: 1000, inode: 4711 })));
        assert_eq!(row(line, &local), None);
        assert_eq!(spelled("[::1]:80".parse().unwrap()), "00000000000000000000000001000000:0050");
    }

    #[test]
    fn a_process_outside_is_told_from_nobody() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (to, from) = (listener.local_addr().unwrap(), client.local_addr().unwrap());
        // Nobody has such a connection as the second one.
        assert_eq!(of(&[from, "127.0.0.1:1".parse().unwrap()], to).unwrap(), [Peer::Own, Peer::Inside]);
    }
}
