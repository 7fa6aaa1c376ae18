//! By what living sandboxes are held still, tried out where that is possible.

use whatif_cgroup::{Found, Site, Version};
use whatif_types::explain::whole_message;

use crate::Finding;

const NAME: &str = "holding still";

/// No warning without a freezer: what is applied is bound to its content in either case.
pub(super) fn finding() -> Finding {
    match tried() {
        Ok(Version::V2) => Finding::ok(NAME, "the freezer of cgroup v2"),
        Ok(Version::V1) => Finding::ok(NAME, "the freezer of cgroup v1"),
        Err(reason) => {
            let without = "by SIGSTOP, which a process inside can undo; what is applied is bound to its content all the same";
            Finding::ok(NAME, format!("{without}; no freezer: {reason}"))
        }
    }
}

fn tried() -> Result<Version, String> {
    let me = rustix::process::getpid();
    let site = Site::look(me).map_err(|why| why.reason)?;
    let group = format!("whatif-doctor-{}", me.as_raw_nonzero());
    let made = site.make(&group);
    let removed = whatif_cgroup::remove(&Found::look(), &group);
    made.map(drop).and(removed).map_err(|error| whole_message(&error))?;
    Ok(site.version())
}
