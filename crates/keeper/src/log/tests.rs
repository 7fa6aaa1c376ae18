use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use super::*;

fn files() -> [File; 2] {
    [(); 2].map(|()| File::from(memfd_create("log", MemfdFlags::ALLOW_SEALING).unwrap()))
}

fn same(files: &[File; 2]) -> [File; 2] {
    [files[0].try_clone().unwrap(), files[1].try_clone().unwrap()]
}

/// All there is, each gap as a part of its own.
#[derive(Debug, Default, PartialEq)]
struct Read {
    output: Vec<u8>,
    /// After how much output, and how much.
    gaps: Vec<(usize, u64)>,
}

impl Read {
    fn rest(&mut self, reader: &mut Reader) {
        let mut buffer = [0; 999];
        while let Some(part) = reader.next(&mut buffer).unwrap() {
            match part {
                Part::Output(length) => self.output.extend_from_slice(&buffer[..length]),
                Part::Dropped(length) => self.gaps.push((self.output.len(), length)),
            }
        }
    }

    fn all(files: &[File; 2]) -> Self {
        let mut read = Self::default();
        read.rest(&mut Reader::new(same(files).into()));
        read
    }

    fn dropped(&self) -> u64 {
        self.gaps.iter().map(|(_, length)| length).sum()
    }
}

/// The byte at each place of a stream in which no stretch looks like another.
fn stream(from: u64, length: usize) -> Vec<u8> {
    (from..from + length as u64).map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

#[test]
fn what_is_short_is_kept_whole() {
    let files = files();
    let mut writer = Writer::new(same(&files));
    assert_eq!(Read::all(&files), Read::default());
    writer.write(b"out\n");
    writer.write(b"err\n");
    assert_eq!(Read::all(&files), Read { output: b"out\nerr\n".to_vec(), gaps: vec![] });
}

#[test]
fn the_latest_part_is_kept_within_the_bound() {
    for total in [900, 1000, 1001, 1955, 1956, 2500, 12_345] {
        let files = files();
        let mut writer = Writer::with_files_of(1000, same(&files));
        for at in (0..total).step_by(77) {
            writer.write(&stream(at as u64, 77.min(total - at)));
            assert!(files.iter().all(|f| f.metadata().unwrap().len() <= 1000));
        }
        let read = Read::all(&files);
        assert_eq!(read.dropped() + read.output.len() as u64, total as u64);
        assert_eq!(read.output, stream(read.dropped(), read.output.len()), "the end of the stream, of {total}");
        assert!(read.output.len() >= total.min(1000 - HEADER_LENGTH), "at least one whole file");
        assert!(read.gaps.iter().all(|(at, _)| *at == 0), "what is gone is the beginning: {:?}", read.gaps);
    }
}

#[test]
fn a_reader_that_keeps_up_misses_nothing() {
    let files = files();
    let mut writer = Writer::with_files_of(1000, same(&files));
    let mut reader = Reader::new(same(&files).into());
    let mut read = Read::default();
    for at in (0..50_000).step_by(500) {
        writer.write(&stream(at, 500));
        read.rest(&mut reader);
    }
    assert_eq!(read, Read { output: stream(0, 50_000), gaps: vec![] });
}

#[test]
fn a_reader_beside_a_quick_writer_sees_each_byte_once_or_hears_that_it_is_gone() {
    const TOTAL: u64 = 20_000_000;
    let files = files();
    let mut writer = Writer::with_files_of(5000, same(&files));
    let ended = AtomicBool::new(false);
    let mut reader = Reader::new(same(&files).into());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for at in (0..TOTAL).step_by(1000) {
                writer.write(&stream(at, 1000));
            }
            ended.store(true, Ordering::Release);
        });
        let (mut position, mut buffer) = (0, [0; 700]);
        loop {
            let was_ended = ended.load(Ordering::Acquire);
            match reader.next(&mut buffer).unwrap() {
                Some(Part::Output(length)) => {
                    assert_eq!(buffer[..length], stream(position, length), "at {position}");
                    position += length as u64;
                }
                Some(Part::Dropped(length)) => position += length,
                None if was_ended => break,
                None => std::thread::yield_now(),
            }
        }
        assert_eq!(position, TOTAL);
    });
}

