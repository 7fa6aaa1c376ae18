//! Scans of stacks against the kernel: whatever is done in a stack of real overlays, a scan finds what the mount shows.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod overlay;

use overlay::acts::{Act, furnish, layers};
use overlay::{Stack, View, Who, apart, cases, is_apart, view};
use proptest::prelude::*;
use whatif_diff::{Found, between};
use whatif_overlay::Format;

/// Does everything, layer by layer, and looks after each step.
fn live_through(marks: Format, name: &str, layers: &[Vec<Act>]) {
    let mut stack = Stack::new(name, marks);
    furnish(&stack.base());
    let start = view(&stack.base());
    let mut positions: Vec<(Found, View)> = vec![(Found::default(), start.clone())];
    for acts in layers {
        stack.push_layer();
        for act in acts {
            act.perform(&stack.mounted());
            let found = stack.scan(stack.layers);
            assert!(found.unreadable.is_empty(), "{:?}", found.unreadable);
            assert_eq!(stack.changed(start.clone(), &found.changes), view(&stack.mounted()), "after {act:?}");
        }
        positions.push((stack.scan(stack.layers), view(&stack.mounted())));
    }
    // Looked up anew, not remembered by the mount that did it.
    stack.push_layer();
    assert_eq!(positions.last().unwrap().1, view(&stack.mounted()), "what the kernel makes of the frozen layers");
    assert_eq!(view(&stack.base()), start, "reality is as it was");
    // Also a step back is a way from one position to another.
    for (from, old) in &positions {
        for (to, new) in &positions {
            assert_eq!(&stack.changed(old.clone(), &between(from, to, false).changes), new);
        }
    }
}

fn check(marks: Format, name: &str) {
    proptest!(cases(48), |(layers in layers())| live_through(marks, name, &layers));
}

#[test]
fn a_scan_finds_what_roots_overlay_shows() {
    apart(Who::Root, "roots_overlay");
}

#[test]
fn a_scan_finds_what_a_users_overlay_shows() {
    apart(Who::User, "users_overlay");
}

#[test]
fn directories_are_followed_from_layer_to_layer() {
    apart(Who::Root, "moved_directories");
}

#[test]
#[ignore = "run by another test"]
fn roots_overlay() {
    assert!(is_apart());
    check(Format::Trusted, "root");
}

#[test]
#[ignore = "run by another test"]
fn users_overlay() {
    assert!(is_apart());
    check(Format::User, "user");
}

/// What chance would rarely come upon.
#[test]
#[ignore = "run by another test"]
fn moved_directories() {
    assert!(is_apart());
    let make = |path: &str| Act::MakeDirectory(path.into());
    let write = |path: &str| Act::Write(path.into(), b'x');
    let rename = |from: &str, to: &str| Act::Rename(from.into(), to.into());
    let cases: [(&str, &[Vec<Act>]); 7] = [
        ("new-in-an-older-layer", &[vec![make("n"), write("n/f")], vec![rename("n", "m")]]),
        ("within-a-renamed-one", &[vec![rename("a", "n"), rename("n/b", "n/m"), rename("n/m/c", "n/m/k"), write("n/m/k/f")]]),
        ("within-one-renamed-earlier", &[vec![rename("a", "n")], vec![rename("n/b", "m")], vec![rename("m/c", "n/k")]]),
        ("there-and-back", &[vec![rename("a", "n")], vec![write("n/f")], vec![rename("n", "a")], vec![write("a/g")]]),
        ("into-a-new-one-and-out-again", &[vec![make("n"), rename("a/b", "n/b")], vec![rename("n/b", "m")], vec![write("m/f")]]),
        ("its-place-taken", &[vec![rename("a", "n"), make("a"), write("a/f")], vec![rename("a", "m"), rename("n", "a")]]),
        ("exchanged", &[vec![Act::Exchange("a".into(), "b".into())], vec![rename("a/c", "b/n")], vec![rename("b", "m")]]),
    ];
    for (name, layers) in cases {
        live_through(Format::Trusted, name, layers);
    }
}
