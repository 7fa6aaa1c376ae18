//! What a name server outside answers, read as if an enemy had sent it.
//!
//! Only the answers are read. What stands beside them (authority, additional records) is believed by nobody here, and so
//! cannot be used to slip in addresses of other names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::lookup::{Family, Lookup};
use super::{CLASS_IN, FLAG_RESPONSE, FLAG_TRUNCATED, LONGEST_WIRE_NAME, OPCODE, TYPE_CNAME, header};
use crate::reader::Reader;

/// More than any honest answer has. All of them are read before any is believed.
const MOST_RECORDS: usize = 256;
/// Names that lead to names; content networks use three or four.
const MOST_LINKS: usize = 16;
/// Nobody dials more.
const MOST_ADDRESSES: usize = 32;
const FLAG_AUTHORITATIVE: u16 = 0x0400;
const FLAG_RECURSION_AVAILABLE: u16 = 0x0080;
const CODE: u16 = 0x000f;
const CODE_FORMAT: u16 = 1;
const CODE_NO_SUCH_NAME: u16 = 3;
const CODE_NOT_IMPLEMENTED: u16 = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// None if the name exists without such an address.
    Addresses {
        addresses: Vec<IpAddr>,
        /// In seconds; 0 if there are none, since how long that holds stands where it is not read.
        ttl: u32,
    },
    NoSuchName,
    /// The whole answer is to be had over TCP.
    Truncated,
    /// The server did not understand; perhaps the extensions.
    NotUnderstood,
    /// The server cannot or will not say. Another one may.
    Unhelpful {
        code: u8,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    #[error("the message ends too early")]
    Truncated,
    #[error("the message is no answer to a query")]
    NoResponse,
    #[error("the answer has another number")]
    Id,
    #[error("the answer is to another question")]
    Question,
    #[error("a name in the answer is malformed")]
    Name,
    #[error("a record in the answer is malformed")]
    Record,
    #[error("the answer has more than {MOST_RECORDS} records")]
    TooManyRecords,
    #[error("the name leads to more than {MOST_LINKS} others, one after the other")]
    TooManyLinks,
}

pub(super) fn read(lookup: &Lookup, message: &[u8]) -> Result<Found, ResponseError> {
    let mut reader = Reader::new(message);
    let [id, flags, questions, answers, _, _] = header(&mut reader).ok_or(ResponseError::Truncated)?;
    if id != lookup.id {
        return Err(ResponseError::Id);
    }
    if flags & FLAG_RESPONSE == 0 || flags & OPCODE != 0 {
        return Err(ResponseError::NoResponse);
    }
    let code = flags & CODE;
    let is_misunderstood = matches!(code, CODE_FORMAT | CODE_NOT_IMPLEMENTED);
    if questions == 0 && is_misunderstood {
        // Servers that could not read the question do not repeat it.
        return Ok(Found::NotUnderstood);
    }
    if questions != 1 {
        return Err(ResponseError::Question);
    }
    check_question(lookup, message, &mut reader)?;
    match code {
        _ if is_misunderstood => Ok(Found::NotUnderstood),
        _ if flags & FLAG_TRUNCATED != 0 => Ok(Found::Truncated),
        CODE_NO_SUCH_NAME => Ok(Found::NoSuchName),
        0 => {
            let records = Records::read(lookup, message, &mut reader, answers)?;
            // Neither responsible for the name nor willing to ask others: it only says who might know.
            let is_referral = records.is_empty() && flags & (FLAG_AUTHORITATIVE | FLAG_RECURSION_AVAILABLE) == 0;
            if is_referral { Ok(Found::Unhelpful { code: 0 }) } else { records.follow(lookup) }
        }
        other => Ok(Found::Unhelpful { code: other.to_be_bytes()[1] }),
    }
}

fn check_question<'a>(lookup: &Lookup, message: &'a [u8], reader: &mut Reader<'a>) -> Result<(), ResponseError> {
    let name = read_name(message, reader)?;
    let kind = reader.u16().ok_or(ResponseError::Truncated)?;
    let class = reader.u16().ok_or(ResponseError::Truncated)?;
    let is_same = name == lookup.name && kind == lookup.family.record_type() && class == CLASS_IN;
    if is_same { Ok(()) } else { Err(ResponseError::Question) }
}

/// The records that matter, in whatever order they came.
#[derive(Default)]
struct Records {
    links: Vec<Link>,
    addresses: Vec<Address>,
}

/// `owner` is another name for `target`.
struct Link {
    owner: Vec<u8>,
    target: Vec<u8>,
    ttl: u32,
}

struct Address {
    owner: Vec<u8>,
    address: IpAddr,
    ttl: u32,
}

