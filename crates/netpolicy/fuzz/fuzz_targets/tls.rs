#![no_main]

use libfuzzer_sys::fuzz_target;
use whatif_netpolicy::tls::{self, TlsState};

fuzz_target!(|bytes: &[u8]| {
    let whole = tls::parse(bytes);
    let half = tls::parse(&bytes[..bytes.len() / 2]);
    assert!(half == TlsState::NeedMore || half == whole);
});
