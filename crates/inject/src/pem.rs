//! Certificates as text.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

const LINE: usize = 64;

/// One certificate in the form that programs read.
pub(crate) fn certificate(der: &[u8]) -> String {
    let encoded = BASE64_STANDARD.encode(der);
    let mut text = String::with_capacity(encoded.len() + encoded.len() / LINE + 64);
    text.push_str("-----BEGIN CERTIFICATE-----\n");
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE));
        text.push_str(line);
        text.push('\n');
        rest = after;
    }
    text.push_str("-----END CERTIFICATE-----\n");
    text
}
