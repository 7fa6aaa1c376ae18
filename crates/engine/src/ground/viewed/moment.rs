//! A moment in the clock of file systems that parts what was before from what comes after.
//!
//! File systems take their times from a clock that moves in ticks of up to 10 ms, so a time alone does not tell on which side of a
//! moment within a tick a change was. Since 6.13 the kernel gives a file that was looked at a precise time with its next change, and
//! from then on nothing anywhere an earlier one: the time of such a change is the moment. Elsewhere the next tick has to begin.

use std::thread;
use std::time::Duration;

use rustix::fs::{MemfdFlags, Mode, fchmod, fstat, memfd_create};
use rustix::io;
use whatif_sys::clock::ticks as tick;

/// Seconds and nanoseconds.
type Time = (i64, u32);

/// Longer than a tick of any kernel.
const MOST_WAITED: Duration = Duration::from_millis(12);
const STEP: Duration = Duration::from_micros(250);

/// Whatever was changed before bears an earlier time; what is changed from now on, this or a later one.
pub(super) fn now() -> Time {
    let before = tick();
    match time_of_a_change() {
        Ok(time) if time > before && time != tick() => time,
        _ => next_tick(before),
    }
}

/// In memory, where it costs least: all file systems take their times from one clock.
fn time_of_a_change() -> io::Result<Time> {
    let file = memfd_create("moment", MemfdFlags::CLOEXEC)?;
    let looked_at = fstat(&file)?;
    fchmod(&file, Mode::from_raw_mode(looked_at.st_mode))?;
    let changed = fstat(&file)?;
    Ok((changed.st_ctime as i64, changed.st_ctime_nsec as u32))
}

fn next_tick(before: Time) -> Time {
    let mut now = tick();
    let mut waited = Duration::ZERO;
    while now == before && waited < MOST_WAITED {
        thread::sleep(STEP);
        waited += STEP;
        now = tick();
    }
    now
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    use super::{next_tick, now, tick};

    #[test]
    fn what_was_written_before_is_earlier_and_what_is_written_after_is_not() {
        let directory = std::env::temp_dir().join(format!("whatif-moment-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let write = |name: String| {
            let path = directory.join(name);
            fs::write(&path, "x").unwrap();
            path
        };
        let time = |path: &Path| fs::symlink_metadata(path).map(|m| (m.ctime(), m.ctime_nsec() as u32)).unwrap();
        for round in 0..50 {
            let before = write(format!("before{round}"));
            let moment = now();
            let after = write(format!("after{round}"));
            assert!(time(&before) < moment, "{:?} is before {moment:?}", time(&before));
            assert!(time(&after) >= moment, "{:?} is not before {moment:?}", time(&after));
        }
        let _ = fs::remove_dir_all(&directory);
    }

    /// Files written meanwhile would prove nothing: this kernel may be one that gives precise times.
    #[test]
    fn where_the_kernel_only_has_ticks_it_is_the_beginning_of_one() {
        for _ in 0..5 {
            let before = tick();
            let moment = next_tick(before);
            assert!(before < moment && moment <= tick());
        }
    }
}
