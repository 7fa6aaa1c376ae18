//! Archives that were cut, changed or made up. None is taken for a whole one, and none brings the reader down.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use support::raw::{archive, body, compressed, decompressed, directory, entry, file, hard_link, head, link, manifest, whiteout};
use support::*;
use whatif_archive::{ArchiveError, Limits, Options};

fn options() -> Options {
    let limits = Limits { bytes: 1 << 20, entries: 1000, ..Limits::default() };
    Options { limits, ..support::options() }
}

/// Something of most kinds, as small as possible.
fn small(scene: &Scene) -> Vec<u8> {
    let from = scene.directory("from");
    fs::create_dir(from.join("d")).unwrap();
    fs::write(from.join("d/file"), b"content").unwrap();
    fs::hard_link(from.join("d/file"), from.join("same")).unwrap();
    std::os::unix::fs::symlink("file", from.join("link")).unwrap();
    set_attribute(&from.join("d/file"), "user.x", b"y");
    support::whiteout(&from.join("gone"));
    packed(&[layer("a", &from)]).0
}

fn fresh(into: &Path) {
    let _ = fs::remove_dir_all(into);
    fs::create_dir(into).unwrap();
}

#[test]
fn an_archive_that_is_cut_anywhere_is_refused() {
    let scene = Scene::new();
    let archive = small(&scene);
    let into = scene.base.join("into");
    for length in 0..archive.len() {
        fresh(&into);
        let error = unpacked(&archive[..length], &into, &options()).unwrap_err();
        assert!(matches!(error, ArchiveError::Truncated), "{length} of {}: {error:?}", archive.len());
    }
    fresh(&into);
    unpacked(&archive, &into, &options()).unwrap();
}

/// The frames are whole, what is in them is not.
#[test]
fn plain_bytes_that_are_cut_are_refused() {
    let scene = Scene::new();
    let (head, body) = decompressed(&small(&scene));
    let into = scene.base.join("into");
    for length in (0..head.len()).step_by(7) {
        fresh(&into);
        let cut = [compressed(&head[..length]), compressed(&body)].concat();
        unpacked(&cut, &into, &options()).unwrap_err();
    }
    for length in (0..body.len()).step_by(7) {
        fresh(&into);
        let cut = [compressed(&head), compressed(&body[..length])].concat();
        unpacked(&cut, &into, &options()).unwrap_err();
    }
}

#[test]
fn a_changed_byte_is_noticed() {
    let scene = Scene::new();
    let archive = small(&scene);
    let into = scene.base.join("into");
    fresh(&into);
    let whole = unpacked(&archive, &into, &options()).unwrap();
    let tree = snapshot(&into);
    let (head, body) = decompressed(&archive);
    // Plain: there is no checksum of zstd's that would notice.
    for at in 0..head.len() + body.len() {
        let bit = 1 << (at % 8);
        let (mut head, mut body) = (head.clone(), body.clone());
        match at.checked_sub(head.len()) {
            Some(at) => body[at] ^= bit,
            None => head[at] ^= bit,
        }
        fresh(&into);
        let result = unpacked(&[compressed(&head), compressed(&body)].concat(), &into, &options());
        assert!(result.is_err(), "bit {bit:#x} of byte {at}");
    }
    // Compressed: some bits of a frame mean nothing.
    for at in 0..archive.len() {
        let mut changed = archive.clone();
        changed[at] ^= 0x10;
        fresh(&into);
        if let Ok(extracted) = unpacked(&changed, &into, &options()) {
            assert_eq!(extracted, whole);
            let found = snapshot(&into.join("a"));
            for (path, shown) in tree.iter().filter_map(|(path, shown)| Some((path.strip_prefix("a").ok()?, shown))) {
                assert_eq!((&found[path].content, found[path].mode, found[path].mtime), (&shown.content, shown.mode, shown.mtime));
            }
        }
    }
}

fn never_accepted(archive: &[u8], scene: &Scene) {
    let into = scene.base.join("into");
    fresh(&into);
    assert!(unpacked(archive, &into, &options()).is_err());
    let path = scene.base.join("archive");
    fs::write(&path, archive).unwrap();
    let _ = whatif_archive::read_manifest(&path);
}

/// Right entries in an order and with bytes that are not.
fn shuffled() -> impl Strategy<Value = Vec<u8>> {
    let items = vec![
        directory("a"),
        directory("a/d"),
        file("a/d/f", b"x").with("SCHILY.xattr.user.x", b"y"),
        file("a/e", b"yy"),
        link("a/l", ".."),
        whiteout("a/w"),
        hard_link("a/z", "a/e"),
    ];
    let right = manifest(vec![entry("a", &items)]);
    let pieces: Vec<Vec<u8>> = items.iter().map(|item| item.bytes()).collect();
    let picks = proptest::collection::vec(0..pieces.len(), 0..12);
    let noise = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (picks, noise).prop_filter_map("the right one", move |(picks, noise)| {
        let mut plain: Vec<u8> = picks.iter().flat_map(|n| pieces[*n].clone()).collect();
        plain.extend([0; 1024]);
        for (at, byte) in noise {
            let at = at.index(plain.len());
            plain[at] = byte;
        }
        (plain != body(&items)).then(|| archive(&right, &plain))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn random_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..3000)) {
        never_accepted(&bytes, &Scene::new());
    }

    #[test]
    fn random_frames_are_refused(first in proptest::collection::vec(any::<u8>(), 0..3000), second in proptest::collection::vec(any::<u8>(), 0..3000)) {
        never_accepted(&[compressed(&first), compressed(&second)].concat(), &Scene::new());
        let manifest = head(&manifest(vec![entry("a", &[directory("a")])]));
        never_accepted(&[compressed(&manifest), compressed(&second)].concat(), &Scene::new());
    }

    #[test]
    fn random_records_are_refused(records in proptest::collection::vec(any::<u8>(), 1..600)) {
        let items = [directory("a")];
        let plain = [support::raw::pax(&records), body(&items)].concat();
        never_accepted(&archive(&manifest(vec![entry("a", &items)]), &plain), &Scene::new());
    }

    #[test]
    fn shuffled_entries_are_refused(archive in shuffled()) {
        never_accepted(&archive, &Scene::new());
    }
}
