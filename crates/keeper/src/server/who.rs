//! Which process has a TCP socket.

use std::fs;
use std::net::{IpAddr, SocketAddr};

use whatif_types::network::Who;

use super::numbering::{self, Listed};

/// Looks at no more descriptors than this: it is asked for the record only.
const MOST_LOOKED_AT: usize = 4096;

pub(super) fn owner_of(local: SocketAddr) -> Option<Who> {
    let table = if local.is_ipv4() { "/proc/self/net/tcp" } else { "/proc/self/net/tcp6" };
    let inode = inode_of(&fs::read_to_string(table).ok()?, local)?;
    let wanted = format!("socket:[{inode}]");
    let mut looked_at = 0;
    for Listed { pid, path } in numbering::all().ok()? {
        for descriptor in fs::read_dir(path.join("fd")).into_iter().flatten().filter_map(Result::ok) {
            looked_at += 1;
            if fs::read_link(descriptor.path()).is_ok_and(|target| target.as_os_str() == wanted.as_str()) {
                let program = fs::read_to_string(path.join("comm")).unwrap_or_default();
                return Some(Who { pid, program: program.trim_end().to_owned() });
            }
            if looked_at == MOST_LOOKED_AT {
                return None;
            }
        }
    }
    None
}

/// The tenth column of the line whose second is this address.
fn inode_of(table: &str, local: SocketAddr) -> Option<u64> {
    let wanted = in_hexadecimal(local);
    let line = table.lines().skip(1).find(|line| line.split_whitespace().nth(1) == Some(&wanted))?;
    line.split_whitespace().nth(9)?.parse().ok().filter(|inode| *inode != 0)
}

/// The kernel prints words of four bytes as numbers of this machine.
fn in_hexadecimal(address: SocketAddr) -> String {
    let word = |bytes: &[u8]| bytes.first_chunk::<4>().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
    let host: String = match address.ip() {
        IpAddr::V4(v4) => format!("{:08X}", word(&v4.octets())),
        IpAddr::V6(v6) => v6.octets().chunks(4).map(|bytes| format!("{:08X}", word(bytes))).collect(),
    };
    format!("{host}:{:04X}", address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_found_by_their_address() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                     \x20  0: 0100007F:1F90 0500CB71:0050 01 00000000:00000000 00:00000000 00000000     0        0 4242 1\n";
        assert_eq!(inode_of(table, "127.0.0.1:8080".parse().unwrap()), Some(4242));
        assert_eq!(inode_of(table, "127.0.0.1:8081".parse().unwrap()), None);
        assert_eq!(in_hexadecimal("[::1]:80".parse().unwrap()), "00000000000000000000000001000000:0050");
    }
}
