//! The name of a group, which becomes the name of a directory beside others'.

use crate::CgroupError;

/// Enough for a prefix and an identity.
const LONGEST: usize = 128;

/// Refuses what could lead elsewhere or be taken for one of the kernel's own files, all of which have a dot in their name.
pub(crate) fn check(name: &str) -> Result<(), CgroupError> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if !name.is_empty() && name.len() <= LONGEST && name != "tasks" && name.bytes().all(plain) {
        Ok(())
    } else {
        Err(CgroupError::Name { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_lead_elsewhere_or_hide_a_file_of_the_kernel() {
        for bad in ["", ".", "..", "a/b", "/", "a.b", "cgroup.procs", "tasks", "a b", "a\n", "a\0", "ä", &"x".repeat(129)] {
            assert!(check(bad).is_err(), "{bad:?}");
        }
        for good in ["whatif-1a2b", "A_b", &"x".repeat(128)] {
            assert!(check(good).is_ok(), "{good:?}");
        }
    }
}
