//! Answers, built from the question they belong to.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::lookup::wire_name;
use super::{
    CLASS_IN, FLAG_CHECKING_DISABLED, FLAG_RECURSION_DESIRED, FLAG_RESPONSE, FLAG_TRUNCATED, OPCODE, Query, QueryError, TYPE_A,
    TYPE_AAAA, TYPE_OPT, TYPE_PTR,
};
use crate::HostName;
use crate::host::HostError;

const FLAG_RECURSION_AVAILABLE: u16 = 0x0080;
/// Points to the question's name, which always begins right after the header.
const QUESTION_NAME: u16 = 0xc00c;
const SMALLEST_UDP: u16 = 512;
/// What passes any path in one piece.
pub(super) const LARGEST_UDP: u16 = 1232;
const MOST_RECORDS: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    A {
        addresses: &'a [Ipv4Addr],
        ttl: u32,
    },
    Aaaa {
        addresses: &'a [Ipv6Addr],
        ttl: u32,
    },
    /// The name of an address.
    Ptr {
        name: &'a HostName,
        ttl: u32,
    },
    /// The name exists but has nothing of the kind asked for.
    Empty,
    NxDomain,
    ServFail,
    Refused,
    /// Ask again over TCP.
    Truncated,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Udp,
    Tcp,
}

#[derive(Clone, Copy)]
#[repr(u8)]
enum Code {
    NoError = 0,
    FormErr = 1,
    ServFail = 2,
    NxDomain = 3,
    NotImp = 4,
    Refused = 5,
}

pub(super) fn build(query: &Query, answer: &Answer<'_>, transport: Transport) -> Vec<u8> {
    let (code, records) = match answer {
        Answer::A { addresses, ttl } => {
            (Code::NoError, records(TYPE_A, *ttl, addresses.iter().map(|address| address.octets().to_vec())))
        }
        Answer::Aaaa { addresses, ttl } => {
            (Code::NoError, records(TYPE_AAAA, *ttl, addresses.iter().map(|address| address.octets().to_vec())))
        }
        Answer::Ptr { name, ttl } => (Code::NoError, records(TYPE_PTR, *ttl, std::iter::once(wire_name(name)))),
        Answer::Empty | Answer::Truncated => (Code::NoError, Vec::new()),
        Answer::NxDomain => (Code::NxDomain, Vec::new()),
        Answer::ServFail => (Code::ServFail, Vec::new()),
        Answer::Refused => (Code::Refused, Vec::new()),
    };
    let message = assemble(query, code, &records, *answer == Answer::Truncated);
    match transport {
        Transport::Udp if message.len() > udp_limit(query) => assemble(query, code, &[], true),
        Transport::Udp => message,
        // At most 32 records of 28 bytes, or one with a name: the length fits.
        Transport::Tcp => [u16::try_from(message.len()).unwrap_or(u16::MAX).to_be_bytes().to_vec(), message].concat(),
    }
}

/// The answer to a message that is not answered: a header, and the question if it could be read.
pub(super) fn refusal(id: u16, flags: u16, because: &QueryError, question: &[u8]) -> Vec<u8> {
    let code = match because {
        QueryError::Opcode => Code::NotImp,
        // That there is no root would mean that there is nothing at all.
        QueryError::Class | QueryError::Name(HostError::Empty) => Code::Refused,
        QueryError::Name(_) => Code::NxDomain,
        // BADVERS is code 16: its upper bits stand in an extension record, its lower ones are zero.
        QueryError::EdnsVersion => Code::NoError,
        _ => Code::FormErr,
    };
    let is_bad_version = *because == QueryError::EdnsVersion;
    let mut message = header(id, flags, code, [u16::from(!question.is_empty()), 0, 0, u16::from(is_bad_version)]);
    message.extend_from_slice(question);
    if is_bad_version {
        push_extension_record(&mut message, 1);
    }
    message
}

fn assemble(query: &Query, code: Code, records: &[Vec<u8>], is_truncated: bool) -> Vec<u8> {
    let additionals = u16::from(query.edns.is_some());
    let answers = u16::try_from(records.len()).unwrap_or(u16::MAX);
    let truncated = if is_truncated { FLAG_TRUNCATED } else { 0 };
    let mut message = header(query.id, query.flags | truncated, code, [1, answers, 0, additionals]);
    message.extend_from_slice(&query.question);
    message.extend(records.iter().flatten());
    if query.edns.is_some() {
        push_extension_record(&mut message, 0);
    }
    message
}

fn header(id: u16, flags: u16, code: Code, counts: [u16; 4]) -> Vec<u8> {
    let kept = flags & (FLAG_RECURSION_DESIRED | FLAG_CHECKING_DISABLED | FLAG_TRUNCATED | OPCODE);
    let flags = FLAG_RESPONSE | FLAG_RECURSION_AVAILABLE | kept | code as u16;
    [id, flags].into_iter().chain(counts).flat_map(u16::to_be_bytes).collect()
}

fn records(kind: u16, ttl: u32, contents: impl Iterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    let fixed = [QUESTION_NAME, kind, CLASS_IN].into_iter().flat_map(u16::to_be_bytes).chain(ttl.to_be_bytes()).collect::<Vec<_>>();
    let with_length = |content: Vec<u8>| {
        // The longest is a name of 255 bytes.
        let length = u16::try_from(content.len()).unwrap_or(u16::MAX).to_be_bytes();
        [&fixed[..], &length, &content].concat()
    };
    contents.take(MOST_RECORDS).map(with_length).collect()
}

fn push_extension_record(message: &mut Vec<u8>, extended_code: u8) {
    message.push(0);
    message.extend([TYPE_OPT, LARGEST_UDP].into_iter().flat_map(u16::to_be_bytes));
    message.extend([extended_code, 0, 0, 0, 0, 0]);
}

fn udp_limit(query: &Query) -> usize {
    usize::from(query.edns.map_or(SMALLEST_UDP, |edns| edns.udp_size.clamp(SMALLEST_UDP, LARGEST_UDP)))
}
