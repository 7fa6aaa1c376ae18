//! Whether the machine has room for one more attempt.

/// Left for everybody else.
const RESERVE: u64 = 256 << 20;

/// `needed` is what the largest attempt so far took.
pub(super) fn is_there(needed: u64) -> bool {
    available().is_none_or(|available| available >= needed.saturating_add(RESERVE))
}

fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kib| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_nothing_and_none_for_everything() {
        assert!(available().is_some_and(|bytes| bytes > 0));
        assert!(!is_there(u64::MAX));
    }
}
