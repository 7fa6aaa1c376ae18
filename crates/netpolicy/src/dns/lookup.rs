//! The question a resolver asks for one name and one kind of address.

use std::net::IpAddr;

use super::answer::LARGEST_UDP;
use super::response::{self, Found, ResponseError};
use super::{CLASS_IN, FLAG_RECURSION_DESIRED, TYPE_A, TYPE_AAAA, TYPE_OPT};
use crate::HostName;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    #[must_use]
    pub fn includes(self, address: &IpAddr) -> bool {
        address.is_ipv4() == (self == Self::V4)
    }

    pub(super) fn record_type(self) -> u16 {
        match self {
            Self::V4 => TYPE_A,
            Self::V6 => TYPE_AAAA,
        }
    }
}

/// A question and the number that its answer has to repeat. Who cannot see the question has to guess it, so it is random.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    pub(super) id: u16,
    /// In lower case, each label behind its length.
    pub(super) name: Vec<u8>,
    pub(super) family: Family,
}

impl Lookup {
    #[must_use]
    pub fn new(id: u16, name: &HostName, family: Family) -> Self {
        Self { id, name: wire_name(name), family }
    }

    /// The message to send; over TCP its length goes in front.
    #[must_use]
    pub fn message(&self) -> Vec<u8> {
        let mut message = self.with_additionals(1);
        message.push(0);
        message.extend([TYPE_OPT, LARGEST_UDP, 0, 0, 0].into_iter().flat_map(u16::to_be_bytes));
        message
    }

    /// For a server that does not know extensions and says so.
    #[must_use]
    pub fn message_without_extensions(&self) -> Vec<u8> {
        self.with_additionals(0)
    }

    fn with_additionals(&self, additionals: u16) -> Vec<u8> {
        let header = [self.id, FLAG_RECURSION_DESIRED, 1, 0, 0, additionals];
        let mut message = header.into_iter().flat_map(u16::to_be_bytes).collect::<Vec<_>>();
        message.extend_from_slice(&self.name);
        message.extend([self.family.record_type(), CLASS_IN].into_iter().flat_map(u16::to_be_bytes));
        message
    }

    /// Reads what a server sent back.
    ///
    /// # Errors
    /// If it is not an answer to this question or makes no sense. It may be forged; the true one may still come.
    pub fn read(&self, message: &[u8]) -> Result<Found, ResponseError> {
        response::read(self, message)
    }
}

/// A checked name has no label that is too long for its length, and fits.
pub(super) fn wire_name(name: &HostName) -> Vec<u8> {
    let mut wire = Vec::with_capacity(name.as_str().len() + 2);
    for label in name.as_str().split('.') {
        wire.push(u8::try_from(label.len()).unwrap_or(u8::MAX));
        wire.extend_from_slice(label.as_bytes());
    }
    wire.push(0);
    wire
}
