//! Which of our standard streams goes to the command in which way.

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use rustix::fs::{FileType, fstat, fstatfs};
use rustix::pipe::{PipeFlags, pipe_with};
use whatif_engine::Stdio;

use super::file_input::FileInput;
use super::relay::{Relay, Sink};

const PIPES: u64 = 0x5049_5045;
const SOCKETS: u64 = 0x534f_434b;
const NULL_DEVICE: (u32, u32) = (1, 3);

/// What the caller wants of the streams.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    pub stdin: bool,
    /// Standard output and error are kept for a document instead of being shown.
    pub capture: bool,
    /// A terminal of the sandbox's own replaces all three.
    pub terminal: bool,
}

/// The streams as they will be handed over, and what has to be copied meanwhile.
#[derive(Debug)]
pub struct Streams {
    pub(super) kinds: [Stdio; 3],
    pub(super) passed: Vec<OwnedFd>,
    pub(super) relays: Vec<Relay>,
    pub(super) file: Option<FileInput>,
    pub captured: Option<Capture>,
    /// The command was given our standard input.
    pub(super) gives_stdin: bool,
}

#[derive(Clone, Debug)]
pub struct Capture {
    stdout: Rc<RefCell<Vec<u8>>>,
    stderr: Rc<RefCell<Vec<u8>>>,
}

impl Capture {
    #[must_use]
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.stdout.borrow()).into_owned()
    }

    #[must_use]
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.stderr.borrow()).into_owned()
    }

    #[must_use]
    pub fn is_truncated(&self) -> bool {
        [&self.stdout, &self.stderr].iter().any(|b| b.borrow().len() >= super::relay::LARGEST_CAPTURE)
    }
}

impl Streams {
    pub fn prepare(wanted: Wanted) -> rustix::io::Result<Self> {
        let (passed, relays) = (Vec::new(), Vec::new());
        let mut streams = Self { kinds: [Stdio::Null; 3], passed, relays, file: None, captured: None, gives_stdin: wanted.stdin };
        if wanted.terminal {
            return Ok(streams);
        }
        if wanted.stdin {
            streams.kinds[0] = streams.input(rustix::stdio::stdin())?;
        }
        if wanted.capture {
            let capture = Capture { stdout: Rc::default(), stderr: Rc::default() };
            streams.kinds[1] = streams.relayed_output(Sink::Memory(capture.stdout.clone()))?;
            streams.kinds[2] = streams.relayed_output(Sink::Memory(capture.stderr.clone()))?;
            streams.captured = Some(capture);
        } else {
            streams.kinds[1] = streams.output(rustix::stdio::stdout())?;
            streams.kinds[2] = streams.output(rustix::stdio::stderr())?;
        }
        Ok(streams)
    }

    fn input(&mut self, fd: BorrowedFd<'_>) -> rustix::io::Result<Stdio> {
        match way_of(fd) {
            Way::Null => Ok(Stdio::Null),
            Way::Pass => self.pass(fd),
            Way::Relay => {
                let copied =
                    FileInput::of(fd).map_err(|e| rustix::io::Errno::from_io_error(&e).unwrap_or(rustix::io::Errno::IO))?;
                if let Some((file, passed)) = copied {
                    self.file = Some(file);
                    self.passed.push(passed);
                    return Ok(Stdio::Passed);
                }
                let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
                let from = fd.try_clone_to_owned().map_err(|_| rustix::io::Errno::MFILE)?;
                self.relays.push(Relay::input_through(from, (read.as_fd(), write))?);
                self.passed.push(read);
                Ok(Stdio::Passed)
            }
        }
    }

    fn output(&mut self, fd: BorrowedFd<'_>) -> rustix::io::Result<Stdio> {
        match way_of(fd) {
            Way::Null => Ok(Stdio::Null),
            Way::Pass => self.pass(fd),
            Way::Relay => {
                let to = fd.try_clone_to_owned().map_err(|_| rustix::io::Errno::MFILE)?;
                self.relayed_output(Sink::Descriptor(to))
            }
        }
    }

    fn relayed_output(&mut self, to: Sink) -> rustix::io::Result<Stdio> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        self.relays.push(Relay::output(read, to));
        self.passed.push(write);
        Ok(Stdio::Passed)
    }

    fn pass(&mut self, fd: BorrowedFd<'_>) -> rustix::io::Result<Stdio> {
        self.passed.push(fd.try_clone_to_owned().map_err(|_| rustix::io::Errno::MFILE)?);
        Ok(Stdio::Passed)
    }

    /// The command has its own copies now; ours would keep it from ever seeing the end of its input.
    pub fn handed_over(&mut self) {
        self.passed.clear();
    }
}

enum Way {
    Pass,
    Relay,
    Null,
}

/// Only what has no name in any file system is passed: an anonymous pipe or a socket.
fn way_of(fd: BorrowedFd<'_>) -> Way {
    let Ok(stat) = fstat(fd.as_fd()) else { return Way::Null };
    let device = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
    if FileType::from_raw_mode(stat.st_mode).is_char_device() && device == NULL_DEVICE {
        return Way::Null;
    }
    match fstatfs(fd).map(|f| f.f_type as u64) {
        Ok(PIPES | SOCKETS) => Way::Pass,
        _ => Way::Relay,
    }
}
