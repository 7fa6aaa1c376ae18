//! Processes inside that mean no good, and clients that know no better.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use whatif_keeper::protocol::{Condition, FileReply, FileRequest, Reason, Reply, Request, Text};

use super::{Inside, errno, failed};

/// Opening or reading any of these would wait for somebody.
pub(super) fn nothing_is_waited_for(inside: &Inside) {
    inside
        .sh("$B mkfifo pipe && $B mkdir directory && $B ln -s pipe to-pipe && $B ln -s /dev/null to-device && $B ln -s self self");
    let mut client = inside.connect();
    let began = Instant::now();
    for path in ["pipe", "to-pipe", "to-device"] {
        let path = inside.at(path);
        assert_eq!(failed(client.read_range(&path, 0, 10, None)).reason, Reason::NotAFile, "{path:?}");
        assert_eq!(failed(client.append_file(&path, Some(0o644), None, &mut &b"x"[..])).reason, Reason::NotAFile, "{path:?}");
        assert_eq!(failed(client.write_file(&path, None, Condition::Always, &mut &b"x"[..])).reason, Reason::NotAFile, "{path:?}");
    }
    // A process that waits there is not woken.
    let waiting = inside.sh_meanwhile("$B cat pipe");
    assert_eq!(failed(client.append_file(&inside.at("pipe"), None, None, &mut &b"x"[..])).reason, Reason::NotAFile);
    drop(waiting);
    for path in ["directory", "."] {
        let path = inside.at(path);
        assert_eq!(errno(client.read_range(&path, 0, 10, None)), Errno::ISDIR);
        assert_eq!(errno(client.append_file(&path, None, None, &mut &b"x"[..])), Errno::ISDIR);
        assert_eq!(errno(client.write_file(&path, None, Condition::Always, &mut &b"x"[..])), Errno::ISDIR);
    }
    assert_eq!(errno(client.read_range(&inside.at("self"), 0, 10, None)), Errno::LOOP);
    assert_eq!(errno(client.write_file(&inside.at("self"), None, Condition::Always, &mut &b"x"[..])), Errno::LOOP);
    assert_eq!(errno(client.list_page(&inside.at("self"), None, 10)), Errno::LOOP);
    assert!(client.stat(&inside.at("self"), false).is_ok());
    // The kernel's own files are regular ones to look at.
    for path in ["/proc/1/environ", "/proc/self/mem", "/proc/cpuinfo", "/proc/sys/kernel/hostname"] {
        let refused = failed(client.read_range(Path::new(path), 0, 10, None));
        assert!(refused.reason == Reason::NotAFile || refused.errno != 0, "{path}: {refused:?}");
    }
    // What can be deleted and moved is not opened for that.
    client.move_file(&inside.at("pipe"), &inside.at("moved"), false).expect("it is moved");
    client.delete(&inside.at("moved"), false, None).expect("it is deleted");
    assert!(began.elapsed() < Duration::from_secs(8), "nobody waited: {:?}", began.elapsed());
    assert!(inside.is_responsive());
}

pub(super) fn links_lead_nowhere_else(inside: &Inside) {
    inside.sh("$B mkdir tree kept; echo kept > kept/file; $B ln -s ../kept tree/link; $B ln -s $PWD/kept tree/absolute; \
               $B ln -s /proc/self/root tree/root; $B ln -s /proc/1/cwd tree/cwd; $B ln -s /proc/1/fd tree/fd");
    let mut client = inside.connect();
    for path in ["tree/root/proc/version", "tree/cwd/x", "tree/fd/0"] {
        let path = inside.at(path);
        assert!(client.stat(&path, true).is_err(), "{path:?}");
        assert!(client.write_file(&path, None, Condition::Always, &mut &b"x"[..]).is_err(), "{path:?}");
        assert!(client.list_page(&path, None, 10).is_err(), "{path:?}");
    }
    client.delete(&inside.at("tree"), true, None).expect("it is deleted");
    assert_eq!(inside.read("kept/file"), b"kept\n");
    assert_eq!(inside.names(), ["kept"]);
}

