#![no_main]

use libfuzzer_sys::fuzz_target;
use whatif_netpolicy::HostName;
use whatif_netpolicy::dns::{Family, Found, Lookup, reverse};

// The number is set to the right one, or hardly any input would get further.
fuzz_target!(|bytes: &[u8]| {
    let name = "a.example".parse().expect("a name");
    let mut message = bytes.to_vec();
    for (byte, right) in message.iter_mut().zip([0x12, 0x34]) {
        *byte = right;
    }
    for family in [Family::V4, Family::V6] {
        let lookup = Lookup::new(0x1234, &name, family);
        if let Ok(Found::Addresses { addresses, ttl }) = lookup.read(&message) {
            assert!(addresses.len() <= 32 && addresses.iter().all(|address| family.includes(address)));
            assert!(!addresses.is_empty() || ttl == 0);
            // Nothing after what was read can change what was found, unless it was not there yet.
            message.push(0);
            assert_eq!(lookup.read(&message), Ok(Found::Addresses { addresses, ttl }));
        }
        assert!(lookup.read(&lookup.message()).is_err());
    }
    if let Ok(name) = HostName::parse(bytes) {
        let _ = reverse::address_of(&name);
    }
});
