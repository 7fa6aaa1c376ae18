//! The disk: one file in a file system of its own, which remembers what was done to it.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::Device;
use super::wire::{self, Request};

/// Something that happened to the disk.
#[derive(Clone, Debug)]
pub enum Event {
    Write {
        offset: u64,
        bytes: Vec<u8>,
    },
    /// Everything before is on the disk.
    Flush,
    /// Whoever uses it has got as far as this.
    Mark(usize),
}

pub type Log = Arc<Mutex<Vec<Event>>>;

/// Served until nothing holds it any more.
#[derive(Debug)]
pub struct Disk {
    mount_point: PathBuf,
    log: Log,
}

impl Disk {
    /// A disk that begins with this content, at `mount_point`/disk.
    #[must_use]
    pub fn serve(mount_point: &Path, content: Vec<u8>) -> Self {
        fs::create_dir_all(mount_point).expect("the scratch directory is writable");
        let connection = File::options().read(true).write(true).open("/dev/fuse").expect("there is FUSE");
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", connection.as_raw_fd());
        let options = std::ffi::CString::new(options).expect("it has no zero");
        mount("whatif-disk", mount_point, "fuse", MountFlags::NOSUID | MountFlags::NODEV, Some(options.as_c_str()))
            .expect("root can mount it");
        let log = Log::default();
        std::thread::spawn({
            let log = Arc::clone(&log);
            move || serve(connection, content, &log)
        });
        Self { mount_point: mount_point.to_owned(), log }
    }

    /// A loop device over it. From then on it is not to be seen among the mounts, where it would be part of everybody's reality.
    #[must_use]
    pub fn device(&self) -> Device {
        let device = Device::over(&self.mount_point.join("disk"));
        let _ = unmount(&self.mount_point, UnmountFlags::DETACH);
        device
    }

    /// Notes in the log how far its user has got.
    pub fn mark(&self, number: usize) {
        self.log.lock().expect("the server does not panic").push(Event::Mark(number));
    }

    /// What has happened so far.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.log.lock().expect("the server does not panic").clone()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = unmount(&self.mount_point, UnmountFlags::DETACH);
    }
}

/// Until the kernel lets go of it.
fn serve(mut connection: File, mut content: Vec<u8>, log: &Log) {
    let mut buffer = vec![0; wire::LARGEST + (64 << 10)];
    while let Ok(length) = connection.read(&mut buffer) {
        let Some(request) = Request::parse(&buffer[..length]) else { return };
        if matches!(request.operation, wire::FORGET | wire::BATCH_FORGET | wire::INTERRUPT) {
            continue;
        }
        let answer = answer(&request, &mut content, log);
        if connection.write(&wire::reply(request.unique, answer)).is_err() || request.operation == wire::DESTROY {
            return;
        }
    }
}

fn answer(request: &Request<'_>, content: &mut [u8], log: &Log) -> Result<Vec<u8>, Errno> {
    let size = content.len() as u64;
    let body = request.body;
    let remember = |event| log.lock().expect("nobody panics with it").push(event);
    match request.operation {
        wire::INIT => Ok(wire::initialized()),
        wire::LOOKUP if request.node == wire::ROOT && body == b"disk\0" => Ok(wire::entry(wire::FILE, size)),
        wire::LOOKUP => Err(Errno::NOENT),
        wire::GETATTR => Ok(wire::attributes_for_a_while(request.node, size)),
        wire::OPEN => Ok(wire::opened()),
        wire::READ => {
            let from = (wire::u64_at(body, 8) as usize).min(content.len());
            let to = (from + wire::u32_at(body, 16) as usize).min(content.len());
            Ok(content[from..to].to_vec())
        }
        wire::WRITE => {
            let (offset, data) = (wire::u64_at(body, 8), body.get(40..).ok_or(Errno::INVAL)?);
            let from = offset as usize;
            content.get_mut(from..from + data.len()).ok_or(Errno::NOSPC)?.copy_from_slice(data);
            remember(Event::Write { offset, bytes: data.to_vec() });
            Ok(wire::written(data.len()))
        }
        wire::FSYNC => {
            remember(Event::Flush);
            Ok(Vec::new())
        }
        wire::FLUSH | wire::RELEASE | wire::DESTROY => Ok(Vec::new()),
        _ => Err(Errno::NOSYS),
    }
}
