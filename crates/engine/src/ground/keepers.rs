//! Ends the keepers of sandboxes, with or without a record that leads to them.

use std::path::Path;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use whatif_layers::state_dir::AliveLock;
use whatif_provider::{Instance, Orphan, Whereabouts};
use whatif_sys::patience;
use whatif_types::{Sandbox, SandboxId};

use crate::EngineError;

/// How long an ended keeper may take to let go of its mounts.
const LAST_MOMENTS: Duration = Duration::from_secs(5);

/// The instance of a sandbox whose directory this is. Nothing is looked at yet.
pub(crate) fn instance_in(sandbox: &Sandbox, directory: &Path) -> Result<Box<dyn Instance>, EngineError> {
    let provider = whatif_provider::by_name(&sandbox.provider)?;
    Ok(provider.find(&Whereabouts { id: &sandbox.id, directory, handle: sandbox.details.handle }))
}

/// Ends whatever keeper still serves this directory, and waits until it is gone. Nobody knows what kind it is: its record may be lost,
/// or was never written.
pub(crate) fn end_keeper_in(directory: &Path, id: &SandboxId) {
    for provider in whatif_provider::ALL {
        if let Ok(mut client) = provider.find(&Whereabouts { id, directory, handle: None }).connect() {
            let _ = set_socket_timeout(client.as_fd(), Timeout::Recv, Some(LAST_MOMENTS));
            let _ = client.stop(0);
        }
    }
    // One that takes nobody in any more may still be there.
    await_end(directory);
}

/// Waits for a keeper that is about to end. False: it is still there.
pub(crate) fn await_end(directory: &Path) -> bool {
    // One that cannot be asked about may live.
    let is_gone = || !AliveLock::is_held(directory).unwrap_or(true);
    patience::until(LAST_MOMENTS, || is_gone().then_some(())).is_some()
}

/// All instances of this state directory.
pub(crate) fn all_in(root: &Path) -> impl Iterator<Item = Orphan> {
    whatif_provider::ALL.into_iter().flat_map(move |provider| provider.orphans(root))
}

/// True when it is gone.
pub(crate) fn end_orphan(orphan: &Orphan) -> bool {
    orphan.instance.kill();
    match &orphan.directory {
        Some(directory) => orphan.instance.see_off(directory, LAST_MOMENTS),
        None => orphan.instance.wait(Some(LAST_MOMENTS)),
    }
}
