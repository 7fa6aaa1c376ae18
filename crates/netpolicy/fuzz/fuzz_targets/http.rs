#![no_main]

use libfuzzer_sys::fuzz_target;
use whatif_netpolicy::http::{self, HttpState};

fuzz_target!(|bytes: &[u8]| {
    let whole = http::parse(bytes);
    let half = http::parse(&bytes[..bytes.len() / 2]);
    assert!(half == HttpState::NeedMore || half == whole);
});
