//! The same random edits and verbs over every backend lead to the same diffs, the same status and the same reality.
//!
//! Two lives for each identity; `WHATIF_RANDOM=1000` for more, `WHATIF_SEED=7` for one in particular, `WHATIF_STEPS=20` for more
//! rounds in each.

use whatif_e2e::nothing_lost::{Backend, alike};
use whatif_e2e::{World, as_root_and_user, needs};

as_root_and_user!(a_copy_is_as_good_as_an_overlay, fuse_is_as_good_as_an_overlay);

const LIVES: u64 = 2;
const ROUNDS: usize = 2;

fn a_copy_is_as_good_as_an_overlay(w: &World) {
    play(w, Backend::Copy);
}

fn fuse_is_as_good_as_an_overlay(w: &World) {
    needs!(w, "fuse-overlayfs");
    // Not everybody may have file systems of their own; `backends` tests what is said then.
    if w.outside("exec 3<>/dev/fuse").code == 0 {
        play(w, Backend::Fuse);
    }
}

fn play(w: &World, backend: Backend) {
    needs!(w, "setfattr", "setfacl", "python3");
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let seeds = match number("WHATIF_SEED") {
        Some(seed) => seed..=seed,
        None => 1..=number("WHATIF_RANDOM").unwrap_or(LIVES),
    };
    for seed in seeds {
        alike(w, &[Backend::Overlay, backend], seed, number("WHATIF_STEPS").map_or(ROUNDS, |n| n as usize));
    }
}
