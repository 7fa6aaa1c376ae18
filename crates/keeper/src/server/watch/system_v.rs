//! Shared memory, semaphores and messages of the System V kind. They belong to no process, and stay when nobody uses them.

use std::fs;
use std::io;

use whatif_sys::absence::OrAbsent;

/// What the kernel takes for a semaphore, and for a message besides its bytes.
const OBJECT: u64 = 64;
/// For a set of semaphores or a queue, about.
const HOLDER: u64 = 256;

pub(super) fn measure() -> io::Result<u64> {
    let segments = sum("shm", &["rss"], |[resident]| resident)?;
    let semaphores = sum("sem", &["nsems"], |[count]| HOLDER + count * OBJECT)?;
    let messages = sum("msg", &["cbytes", "qnum"], |[bytes, count]| HOLDER + bytes + count * OBJECT)?;
    Ok(segments + semaphores + messages)
}

/// Adds up a table: one line for each thing, and a first one that names the columns.
fn sum<const N: usize>(table: &str, columns: &[&str; N], bytes: impl Fn([u64; N]) -> u64) -> io::Result<u64> {
    // Not every kernel has them.
    let table = fs::read_to_string(format!("/proc/sysvipc/{table}")).or_absent()?.unwrap_or_default();
    Ok(sum_of(&table, columns, bytes))
}

fn sum_of<const N: usize>(table: &str, columns: &[&str; N], bytes: impl Fn([u64; N]) -> u64) -> u64 {
    let mut lines = table.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let places = columns.map(|column| names.iter().position(|name| *name == column));
    let of_line = |line: &str| {
        let values: Vec<&str> = line.split_whitespace().collect();
        bytes(places.map(|place| place.and_then(|place| values.get(place)?.parse().ok()).unwrap_or(0)))
    };
    lines.map(of_line).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_their_names() {
        let table = "       key      msqid perms      cbytes       qnum lspid\n         0          0   600       16384          2     7\n         0          1   600           0          0     0\n";
        assert_eq!(sum_of(table, &["cbytes", "qnum"], |[bytes, count]| bytes + count), 16386);
        assert_eq!(sum_of("", &["cbytes"], |[bytes]| bytes + 1), 0);
    }
}
