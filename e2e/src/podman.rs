//! Podman of an ordinary user, who is root of its containers and nothing else. It needs no daemon.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::docker::{find, make_image};
use crate::{Outcome, World, kill_wholly};

const IMAGE: &str = "localhost/whatif-test";

#[derive(Debug)]
pub struct Podman<'a> {
    world: &'a World,
    directory: PathBuf,
    /// Podman wants a short path there.
    run: PathBuf,
}

impl<'a> Podman<'a> {
    /// `Err` says why there is none.
    pub fn of(world: &'a World) -> Result<Self, String> {
        for program in ["podman", "runc", "busybox"] {
            if find(program).is_none() {
                return Err(format!("{program} is not installed"));
            }
        }
        let run = PathBuf::from(format!("/var/tmp/whatif-podman-{}", std::process::id()));
        let podman = Self { world, directory: world.dir.join("podman"), run };
        for directory in [&podman.directory, &podman.runtime(), &podman.run] {
            fs::create_dir(directory).expect("a fresh name");
            chown(directory, Some(world.uid()), Some(world.uid())).expect("it is ours to give away");
        }
        fs::set_permissions(podman.runtime(), Permissions::from_mode(0o700)).expect("it is ours");
        let archive = make_image(&world.dir);
        // The user has one id to give, and in the container that is root's.
        let tree = world.dir.join("image");
        let owned =
            Command::new("tar").args(["--owner=0", "--group=0", "-C"]).arg(&tree).arg("-cf").arg(&archive).arg(".").status();
        assert!(owned.is_ok_and(|status| status.success()), "the image can be packed");
        podman.podman(&["import", archive.to_str().expect("text"), IMAGE]).ok();
        Ok(podman)
    }

    fn runtime(&self) -> PathBuf {
        self.directory.join("runtime")
    }

    #[track_caller]
    fn podman(&self, arguments: &[&str]) -> Outcome {
        let call = self.world.program(find("podman").expect("it was looked for")).env("XDG_RUNTIME_DIR", self.runtime());
        let call = call
            .args(["--root".as_ref(), self.directory.join("storage").as_path()])
            .args(["--runroot".as_ref(), self.run.as_path()]);
        let fixed = ["--storage-driver=vfs", "--cgroup-manager=cgroupfs", "--events-backend=file", "--runtime=runc"];
        call.args(fixed).args(arguments).go()
    }

    /// A script in a container of its own, in an empty project. `options` are for `podman run`.
    #[track_caller]
    pub fn run(&self, options: &[&str], script: &str) -> Outcome {
        let fixed = ["run", "--rm", "--network=none", "--env=HOME=/root", "--workdir=/root/project"];
        self.podman(&[&fixed, options, &[IMAGE, "/bin/sh", "-c", script]].concat())
    }
}

impl Drop for Podman<'_> {
    /// It leaves a process that holds its namespaces.
    fn drop(&mut self) {
        let pid = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<i32>().ok();
        kill_wholly(&pid(&self.runtime().join("libpod/tmp/pause.pid")).into_iter().collect::<Vec<_>>());
        let removed = fs::remove_dir_all(&self.run);
        assert!(removed.is_ok() || std::thread::panicking(), "{}: {removed:?}", self.run.display());
    }
}
