//! What everybody expects.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

use rustix::io::Errno;
use whatif_keeper::client::ClientError;
use whatif_keeper::protocol::{Condition, EntryKind, Reason, Text};

use super::{Inside, errno, failed, read_all};

pub(super) fn a_file_is_written_read_and_changed(inside: &Inside) {
    let mut client = inside.connect();
    let path = inside.at("file");
    let stat = client.write_file(&path, Some(0o640), Condition::Always, &mut &b"one two three"[..]).expect("it is written");
    assert_eq!((stat.kind, stat.mode, stat.size), (EntryKind::File, 0o640, 13));
    assert_eq!(client.stat(&path, false).expect("it is there"), stat);
    let range = client.read_range(&path, 4, 3, None).expect("it is read");
    assert_eq!((range.bytes.as_slice(), &range.stat), (&b"two"[..], &stat));
    assert_eq!(client.read_range(&path, 13, 10, None).expect("it is read").bytes, b"");
    assert_eq!(client.read_range(&path, u64::MAX, u64::MAX, None).expect("it is read").bytes, b"");
    assert_eq!(client.read_range(&path, 8, u64::MAX, None).expect("it is read").bytes, b"three");
    // The mode of what was replaced stays.
    let again = client.write_file(&path, None, Condition::Always, &mut &b"four"[..]).expect("it is written");
    assert!(again.mode == 0o640 && again.version != stat.version, "{again:?}");
    let longer = client.append_file(&path, None, None, &mut &b" five"[..]).expect("it is appended");
    assert!(longer.size == 9 && longer.version != again.version, "{longer:?}");
    assert_eq!(read_all(&mut client, &path).expect("it is read"), b"four five");
    let new = client.write_file(&inside.at("new"), None, Condition::Always, &mut &b""[..]).expect("it is written");
    assert_eq!((new.mode, new.size), (0o644, 0));
    assert_eq!(errno(client.append_file(&inside.at("other"), None, None, &mut &b"x"[..])), Errno::NOENT);
    let made = client.append_file(&inside.at("other"), Some(0o600), None, &mut &b"x"[..]).expect("it is created");
    assert_eq!((made.mode, made.size), (0o600, 1));
    // A link is followed to where its file is, and stays.
    inside.sh("$B mkdir far && $B ln -s far/real near && $B ln -s far/later first");
    client.write_file(&inside.at("near"), None, Condition::Always, &mut &b"linked"[..]).expect("it is written");
    client.append_file(&inside.at("first"), Some(0o644), None, &mut &b"linked"[..]).expect("it is appended");
    assert_eq!((inside.read("far/real"), inside.read("far/later")), (b"linked".to_vec(), b"linked".to_vec()));
    let link = client.stat(&inside.at("near"), false).expect("it is there");
    assert_eq!((link.kind, link.link), (EntryKind::Link, Some(Text::from("far/real"))));
    assert_eq!(client.stat(&inside.at("near"), true).expect("it is there").kind, EntryKind::File);
    // Names are bytes.
    let odd = inside.base.join(OsStr::from_bytes(b"\xff\n\x01"));
    client.write_file(&odd, None, Condition::Always, &mut &b"odd"[..]).expect("it is written");
    assert_eq!(read_all(&mut client, &odd).expect("it is read"), b"odd");
    let expected: [&[u8]; 7] = [b"far", b"file", b"first", b"near", b"new", b"other", b"\xff\n\x01"];
    let names: Vec<_> = inside.list(&inside.base).iter().map(|listed| listed.name.as_bytes().to_vec()).collect();
    assert_eq!(names, expected);
    client.delete(&odd, false, None).expect("it is deleted");
    client.delete(&inside.at("near"), true, None).expect("only the link is");
    assert_eq!(inside.read("far/real"), b"linked");
    assert_eq!(errno(client.delete(&inside.at("near"), true, None)), Errno::NOENT);
}

pub(super) fn conditions_are_kept(inside: &Inside) {
    let mut client = inside.connect();
    let path = inside.at("file");
    let first = client.write_file(&path, None, Condition::IsAbsent, &mut &b"first"[..]).expect("nothing is there");
    assert_eq!(errno(client.write_file(&path, None, Condition::IsAbsent, &mut &b"second"[..])), Errno::EXIST);
    let is_first = || Condition::IsVersion(first.version.clone());
    let second = client.write_file(&path, None, is_first(), &mut &b"second"[..]).expect("it is the first");
    let refused = failed(client.write_file(&path, None, is_first(), &mut &b"third"[..]));
    assert_eq!(refused.reason, Reason::OtherVersion);
    let old = Some(first.version.as_str());
    assert_eq!(failed(client.append_file(&path, None, old, &mut &b"third"[..])).reason, Reason::OtherVersion);
    assert_eq!(failed(client.read_range(&path, 0, 1, old)).reason, Reason::OtherVersion);
    assert_eq!(failed(client.delete(&path, false, old)).reason, Reason::OtherVersion);
    let gone = failed(client.write_file(&inside.at("gone"), None, is_first(), &mut &b"x"[..]));
    assert_eq!(gone.reason, Reason::OtherVersion);
    assert_eq!(inside.read("file"), b"second");
    client.delete(&path, false, Some(&second.version)).expect("it is the second");
    // What changes while it is on its way counts too.
    struct Meanwhile<'a>(&'a Inside, bool);
    impl Read for Meanwhile<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if std::mem::replace(&mut self.1, true) {
                return Ok(0);
            }
            self.0.write("file", b"theirs");
            buffer[..4].copy_from_slice(b"ours");
            Ok(4)
        }
    }
    assert_eq!(errno(client.write_file(&path, None, Condition::IsAbsent, &mut Meanwhile(inside, false))), Errno::EXIST);
    assert_eq!(inside.read("file"), b"theirs");
    let theirs = client.stat(&path, false).expect("it is there").version;
    let refused = failed(client.write_file(&path, None, Condition::IsVersion(theirs), &mut Meanwhile(inside, false)));
    assert_eq!(refused.reason, Reason::OtherVersion);
    // What cannot be read is not written.
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::TimedOut.into())
        }
    }
    let refused = client.write_file(&path, None, Condition::Always, &mut Broken);
    assert!(matches!(refused, Err(ClientError::Source(_))), "{refused:?}");
    Inside::eventually("nothing else is left there", || inside.names() == ["file"]);
    assert_eq!(inside.read("file"), b"theirs");
}

