//! Makes one check of the file interface, as whoever may speak to the keeper: CHECK, the directory of its socket, a directory inside
//! for the check, and where busybox is inside.

use whatif_e2e::file_interface::{Inside, run};

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    let [_, check, directory, base, busybox] = arguments.as_slice() else { panic!("CHECK DIRECTORY BASE BUSYBOX") };
    run(&Inside { directory: directory.into(), base: base.into(), busybox: busybox.into() }, check);
}