impl Records {
    fn read<'a>(lookup: &Lookup, message: &'a [u8], reader: &mut Reader<'a>, count: u16) -> Result<Self, ResponseError> {
        let mut records = Self::default();
        if usize::from(count) > MOST_RECORDS {
            return Err(ResponseError::TooManyRecords);
        }
        for _ in 0..count {
            records.read_one(lookup, message, reader)?;
        }
        Ok(records)
    }

    fn read_one<'a>(&mut self, lookup: &Lookup, message: &'a [u8], reader: &mut Reader<'a>) -> Result<(), ResponseError> {
        let owner = read_name(message, reader)?;
        let kind = reader.u16().ok_or(ResponseError::Truncated)?;
        let class = reader.u16().ok_or(ResponseError::Truncated)?;
        let ttl = reader.array().map(u32::from_be_bytes).ok_or(ResponseError::Truncated)?;
        // The highest bit makes it a mistake, and mistakes are not remembered (RFC 2181).
        let ttl = if i32::try_from(ttl).is_ok() { ttl } else { 0 };
        // A name in the data can lead back into the message, so it is read in its place.
        let mut data_reader = reader.clone();
        data_reader.u16();
        let data = reader.vector16().ok_or(ResponseError::Truncated)?;
        if class != CLASS_IN {
            return Ok(());
        }
        if kind == TYPE_CNAME {
            let target = read_name(message, &mut data_reader)?;
            if data_reader.rest().len() != reader.rest().len() {
                return Err(ResponseError::Record);
            }
            self.links.push(Link { owner, target, ttl });
        } else if kind == lookup.family.record_type() {
            self.addresses.push(Address { owner, address: to_address(lookup.family, data)?, ttl });
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.links.is_empty() && self.addresses.is_empty()
    }

    /// From the name that was asked for to its addresses. Servers that resolve for others give the whole chain; where one ends
    /// without an address there is none.
    fn follow(&self, lookup: &Lookup) -> Result<Found, ResponseError> {
        let mut name = &lookup.name;
        let mut ttl = u32::MAX;
        for _ in 0..=MOST_LINKS {
            let here = self.addresses.iter().filter(|record| record.owner == *name);
            let mut addresses = Vec::new();
            for record in here {
                ttl = ttl.min(record.ttl);
                if addresses.len() < MOST_ADDRESSES && !addresses.contains(&record.address) {
                    addresses.push(record.address);
                }
            }
            if !addresses.is_empty() {
                return Ok(Found::Addresses { addresses, ttl });
            }
            match self.links.iter().find(|link| link.owner == *name) {
                Some(link) => (name, ttl) = (&link.target, ttl.min(link.ttl)),
                None => return Ok(Found::Addresses { addresses, ttl: 0 }),
            }
        }
        Err(ResponseError::TooManyLinks)
    }
}

fn to_address(family: Family, data: &[u8]) -> Result<IpAddr, ResponseError> {
    let address = match family {
        Family::V4 => <[u8; 4]>::try_from(data).map(|octets| Ipv4Addr::from(octets).into()),
        Family::V6 => <[u8; 16]>::try_from(data).map(|octets| Ipv6Addr::from(octets).into()),
    };
    address.map_err(|_| ResponseError::Record)
}

/// A name in lower case, each label behind its length. Every pointer has to lead further back than all before it, so none leads
/// round in a circle.
fn read_name<'a>(message: &'a [u8], reader: &mut Reader<'a>) -> Result<Vec<u8>, ResponseError> {
    let mut name = Vec::new();
    let mut limit = message.len() - reader.rest().len();
    // Where the reader goes on is behind the first pointer; the rest of the name is read with another one.
    let mut elsewhere: Option<Reader<'a>> = None;
    loop {
        let here = elsewhere.as_mut().unwrap_or(reader);
        let length = here.u8().ok_or(ResponseError::Truncated)?;
        match length {
            0 => break,
            1..=63 => {
                let label = here.take(usize::from(length)).ok_or(ResponseError::Truncated)?;
                name.push(length);
                name.extend(label.iter().map(u8::to_ascii_lowercase));
                // With the root's length, which is still to come.
                if name.len() >= LONGEST_WIRE_NAME {
                    return Err(ResponseError::Name);
                }
            }
            0xc0.. => {
                let low = here.u8().ok_or(ResponseError::Truncated)?;
                let target = usize::from(u16::from_be_bytes([length & 0x3f, low]));
                if target >= limit {
                    return Err(ResponseError::Name);
                }
                limit = target;
                elsewhere = message.get(target..).map(Reader::new);
            }
            _ => return Err(ResponseError::Name),
        }
    }
    name.push(0);
    Ok(name)
}

#[cfg(test)]
mod tests;
