//! Takes a move back.

use whatif_diff::base;
use whatif_layers::PathError;
use whatif_layers::shift::Shift;

/// Everything is as it was, with what others have kept of files meanwhile.
pub(crate) fn take_back(shift: Shift) -> Result<(), PathError> {
    shift.go_back(base::join_held)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc;
    use std::time::Duration;

    use whatif_layers::StateDir;
    use whatif_layers::shift::{NextHead, Note};
    use whatif_types::{LayerId, SandboxId};

    use super::*;

    /// The index is locked meanwhile, and whoever waits for a lock of their own waits for ever.
    #[test]
    fn it_ends_although_somebody_has_looked_meanwhile() {
        let root = std::env::temp_dir().join(format!("whatif-take-back-{}", std::process::id()));
        let state = StateDir::open(&root).unwrap();
        let id = SandboxId::parse("abcdefghjkmn").unwrap();
        let (_, lock) = state.create(&id).unwrap();
        let sandbox = state.settle(&id).unwrap();
        drop(lock);
        let look = || {
            fs::create_dir_all(sandbox.join("base")).unwrap();
            fs::write(sandbox.join("base/index"), "").unwrap();
        };
        fs::create_dir_all(sandbox.join("head/0")).unwrap();
        look();
        let note = Note { sandbox: id, layer: LayerId::parse("1234567890ab"), is_copy: false, below: None };
        let shift = Shift::begin(&state, &sandbox, note).unwrap();
        shift.freeze(NextHead::Bare).unwrap();
        look();

        let (done, ended) = mpsc::channel();
        std::thread::spawn(move || done.send(take_back(shift).is_ok()));
        assert_eq!(ended.recv_timeout(Duration::from_secs(20)), Ok(true));
        assert!(sandbox.join("base/index").is_file() && !sandbox.join("head/base").exists());
        fs::remove_dir_all(root).unwrap();
    }
}
