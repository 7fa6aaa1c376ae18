//! What needs an `Engine` and living sandboxes, without a client: each subject once as root and once as an ordinary user, in a process
//! of its own, whose descriptors and children can be counted.

mod files;
mod left_over;
mod one_thread;
mod providers;
mod threads;
mod world;

use std::path::Path;
use std::process::ExitCode;

use whatif_engine::role::Role;
use whatif_sys::inherited::Inherited;

use self::world::{Who, World};

#[derive(Debug)]
pub struct Subject {
    pub name: &'static str,
    live: fn(&Path),
}

static SUBJECTS: [Subject; 3] = [
    Subject { name: "providers", live: providers::live },
    Subject { name: "files", live: files::live },
    Subject { name: "threads", live: threads::live },
];

fn main() -> ExitCode {
    // SAFETY: nothing has run yet that could own a descriptor.
    let inherited = unsafe { Inherited::of_this_process() };
    if let Some(role) = Role::of(std::env::args_os()) {
        return if role.play(inherited) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if let Some((name, directory)) = World::given() {
        let subject = SUBJECTS.iter().find(|subject| subject.name == name).expect("we started it");
        (subject.live)(&directory);
        return ExitCode::SUCCESS;
    }
    // Of what a test program may be asked, this one has nothing to list and nothing to choose from.
    if std::env::args().any(|argument| argument == "--list") {
        return ExitCode::SUCCESS;
    }
    let worlds = SUBJECTS.iter().flat_map(|subject| Who::all().into_iter().map(move |who| World::new(subject, who)));
    let failed = worlds.filter(|world| !world.passes()).count();
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
