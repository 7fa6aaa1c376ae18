//! Reality and several sandboxes, edited at random with every verb in between: nothing is ever lost, brought back or made up.
//!
//! `cargo xtask fuzz` plays them. Without it: `cargo test --package whatif-e2e --test nothing_lost -- --ignored`, with
//! `WHATIF_RANDOM=1000` for more lives, `WHATIF_SEED=7` for one in particular, `WHATIF_STEPS=200` for longer ones,
//! `WHATIF_TEST_DIR` for another file system.

use whatif_e2e::nothing_lost::{Backend, Life};
use whatif_e2e::{Who, World, needs};

macro_rules! lives {
    ($($name:ident),+) => {
        $(mod $name {
            #[test]
            #[ignore = "played by `cargo xtask fuzz` until it runs for hours without a finding"]
            fn as_root() {
                super::World::with(super::Who::Root, super::$name);
            }
            #[test]
            #[ignore = "played by `cargo xtask fuzz` until it runs for hours without a finding"]
            fn as_user() {
                super::World::with(super::Who::User, super::$name);
            }
        })+
    };
}

lives!(over_overlayfs, over_fuse, over_copies);

fn over_overlayfs(w: &World) {
    play(w, Backend::Overlay, 3);
}

fn over_fuse(w: &World) {
    needs!(w, "fuse-overlayfs");
    // Not everybody may have file systems of their own; `backends` tests what is said then.
    if w.outside("exec 3<>/dev/fuse").code != 0 {
        return;
    }
    play(w, Backend::Fuse, 1);
}

fn over_copies(w: &World) {
    play(w, Backend::Copy, 1);
}

fn play(w: &World, backend: Backend, lives: u64) {
    needs!(w, "setfattr", "setfacl", "python3", "strace");
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let seeds = match number("WHATIF_SEED") {
        Some(seed) => seed..=seed,
        None => 1..=number("WHATIF_RANDOM").unwrap_or(lives),
    };
    for seed in seeds {
        Life::new(w, backend, seed).play(number("WHATIF_STEPS").unwrap_or(40) as usize);
    }
}
