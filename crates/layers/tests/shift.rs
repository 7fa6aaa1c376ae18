//! Moves that are taken back.

use std::fs;
use std::io;
use std::path::Path;

use whatif_layers::StateDir;
use whatif_layers::shift::{NextHead, Note, Shift};
use whatif_types::{LayerId, SandboxId};

fn note(sandbox: &SandboxId) -> Note {
    Note { sandbox: sandbox.clone(), layer: LayerId::parse("1234567890ab"), is_copy: false, below: None }
}

/// As the real one does, in order and once.
fn joined(from: &[&Path], to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    let said: Vec<String> = from.iter().map(|base| fs::read_to_string(base.join("index"))).collect::<Result<_, _>>()?;
    fs::write(to.join("index"), said.concat())
}

/// Whoever looks at a sandbox keeps what its files started from, also while its head is being frozen.
#[test]
fn what_was_kept_meanwhile_is_kept() {
    let root = std::env::temp_dir().join(format!("whatif-shift-{}", std::process::id()));
    let state = StateDir::open(&root).unwrap();
    let id = SandboxId::parse("abcdefghjkmn").unwrap();
    let (_, lock) = state.create(&id).unwrap();
    let sandbox = state.settle(&id).unwrap();
    drop(lock);
    fs::create_dir_all(sandbox.join("head/0")).unwrap();
    fs::write(sandbox.join("head/0/work"), "work").unwrap();
    fs::create_dir(sandbox.join("base")).unwrap();
    fs::write(sandbox.join("base/index"), "first ").unwrap();

    let shift = Shift::begin(&state, &sandbox, note(&id)).unwrap();
    shift.freeze(NextHead::Bare).unwrap();
    fs::create_dir(sandbox.join("base")).unwrap();
    fs::write(sandbox.join("base/index"), "second").unwrap();
    shift.go_back(joined).unwrap();

    assert_eq!(fs::read_to_string(sandbox.join("base/index")).unwrap(), "first second");
    assert_eq!(fs::read_to_string(sandbox.join("head/0/work")).unwrap(), "work");
    assert!(!sandbox.join("head/base").exists() && !sandbox.join("base.joined").exists());
    fs::remove_dir_all(root).unwrap();
}
