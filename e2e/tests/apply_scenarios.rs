//! Every case of `scenarios/`: what an apply makes of a tree, with and without changes to reality meanwhile.
//!
//! The cases share a world and a state directory, several at a time: neither their order nor their neighbours may matter.
//! `WHATIF_SCENARIO=rename` plays only those with such a name; `WHATIF_BACKENDS=full` plays all of them with every way of
//! copy-on-write, where otherwise every third is enough.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use whatif_e2e::{Scenario, World, as_root_and_user, needs};

const AT_A_TIME: usize = 3;

as_root_and_user!(every_scenario_ends_as_expected, the_other_ways_of_copy_on_write_end_the_same);

fn every_scenario_ends_as_expected(w: &World) {
    needs!(w, "git", "setfattr");
    play(w, "overlay", &Scenario::all());
}

/// It makes no difference how the sandbox was made.
fn the_other_ways_of_copy_on_write_end_the_same(w: &World) {
    needs!(w, "git", "setfattr");
    // With a copy everything outside the project is read-only.
    play(w, "copy", &sample(&["outside-"]));
    if w.has("fuse-overlayfs") && w.outside("exec 3<>/dev/fuse").code == 0 {
        // fuse-overlayfs lets no program write names like its own marks, and ends when one is too long to be marked as deleted.
        play(w, "fuse", &sample(&["name-like-a-whiteout", "name-of-255-bytes"]));
    }
}

/// Enough of the scenarios, without those that cannot be.
fn sample(impossible: &[&str]) -> Vec<Scenario> {
    let is_possible = |s: &Scenario| !impossible.iter().any(|kind| s.name.starts_with(kind));
    let is_full = std::env::var_os("WHATIF_BACKENDS").is_some() || std::env::var_os("WHATIF_SCENARIO").is_some();
    Scenario::all().into_iter().filter(is_possible).step_by(if is_full { 1 } else { 3 }).collect()
}

fn play(w: &World, backend: &str, scenarios: &[Scenario]) {
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| scenario.play(w, backend))) {
                        failures.lock().expect("nothing panics here").push(format!("{}: {}", scenario.name, message(&*panic)));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("nothing panics here");
    assert!(failures.is_empty(), "{} of {} fail:\n{}", failures.len(), scenarios.len(), failures.join("\n\n"));
}

fn message(panic: &(dyn Any + Send)) -> &str {
    panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default()
}
