//! Where sandboxes are found.

use std::fs;
use std::sync::Barrier;

use whatif_layers::StateDir;
use whatif_types::SandboxId;

/// A sandbox is looked for where those lie that are kept, then where they are made. In between it goes from there to here.
#[test]
fn a_sandbox_is_found_while_it_is_settled() {
    let root = std::env::temp_dir().join(format!("whatif-find-{}", std::process::id()));
    let state = StateDir::open(&root).unwrap();
    let id = SandboxId::parse("abcdefghjkmn").unwrap();
    let both = Barrier::new(2);
    let mut missed = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..2000 {
                both.wait();
                state.settle(&id).unwrap();
                both.wait();
            }
        });
        for _ in 0..2000 {
            fs::create_dir(state.transient().join(id.as_str())).unwrap();
            both.wait();
            loop {
                match state.find(&id).unwrap() {
                    Some(path) if path.starts_with(state.sandboxes()) => break,
                    Some(_) => {}
                    None => missed += 1,
                }
            }
            both.wait();
            fs::remove_dir(state.sandboxes().join(id.as_str())).unwrap();
        }
    });
    fs::remove_dir_all(&root).unwrap();
    assert_eq!(missed, 0);
}
