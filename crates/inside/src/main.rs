//! `whatif-keeper`: small, static, and started thousands of times a day. The engine carries it and starts it; people never do.
#![cfg_attr(not(test), no_main)]
#![cfg_attr(test, allow(dead_code, reason = "tests begin elsewhere"))]
#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

use std::ffi::OsString;

use whatif_inside::{init, keeper, restack};
use whatif_keeper::command_line::{INIT, KEEPER, RESTACK};
use whatif_sys::inherited::Inherited;
use whatif_sys::keeper::FIRST_PASSED;
use whatif_sys::program::AtOnce;
use whatif_types::NetMode;

/// What every keeper needs of it.
const AT_ONCE: AtOnce = AtOnce { arena: 32 << 10, stack: 12 << 10 };

whatif_sys::program!(begin, memory: 64 << 10, at_once: AT_ONCE);

fn begin() -> u8 {
    // SAFETY: nothing has run yet that could own a descriptor.
    let inherited = unsafe { Inherited::of_this_process() };
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let words: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
    let played = match words.as_slice() {
        [KEEPER, _id, net] => inherited.adopt(FIRST_PASSED).is_some_and(|[birth, program]| {
            // Errors were told to whoever waits for it.
            keeper::live(birth, program, network(net)).is_ok()
        }),
        [RESTACK] => {
            let _ = rustix::thread::set_name(c"whatif-restack");
            inherited.adopt(0).is_some_and(|[orders]| restack::serve(orders).is_ok())
        }
        // A kernel starts its init without a word of ours.
        [INIT] | [] => inherited.only_standard().adopt(0).is_some_and(|[input, output]| init::live(input, output)),
        _ => false,
    };
    u8::from(!played)
}

fn network(name: &str) -> NetMode {
    match name {
        "host" => NetMode::Host,
        "filtered" => NetMode::Filtered,
        _ => NetMode::None,
    }
}