#[test]
fn what_a_full_disk_takes_is_counted_where_it_is_missing() {
    let files = files();
    let mut writer = Writer::with_files_of(1000, same(&files));
    writer.write(&stream(0, 100));
    fcntl_add_seals(&files[0], SealFlags::GROW).unwrap();
    let mut reader = Reader::new(same(&files).into());
    let mut read = Read::default();
    writer.write(&stream(100, 50));
    read.rest(&mut reader);
    assert_eq!(read, Read { output: stream(0, 100), gaps: vec![(100, 50)] }, "known before anything else comes");
    writer.write(&stream(150, 30));
    read.rest(&mut reader);
    assert_eq!(read.output, [stream(0, 100), stream(150, 30)].concat(), "there is room elsewhere");
    assert_eq!(Read::all(&files), read);
}

#[test]
fn a_disk_that_was_full_from_the_beginning_is_counted_too() {
    let files = files();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut writer = Writer::with_files_of(1000, [full, files[1].try_clone().unwrap()]);
    writer.write(b"lost");
    assert_eq!(Read::all(&files), Read::default());
    writer.files[0] = files[0].try_clone().unwrap();
    writer.write(b"kept");
    assert_eq!(Read::all(&files), Read { output: b"kept".to_vec(), gaps: vec![(0, 4)] });
}

#[test]
fn a_log_of_before_is_all_content() {
    let files = files();
    files[0].write_all_at(b"whatif-log is how this output happens to begin, and it is longer than a header\n", 0).unwrap();
    assert!(Read::all(&files).output.ends_with(b"than a header\n"));
    files[0].write_all_at(b"short", 0).unwrap();
    files[0].set_len(5).unwrap();
    assert_eq!(Read::all(&files).output, b"short");
}

#[test]
fn headers_have_one_length_and_are_read_as_written() {
    for header in [Header { start: 0, dropped: 0 }, Header { start: u64::MAX, dropped: 1 }, Header { start: 7, dropped: u64::MAX }]
    {
        let line = header.to_line();
        assert_eq!(line.len(), HEADER_LENGTH);
        assert_eq!(Header::parse(line.as_bytes()), Some(header));
        assert_eq!(Header::parse(&line.as_bytes()[..HEADER_LENGTH - 1]), None);
    }
    assert_eq!(Header::parse(b"whatif-log +00000000000000f 0000000000000000\n"), None);
}

#[test]
fn what_somebody_has_not_taken_has_room_as_long_as_nothing_of_it_is_given_up() {
    const FILE: u64 = 1000 + HEADER_LENGTH as u64;
    let files = files();
    let mut writer = Writer::with_files_of(FILE, same(&files));
    // Somebody who took `taken` bytes, while `TOTAL` are written as there is room for them.
    let (mut taken, mut written) = (0, 0);
    let mut reader = Reader::new(same(&files).into());
    let mut buffer = [0; 170];
    while written < 50_000 {
        let room = usize::try_from(writer.room_beside(taken)).unwrap().min(300);
        writer.write(&stream(written, room));
        written += room as u64;
        assert_eq!(writer.end(), written);
        assert!(writer.first() <= taken, "what begins at {taken} was given up");
        if let Some(part) = reader.next(&mut buffer).unwrap() {
            let Part::Output(length) = part else { panic!("something is gone at {taken}") };
            assert_eq!(buffer[..length], stream(taken, length));
            taken += length as u64;
        }
    }
    assert!(writer.room_beside(taken) < 2000 && written > taken, "it was held up");
    writer.keep_all();
    writer.write(&stream(written, 5000));
    let mut rest = Read::default();
    rest.rest(&mut reader);
    assert_eq!(rest, Read { output: stream(taken, (written + 5000 - taken) as usize), gaps: vec![] });
}
