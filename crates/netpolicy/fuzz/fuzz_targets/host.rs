#![no_main]

use libfuzzer_sys::fuzz_target;
use whatif_netpolicy::{Authority, Host, HostName};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(name) = HostName::parse(bytes) {
        assert_eq!(HostName::parse(name.as_str().as_bytes()), Ok(name));
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Authority::parse(text);
        if let Ok(host) = Host::parse(text) {
            assert_eq!(Host::parse(&host.to_string()), Ok(host));
        }
    }
});
