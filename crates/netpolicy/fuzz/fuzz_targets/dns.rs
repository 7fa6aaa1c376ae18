#![no_main]

use libfuzzer_sys::fuzz_target;
use whatif_netpolicy::dns::{self, Answer, Query, Transport};

fuzz_target!(|bytes: &[u8]| {
    let _ = dns::tcp_message(bytes);
    if let Ok(query) = Query::parse(bytes) {
        for answer in [Answer::Empty, Answer::NxDomain, Answer::Truncated] {
            assert!(Query::parse(&query.answer(&answer, Transport::Udp)).is_err_and(|rejected| rejected.reply.is_none()));
        }
    }
});
