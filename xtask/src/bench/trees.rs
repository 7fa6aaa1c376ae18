//! What the size of the project does to the cost of a sandbox: nothing, it is hoped.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Gid, IFlags, Mode, Uid};

use super::figure::{Bar, Figure, Ratio, Unit};
use super::measure::{Contender, interleaved};
use super::report::Report;
use super::scratch::Scratch;
use crate::failure::{Failure, on};

const FILES_PER_DIRECTORY: usize = 1000;

pub fn measure(scratch: &Scratch, sizes: &[usize], rounds: usize, report: &mut Report) -> Result<(), Failure> {
    let trees = sizes.iter().map(|&files| make(scratch, files)).collect::<Result<Vec<_>, _>>()?;
    // Or the disk would still be writing them while we measure.
    scratch.flush()?;

    let contender = |tree: &PathBuf| {
        let tree = tree.clone();
        let command = move |_| {
            let mut command = scratch.whatif(&["run", "--", "true"]);
            command.current_dir(&tree);
            command
        };
        Contender { label: "whatif run -- true in a large tree".to_owned(), command: Box::new(command) }
    };
    let contenders: Vec<_> = trees.iter().map(contender).collect();
    let samples = interleaved(scratch, &contenders, rounds)?;

    let smallest = samples.first().map_or(f64::NAN, |samples| samples.returned.median_ms());
    let figures = sizes.iter().zip(&samples).enumerate().map(|(index, (&files, samples))| {
        let value = samples.returned.median_ms();
        let is_larger = index > 0;
        Figure {
            p90: Some(samples.returned.p90_ms()),
            ratio: is_larger.then(|| Ratio { to: shown(sizes[0]), value: value / smallest }),
            bar: is_larger.then_some(Bar::RatioAtMost(1.2)),
            ..Figure::new(shown(files), value, Unit::Milliseconds)
        }
    });
    report.group("whatif run -- true, by tree size", figures.collect(), Vec::new());
    Ok(())
}

fn make(scratch: &Scratch, files: usize) -> Result<PathBuf, Failure> {
    let tree = scratch.trees().join(files.to_string());
    scratch.make_owned(&tree)?;
    spread(&tree);
    for number in 0..files.div_ceil(FILES_PER_DIRECTORY) {
        // The process makes the name a new one, and with it the part of the disk.
        let directory = tree.join(format!("directory-{}-{number}", std::process::id()));
        scratch.make_owned(&directory)?;
        fill(&directory, FILES_PER_DIRECTORY.min(files - number * FILES_PER_DIRECTORY), scratch.uid())?;
    }
    Ok(tree)
}

/// Asks ext4 to put the directories in different parts of the disk. Close together they would use inodes that the last
/// measurement freed, and ext4 steps over each of those, every time, for minutes: making files becomes a hundred times
/// slower, and making sandboxes with it. Other file systems do not know the request, and do not need it.
pub fn spread(tree: &Path) {
    if let Ok(handle) = File::open(tree) {
        let _ = rustix::fs::ioctl_getflags(&handle).and_then(|flags| rustix::fs::ioctl_setflags(&handle, flags | IFlags::TOPDIR));
    }
}

/// Empty files, by one call each: a million of them must not take minutes.
fn fill(directory: &Path, files: usize, owner: u32) -> Result<(), Failure> {
    let handle = File::open(directory).map_err(on("open", directory))?;
    let is_anothers = owner != rustix::process::geteuid().as_raw();
    for number in 0..files {
        let name = format!("file-{number}");
        rustix::fs::mknodat(&handle, &name, FileType::RegularFile, Mode::from_raw_mode(0o644), 0).map_err(on("fill", directory))?;
        if is_anothers {
            let (uid, gid) = (Uid::from_raw(owner), Gid::from_raw(owner));
            rustix::fs::chownat(&handle, &name, Some(uid), Some(gid), rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
                .map_err(on("give away the files of", directory))?;
        }
    }
    Ok(())
}

fn shown(files: usize) -> String {
    match files {
        1_000_000.. => format!("{} M files", files / 1_000_000),
        _ => format!("{} k files", files / 1000),
    }
}
