//! What a program says until it ends. The standard library panics if that cannot be read.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::process::{Child, Command, Output, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{ioctl_fionbio, retry_on_intr};

/// Runs a program and takes what it says on both of its streams.
pub fn run_to_end(command: &mut Command) -> io::Result<Output> {
    wait_to_end(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
}

/// The same for one that runs already. It is given nothing more to read.
pub fn wait_to_end(mut child: Child) -> io::Result<Output> {
    drop(child.stdin.take());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    // If they cannot be read, they are closed, and the program has nobody to wait for.
    let said = read_both(stdout, stderr);
    let status = child.wait()?;
    let (stdout, stderr) = said?;
    Ok(Output { status, stdout, stderr })
}

fn read_both(stdout: Option<impl Read + AsFd>, stderr: Option<impl Read + AsFd>) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let (mut stdout, mut stderr) = (Stream::new(stdout)?, Stream::new(stderr)?);
    while stdout.is_open() || stderr.is_open() {
        let mut open: Vec<PollFd<'_>> = [stdout.awaited(), stderr.awaited()].into_iter().flatten().collect();
        retry_on_intr(|| poll(&mut open, None))?;
        drop(open);
        stdout.take()?;
        stderr.take()?;
    }
    Ok((stdout.said, stderr.said))
}

/// One of the two, until it ends.
struct Stream<R> {
    from: Option<R>,
    said: Vec<u8>,
}

impl<R: Read + AsFd> Stream<R> {
    fn new(from: Option<R>) -> io::Result<Self> {
        from.as_ref().map_or(Ok(()), |from| ioctl_fionbio(from, true))?;
        Ok(Self { from, said: Vec::new() })
    }

    fn is_open(&self) -> bool {
        self.from.is_some()
    }

    fn awaited(&self) -> Option<PollFd<'_>> {
        self.from.as_ref().map(|from| PollFd::new(from, PollFlags::IN))
    }

    /// What has arrived.
    fn take(&mut self) -> io::Result<()> {
        let Some(from) = &mut self.from else { return Ok(()) };
        match from.read_to_end(&mut self.said) {
            Ok(_) => self.from = None,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_streams_are_taken_however_much_they_say() {
        let mut command = Command::new("sh");
        command.args(["-c", "head -c 300000 /dev/zero >&2; head -c 200000 /dev/zero; exit 3"]);
        let said = run_to_end(&mut command).unwrap();
        assert_eq!((said.stdout.len(), said.stderr.len(), said.status.code()), (200_000, 300_000, Some(3)));
    }

    #[test]
    fn an_error_is_no_panic() {
        struct Broken(std::fs::File);
        impl AsFd for Broken {
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                self.0.as_fd()
            }
        }
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::from(rustix::io::Errno::IO))
            }
        }
        let broken = Some(Broken(std::fs::File::open("/dev/null").unwrap()));
        assert_eq!(read_both(broken, None::<Broken>).unwrap_err().kind(), io::Error::from(rustix::io::Errno::IO).kind());
    }
}
