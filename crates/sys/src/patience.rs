//! Waiting for what another process does soon, where nothing tells that it has.

use std::convert::Infallible;
use std::thread;
use std::time::{Duration, Instant};

/// Most of what is waited for happens at once: whoever finishes a snapshot has its lock for less than a millisecond more. Whatever
/// takes longer should not be disturbed by looks.
const FIRST_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

/// Looks until there is an answer, at least once; `None` when the patience is at its end.
pub fn until<T>(patience: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let Ok(answer) = try_until(patience, || Ok::<_, Infallible>(look()));
    answer
}

/// The same where a look can fail, which ends it.
pub fn try_until<T, E>(patience: Duration, mut look: impl FnMut() -> Result<Option<T>, E>) -> Result<Option<T>, E> {
    let deadline = Instant::now() + patience;
    let mut pause = FIRST_PAUSE;
    loop {
        if let Some(answer) = look()? {
            return Ok(Some(answer));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(pause);
        pause = LONGEST_PAUSE.min(pause * 2);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{try_until, until};

    #[test]
    fn it_looks_at_least_once_and_no_more_than_it_must() {
        let mut looks = 0;
        let mut third = || {
            looks += 1;
            (looks == 3).then_some(looks)
        };
        assert_eq!(until(Duration::ZERO, &mut third), None);
        assert_eq!(until(Duration::from_secs(60), &mut third), Some(3));
        assert_eq!(try_until::<(), _>(Duration::from_secs(60), || Err("broken")), Err("broken"));
    }
}
