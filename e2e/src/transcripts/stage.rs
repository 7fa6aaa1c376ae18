//! Where the documentation plays: the machine as it is, with one more user, `you`, whose home has little in it.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::shell::Shell;
use crate::World;

const YOU: u32 = 1000;
const HOME: &str = "/home/you";
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// In a mount namespace of its own (see [`crate::outside`]), so that nothing has to be put back.
#[derive(Debug)]
pub struct Stage {
    dir: PathBuf,
    you: Option<Shell>,
    root: Option<Shell>,
}

impl Stage {
    #[track_caller]
    pub(super) fn set(w: &World) -> Self {
        assert!(w.is_root(), "only root can change what /home is");
        let dir = w.dir.join("stage");
        let home = dir.join("home/you");
        fs::create_dir_all(&home).expect("the world is ours");
        chown(&home, Some(YOU), Some(YOU)).expect("we are root");
        let users = fs::read_to_string("/etc/passwd").expect("there are users");
        let others = users.lines().filter(|line| !line.contains(&format!(":{YOU}:{YOU}:")) && !line.starts_with("you:"));
        let users: String = others.map(|line| format!("{line}\n")).collect();
        put_over(&dir, "passwd", &format!("{users}you:x:{YOU}:{YOU}::{HOME}:/bin/bash\n"));
        mount(&dir.join("home"), Path::new("/home"));
        let mut stage = Self { dir: w.dir.clone(), you: None, root: None };
        let scenes = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenes");
        for scene in fs::read_dir(&scenes).expect("there are scenes").flatten() {
            fs::copy(scene.path(), stage.dir.join(scene.file_name())).expect("it is a file");
        }
        let (said, code) = stage.shell(false).run(". $SCENES/home.sh");
        assert_eq!(code, 0, "{said}");
        stage
    }

    #[track_caller]
    pub(super) fn shell(&mut self, is_root: bool) -> &mut Shell {
        let dir = &self.dir;
        let shell = if is_root { &mut self.root } else { &mut self.you };
        shell.get_or_insert_with(|| {
            let mut command = Command::new("/usr/bin/setpriv");
            if !is_root {
                command.args([format!("--reuid={YOU}"), format!("--regid={YOU}"), "--clear-groups".to_owned()]);
            }
            let (user, home) = if is_root { ("root", dir.join("root")) } else { ("you", PathBuf::from(HOME)) };
            fs::create_dir_all(&home).expect("the world is ours");
            command.args(["/bin/bash", "--noprofile", "--norc"]).env_clear().current_dir(&home);
            if is_root {
                command.env("WHATIF_HOME", dir.join("root-state"));
            }
            command.env("HOME", &home).env("USER", user).env("LANG", "C.UTF-8").env("COLUMNS", "120").env("SCENES", dir);
            command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", dir.display()));
            Shell::start(command, dir.join(format!("{user}.script")))
        })
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for is_root in [false, true] {
            if [&self.you, &self.root][usize::from(is_root)].is_none() || std::thread::panicking() {
                continue;
            }
            let (said, code) = self.shell(is_root).run("cd; whatif rm --all --yes >/dev/null; kill $(jobs -p) 2>/dev/null; wait");
            assert_eq!(code, 0, "{said}");
        }
        (self.you, self.root) = (None, None);
        for over in ["/etc/passwd", "/home", AUTHORITIES] {
            let _ = Command::new("/usr/bin/umount").arg("--lazy").arg(over).stderr(Stdio::null()).status();
        }
    }
}

/// Makes every program here trust this certificate authority, from now until the page has been played.
#[track_caller]
pub fn trust(w: &World, authority: &Path) {
    let mut bundle = fs::read(AUTHORITIES).expect("there are certificate authorities");
    bundle.extend(fs::read(authority).expect("it was made just now"));
    let file = w.dir.join("authorities");
    fs::write(&file, bundle).expect("the world is ours");
    mount(&file, Path::new(AUTHORITIES));
}

/// Mounts a file of this content over the one in `/etc`.
fn put_over(dir: &Path, name: &str, content: &str) {
    let file = dir.join(name);
    fs::write(&file, content).expect("the world is ours");
    mount(&file, &Path::new("/etc").join(name));
}

#[track_caller]
fn mount(what: &Path, over: &Path) {
    let status = Command::new("/usr/bin/mount").arg("--bind").arg(what).arg(over).status().expect("mount is installed");
    assert!(status.success(), "{} cannot be mounted over {}", what.display(), over.display());
}