pub(super) fn directories_are_made_moved_and_deleted(inside: &Inside) {
    let mut client = inside.connect();
    client.make_directories(&inside.at("a/b/c"), 0o755).expect("they are made");
    client.make_directories(&inside.at("a/b/c"), 0o755).expect("they are there");
    inside.write("a/b/c/file", b"content");
    assert_eq!(errno(client.make_directories(&inside.at("a/b/c/file"), 0o755)), Errno::NOTDIR);
    assert_eq!(errno(client.make_directories(&inside.at("a/b/c/file/d"), 0o755)), Errno::NOTDIR);
    client.move_file(&inside.at("a/b"), &inside.at("moved"), false).expect("it is moved");
    assert_eq!(inside.read("moved/c/file"), b"content");
    inside.write("there", b"there");
    assert_eq!(errno(client.move_file(&inside.at("moved/c/file"), &inside.at("there"), false)), Errno::EXIST);
    assert_eq!(inside.read("there"), b"there");
    client.move_file(&inside.at("moved/c/file"), &inside.at("there"), true).expect("it is replaced");
    assert_eq!(inside.read("there"), b"content");
    assert_eq!(errno(client.move_file(&inside.at("nothing"), &inside.at("there"), true)), Errno::NOENT);
    assert_eq!(errno(client.delete(&inside.at("moved"), false, None)), Errno::NOTEMPTY);
    client.delete(&inside.at("moved/c"), false, None).expect("it is empty");
    client.delete(&inside.at("a"), true, None).expect("it is deleted");
    client.delete(&inside.at("moved"), true, None).expect("it is deleted");
    assert_eq!(inside.names(), ["there"]);
    assert_eq!(errno(client.list_page(&inside.at("there"), None, 10)), Errno::NOTDIR);
    assert_eq!(errno(client.list_page(&inside.at("a"), None, 10)), Errno::NOENT);
}

/// `WHATIF_ENTRIES` is how many.
pub(super) fn a_directory_is_listed_in_pages(inside: &Inside) {
    let count: usize = std::env::var("WHATIF_ENTRIES").map_or(20_000, |text| text.parse().expect("it is a number"));
    inside.sh(&format!("$B mkdir many && cd many && $B seq 1000001 {} | $B xargs $B touch", 1_000_000 + count));
    let mut client = inside.connect();
    let (page, next) = client.list_page(&inside.at("many"), None, 3).expect("it can be listed");
    let names: Vec<_> = page.iter().map(|listed| listed.name.clone()).collect();
    assert_eq!(names, ["1000001", "1000002", "1000003"].map(Text::from));
    assert_eq!(next, Some(Text::from("1000003")));
    let all = inside.list(&inside.at("many"));
    assert!(all.iter().map(|listed| &listed.name).is_sorted() && all.len() == count, "{} of {count}", all.len());
    // What comes and goes between pages changes nothing about the rest.
    let (_, next) = client.list_page(&inside.at("many"), None, 5).expect("it can be listed");
    inside.sh("cd many && $B rm 1000001 1000005 1000006 && $B touch 1000000");
    let (page, _) = client.list_page(&inside.at("many"), next.as_ref(), 2).expect("it can be listed");
    let names: Vec<_> = page.iter().map(|listed| listed.name.clone()).collect();
    assert_eq!(names, ["1000007", "1000008"].map(Text::from));
}

pub(super) fn large_files_pass_through(inside: &Inside) {
    let bytes: Vec<u8> = (0..24_000_001_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut client = inside.connect();
    let stat = client.write_file(&inside.at("large"), None, Condition::Always, &mut bytes.as_slice()).expect("it is written");
    assert_eq!(stat.size, bytes.len() as u64);
    assert!(inside.read("large") == bytes, "it is what was written");
    client.append_file(&inside.at("large"), None, None, &mut bytes.as_slice()).expect("it is appended");
    assert_eq!(client.stat(&inside.at("large"), false).expect("it is there").size, 2 * bytes.len() as u64);
    inside.sh("$B tail -c 24000001 large | $B cmp - large 2>&1 | $B grep -q 'EOF' || true; [ $($B stat -c %s large) = 48000002 ]");
}
