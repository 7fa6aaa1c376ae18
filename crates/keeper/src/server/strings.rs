//! The strings of a command in the form the kernel takes.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use whatif_sys::command::Strings;

use crate::protocol::Exec;

pub(super) fn of(exec: &Exec, defaults: &[(String, String)]) -> io::Result<Strings> {
    let c_string = |bytes: &[u8]| CString::new(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput));
    let program = exec.arguments.first().ok_or(io::ErrorKind::InvalidInput)?.as_bytes();
    let search =
        exec.environment.iter().find(|(name, _)| name.as_bytes() == b"PATH").map_or(&b"/usr/bin:/bin"[..], |(_, v)| v.as_bytes());
    let candidates = if program.contains(&b'/') {
        vec![c_string(program)?]
    } else {
        let directories = search.split(|b| *b == b':').map(|d| if d.is_empty() { &b"."[..] } else { d });
        directories
            .map(|d| c_string(Path::new(OsStr::from_bytes(d)).join(OsStr::from_bytes(program)).as_os_str().as_bytes()))
            .collect::<io::Result<_>>()?
    };
    let own = exec.environment.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes()));
    let is_set = |name: &str| exec.environment.iter().any(|(n, _)| n.as_bytes() == name.as_bytes());
    let missing = defaults.iter().filter(|(n, _)| !is_set(n)).map(|(n, v)| (n.as_bytes(), v.as_bytes()));
    Ok(Strings {
        candidates,
        arguments: exec.arguments.iter().map(|a| c_string(a.as_bytes())).collect::<io::Result<_>>()?,
        environment: own.chain(missing).map(|(n, v)| c_string(&[n, b"=", v].concat())).collect::<io::Result<_>>()?,
        directory: c_string(exec.directory.as_bytes())?,
    })
}