pub(super) fn nonsense_is_refused(inside: &Inside) {
    let mut client = inside.connect();
    let nul = PathBuf::from("/a\0b");
    let long = PathBuf::from(format!("/{}", "x/".repeat(3000)));
    let endless = PathBuf::from(format!("/{}", "x".repeat(1 << 20)));
    for (path, expected) in [
        (Path::new("relative"), Errno::INVAL),
        (Path::new(""), Errno::INVAL),
        (&nul, Errno::INVAL),
        (&long, Errno::NAMETOOLONG),
        (&endless, Errno::NAMETOOLONG),
    ] {
        assert_eq!(errno(client.stat(path, false)), expected);
        assert_eq!(errno(client.read_range(path, 0, 1, None)), expected);
        assert_eq!(errno(client.list_page(path, None, 1)), expected);
        assert_eq!(errno(client.write_file(path, None, Condition::Always, &mut &b"x"[..])), expected);
        assert_eq!(errno(client.append_file(path, Some(0o644), None, &mut &b"x"[..])), expected);
        assert_eq!(errno(client.delete(path, true, None)), expected);
        assert_eq!(errno(client.move_file(path, &inside.at("to"), true)), expected);
        assert_eq!(errno(client.make_directories(path, 0o755)), expected);
        assert_eq!(errno(client.watch(path)), expected);
    }
    inside.write("file", b"content");
    for path in ["/", "/..", "/proc/.."] {
        assert!(client.delete(Path::new(path), true, None).is_err(), "{path}");
        assert!(client.move_file(Path::new(path), &inside.at("to"), true).is_err(), "{path}");
        assert!(client.write_file(Path::new(path), None, Condition::Always, &mut &b"x"[..]).is_err(), "{path}");
    }
    // Without what it is to be filled from.
    let write = FileRequest::Write { path: Text::from(&inside.at("none")), mode: None, condition: Condition::Always };
    client.send(&Request::Files(write), &[]).expect("it is sent");
    assert_eq!(errno(client.reply()), Errno::BADF);
    // A piece of work at a time.
    let (mut client, half) = inside.half_written("half");
    assert_eq!(errno(client.stat(&inside.at("file"), false)), Errno::BUSY);
    drop(half);
    client.send(&Request::Files(FileRequest::Finish { length: Some(30_001) }), &[]).expect("it is sent");
    assert_eq!(errno(client.reply()), Errno::IO, "less came than was said");
    assert_eq!(inside.names(), ["file"]);
    // What is not there is not answered, and what follows is.
    client.send(&Request::Files(FileRequest::Finish { length: Some(1) }), &[]).expect("it is sent");
    assert_eq!(client.stat(&inside.at("file"), false).expect("it answers").size, 7);
}

pub(super) fn deep_and_wide_trees_are_deleted_beside_other_work(inside: &Inside) {
    inside.sh("$B mkdir tree && cd tree && $B seq 1 15000 | $B xargs $B touch; i=0; \
         while [ $i -lt 1500 ]; do $B mkdir d && cd d && echo x > f; i=$((i+1)); done");
    let mut client = inside.connect();
    let began = Instant::now();
    let delete = FileRequest::Delete { path: Text::from(&inside.at("tree")), recursive: true, if_version: None };
    client.send(&Request::Files(delete), &[]).expect("it is sent");
    for _ in 0..20 {
        assert!(inside.is_responsive());
    }
    let deleted = loop {
        match client.reply().expect("it answers") {
            Reply::Files(FileReply::Working) => {}
            other => break other,
        }
    };
    assert!(matches!(deleted, Reply::Done), "{deleted:?}");
    assert!(inside.names().is_empty() && began.elapsed() < Duration::from_secs(60));
    // Somebody who never stops making more of it.
    inside.sh("$B mkdir fed");
    let feeder = inside.sh_meanwhile("cd fed; i=0; while :; do i=$((i+1)); echo > $i 2>/dev/null || $B mkdir -p $PWD; done");
    let mut client = inside.connect();
    for _ in 0..20 {
        // It is deleted, or cannot be; nobody else waits for it.
        let _ = client.delete(&inside.at("fed"), true, None);
        assert!(inside.is_responsive());
    }
    drop(feeder);
}

