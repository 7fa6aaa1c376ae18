//! Reality and several sandboxes, edited at random with every verb in between: nothing is ever lost, brought back or made up.
//!
//! A short one of each kind by itself; `cargo xtask fuzz` plays many. Without it: `WHATIF_RANDOM=1000` for more lives,
//! `WHATIF_SEED=7` for one in particular, `WHATIF_STEPS=200` for longer ones, `WHATIF_TEST_DIR` for another file system.

use whatif_e2e::nothing_lost::{Backend, Life};
use whatif_e2e::{Who, World, needs};

macro_rules! lives {
    ($($name:ident),+) => {
        $(mod $name {
            #[test]
            fn as_root() {
                super::World::with(super::Who::Root, super::$name);
            }
            #[test]
            fn as_user() {
                super::World::with(super::Who::User, super::$name);
            }
        })+
    };
}

lives!(over_overlayfs, over_fuse, over_copies);

fn over_overlayfs(w: &World) {
    play(w, Backend::Overlay);
}

fn over_fuse(w: &World) {
    needs!(w, "fuse-overlayfs");
    // Not everybody may have file systems of their own; `backends` tests what is said then.
    if w.outside("exec 3<>/dev/fuse").code != 0 {
        return;
    }
    play(w, Backend::Fuse);
}

fn over_copies(w: &World) {
    play(w, Backend::Copy);
}

fn play(w: &World, backend: Backend) {
    needs!(w, "setfattr", "setfacl", "python3", "strace");
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let seeds = match number("WHATIF_SEED") {
        Some(seed) => seed..=seed,
        None => 1..=number("WHATIF_RANDOM").unwrap_or(1),
    };
    for seed in seeds {
        Life::new(w, backend, seed).play(number("WHATIF_STEPS").unwrap_or(20) as usize);
    }
}
