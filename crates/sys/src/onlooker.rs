//! A program that is only asked something: it can look at everything its user can, and changes nothing.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::landlock;

/// The command will run with the right to write beneath this directory, to devices, and to nothing else, where the kernel has Landlock.
pub fn confine(command: &mut Command, scratch: Option<&Path>) -> io::Result<()> {
    let scratch = scratch.map(File::open).transpose()?;
    let devices = File::open("/dev")?;
    let give_up = move || -> io::Result<()> {
        rustix::thread::set_no_new_privs(true)?;
        landlock::confine_to_writing(scratch.as_ref().map(AsFd::as_fd), devices.as_fd())?;
        Ok(())
    };
    // SAFETY: between fork and execution it makes system calls only, and nothing is allocated.
    unsafe { command.pre_exec(give_up) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_changes_nothing_but_what_it_may() {
        if landlock::abi() == 0 {
            return;
        }
        let place = std::env::temp_dir().join(format!("whatif-onlooker-{}", std::process::id()));
        let scratch = place.join("scratch");
        std::fs::create_dir_all(&scratch).unwrap();
        std::fs::write(place.join("file"), "as it was").unwrap();
        let script = "cat file; echo x > scratch/new || exit 1; echo x 2>/dev/null >> file; echo x > made; mkdir made; mv file moved; \
                      ln -s file link; rm -f file; echo x > /dev/null || exit 2";
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).current_dir(&place);
        confine(&mut command, Some(&scratch)).unwrap();
        let said = crate::run_to_end::run_to_end(&mut command).unwrap();
        let mut names: Vec<_> = std::fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        let file = std::fs::read_to_string(place.join("file")).unwrap();
        let written = std::fs::read_to_string(scratch.join("new")).unwrap();
        std::fs::remove_dir_all(&place).unwrap();
        assert!(said.status.success(), "{said:?}");
        assert_eq!((said.stdout.as_slice(), file.as_str(), written.as_str()), (&b"as it was"[..], "as it was", "x\n"));
        assert_eq!(names, ["file", "scratch"]);
    }
}
