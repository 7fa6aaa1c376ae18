//! Messages, put together by hand: the code under test is not to check itself.

use std::net::IpAddr;

pub const A: u16 = 1;
pub const CNAME: u16 = 5;
pub const PTR: u16 = 12;
pub const AAAA: u16 = 28;
/// Points to the name in the question.
pub const BACK: &[u8] = b"\xc0\x0c";
pub const OPT: &[u8] = b"\0\0\x29\x04\xd0\0\0\0\0\0\0";

pub fn wire(name: &str) -> Vec<u8> {
    let labels = name.split('.').flat_map(|label| [&[u8::try_from(label.len()).unwrap()], label.as_bytes()].concat());
    labels.chain([0]).collect()
}

pub fn question(name: &str, kind: u16) -> Vec<u8> {
    [&wire(name)[..], &kind.to_be_bytes(), &[0, 1]].concat()
}

pub fn message(id: u16, flags: u16, counts: [u16; 4], rest: &[u8]) -> Vec<u8> {
    let header = [id, flags].into_iter().chain(counts).flat_map(u16::to_be_bytes).collect::<Vec<_>>();
    [&header, rest].concat()
}

pub fn query(id: u16, name: &str, kind: u16) -> Vec<u8> {
    message(id, 0x0100, [1, 0, 0, 0], &question(name, kind))
}

pub fn record(owner: &[u8], kind: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
    let length = u16::try_from(data.len()).unwrap();
    [owner, &kind.to_be_bytes(), &[0, 1], &ttl.to_be_bytes(), &length.to_be_bytes(), data].concat()
}

pub fn framed(message: &[u8]) -> Vec<u8> {
    [&u16::try_from(message.len()).unwrap().to_be_bytes()[..], message].concat()
}

/// A question as a name server outside sees it.
#[derive(Clone, Debug)]
pub struct Asked {
    pub id: u16,
    pub name: String,
    pub kind: u16,
    pub has_extension: bool,
    /// As it came.
    pub question: Vec<u8>,
}

impl Asked {
    pub fn read(message: &[u8]) -> Self {
        let mut labels = Vec::new();
        let mut at = 12;
        while message[at] != 0 {
            let end = at + 1 + usize::from(message[at]);
            labels.push(String::from_utf8(message[at + 1..end].to_vec()).unwrap());
            at = end;
        }
        Self {
            id: u16::from_be_bytes([message[0], message[1]]),
            name: labels.join("."),
            kind: u16::from_be_bytes([message[at + 1], message[at + 2]]),
            has_extension: message[10..12] == [0, 1],
            question: message[12..at + 5].to_vec(),
        }
    }

    pub fn reply(&self, flags: u16, records: &[Vec<u8>]) -> Vec<u8> {
        let count = u16::try_from(records.len()).unwrap();
        message(self.id, flags, [1, count, 0, 0], &[self.question.clone(), records.concat()].concat())
    }

    pub fn code(&self, code: u16) -> Vec<u8> {
        self.reply(0x8180 | code, &[])
    }

    /// Those of the family that was asked for.
    pub fn addresses(&self, texts: &[&str]) -> Vec<u8> {
        let of_kind = texts.iter().filter_map(|text| match (self.kind, text.parse().unwrap()) {
            (A, IpAddr::V4(v4)) => Some(record(BACK, A, 60, &v4.octets())),
            (AAAA, IpAddr::V6(v6)) => Some(record(BACK, AAAA, 60, &v6.octets())),
            _ => None,
        });
        self.reply(0x8180, &of_kind.collect::<Vec<_>>())
    }
}
