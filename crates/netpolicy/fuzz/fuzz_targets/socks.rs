#![no_main]

use libfuzzer_sys::fuzz_target;
use whatif_netpolicy::socks::{self, Greeting, SocksRequest};

fuzz_target!(|bytes: &[u8]| {
    let half = &bytes[..bytes.len() / 2];
    let (greeting, request) = (socks::parse_greeting(half), socks::parse_request(half));
    assert!(greeting == Greeting::NeedMore || greeting == socks::parse_greeting(bytes));
    assert!(request == SocksRequest::NeedMore || request == socks::parse_request(bytes));
});
