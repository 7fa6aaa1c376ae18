//! Whether root is what it is called.

use std::sync::OnceLock;

use whatif_sys::{capabilities, namespaces};

use super::{COMMON_IDS, COUNT};

/// Root in a container lacks capabilities or ids that its way to a sandbox takes. It takes the way of an ordinary user then: a user
/// namespace in which it is itself.
///
/// Asked once: a process that reads what a user has closed to itself enters a user namespace for that, and seems to have everything.
pub(super) fn are_roots() -> bool {
    static ARE: OnceLock<bool> = OnceLock::new();
    *ARE.get_or_init(|| capabilities::has_all_of_root() && namespaces::knows_ids_to(COMMON_IDS + COUNT))
}