pub(super) fn a_writer_that_leaves_changes_nothing(inside: &Inside) {
    inside.write("file", b"old");
    let (client, half) = inside.half_written("file");
    Inside::eventually("it has begun", || inside.names().len() == 2);
    assert_eq!(inside.read("file"), b"old");
    drop(client);
    Inside::eventually("it is gone", || inside.names() == ["file"]);
    drop(half);
    assert_eq!(inside.read("file"), b"old");
    // The end of what is sent is not the end of the file, unless the client says so.
    let (mut client, half) = inside.half_written("file");
    drop(half);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(inside.read("file"), b"old");
    client.send(&Request::Files(FileRequest::Finish { length: Some(30_000) }), &[]).expect("it is sent");
    assert!(matches!(client.reply(), Ok(Reply::Files(FileReply::Stat(stat))) if stat.size == 30_000));
    // A directory that is deleted meanwhile.
    inside.sh("$B mkdir directory");
    let (mut client, half) = inside.half_written("directory/file");
    inside.connect().delete(&inside.at("directory"), true, None).expect("it is deleted");
    drop(half);
    client.send(&Request::Files(FileRequest::Finish { length: Some(30_000) }), &[]).expect("it is sent");
    assert_eq!(errno(client.reply()), Errno::NOENT);
}

pub(super) fn nothing_is_written_while_it_is_held_still(inside: &Inside) {
    inside.write("file", b"old");
    let (mut client, mut half) = inside.half_written("file");
    let mut holder = inside.connect();
    holder.freeze().expect("it is held");
    half.write_all(b"rest").expect("it is sent");
    drop(half);
    client.send(&Request::Files(FileRequest::Finish { length: Some(30_004) }), &[]).expect("it is sent");
    let mut other = inside.connect();
    let delete = FileRequest::Delete { path: Text::from(&inside.at("file")), recursive: false, if_version: None };
    other.send(&Request::Files(delete), &[]).expect("it is sent");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(inside.read("file"), b"old");
    holder.thaw().expect("it goes on");
    assert!(matches!(client.reply(), Ok(Reply::Files(FileReply::Stat(_)))));
    assert!(matches!(other.reply(), Ok(Reply::Done)));
    // When the layers change, what was begun is over.
    let (mut client, half) = inside.half_written("later");
    holder.freeze().expect("it is held");
    holder.change_layers().expect("they change");
    assert_eq!(errno(client.reply()), Errno::STALE);
    holder.thaw().expect("it goes on");
    drop(half);
    assert!(!inside.names().iter().any(|name| name.contains("whatif") || name == "later"), "{:?}", inside.names());
}

/// A disk that is full, or a limit of the sandbox.
pub(super) fn what_has_no_room_is_reported(inside: &Inside) {
    let is_stream = inside.busybox == Path::new("/busybox");
    if is_stream {
        inside.sh("$B mkdir small && $B mount -t tmpfs -o size=4m none small");
    } else {
        inside.sh("$B mkdir small");
    }
    inside.write("small/file", b"old");
    let mut client = inside.connect();
    let refused = [Errno::NOSPC, Errno::DQUOT];
    let found = errno(client.write_file(&inside.at("small/file"), None, Condition::Always, &mut std::io::repeat(7).take(3 << 30)));
    assert!(refused.contains(&found), "{found}");
    assert_eq!(inside.read("small/file"), b"old");
    assert_eq!(inside.list(&inside.at("small")).len(), 1, "nothing else is left");
    let found = errno(client.append_file(&inside.at("small/file"), None, None, &mut std::io::repeat(7).take(3 << 30)));
    assert!(refused.contains(&found), "{found}");
    client.delete(&inside.at("small/file"), false, None).expect("there is room for that");
    client.write_file(&inside.at("small/file"), None, Condition::Always, &mut &b"new"[..]).expect("there is room again");
}
