//! One `Engine` for 200 threads that create, execute, compare, apply and remove at once: nothing is lost, and nothing is left.
//!
//! Once as root and once as an ordinary user, each in a process of its own whose descriptors and children can be counted.

mod left_over;
mod one_thread;
mod world;

use std::process::ExitCode;

use whatif_engine::role::Role;
use whatif_sys::inherited::Inherited;

use self::world::{Who, World};

fn main() -> ExitCode {
    // SAFETY: nothing has run yet that could own a descriptor.
    let inherited = unsafe { Inherited::of_this_process() };
    if let Some(role) = Role::of(std::env::args_os()) {
        return if role.play(inherited) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if let Some(directory) = World::given() {
        world::live(&directory);
        return ExitCode::SUCCESS;
    }
    // Of what a test program may be asked, this one has nothing to list and nothing to choose from.
    if std::env::args().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let failed = Who::all().into_iter().filter(|who| !World::new(*who).passes()).count();
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
