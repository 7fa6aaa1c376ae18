//! One DNS query in, one answer out; and, for the resolver outside, one question out and one [`response`] in.
//!
//! Queries are answered here and nowhere else, so this reads only what a resolver library sends: one question, nothing
//! compressed, nothing left over. Whatever else comes gets an error as its answer, or none.

mod answer;
mod lookup;
pub mod response;
pub mod reverse;

use crate::HostName;
use crate::host::HostError;
use crate::reader::Reader;

pub use answer::{Answer, Transport};
pub use lookup::{Family, Lookup};
pub use response::{Found, ResponseError};

/// Over TCP; a question, its options and padding take far less.
pub const LONGEST_QUERY: usize = 4096;
const LONGEST_WIRE_NAME: usize = 255;
const CLASS_IN: u16 = 1;
const TYPE_A: u16 = 1;
const TYPE_CNAME: u16 = 5;
const TYPE_PTR: u16 = 12;
const TYPE_AAAA: u16 = 28;
const TYPE_OPT: u16 = 41;

const FLAG_RESPONSE: u16 = 0x8000;
const FLAG_TRUNCATED: u16 = 0x0200;
const FLAG_RECURSION_DESIRED: u16 = 0x0100;
const FLAG_RESERVED: u16 = 0x0040;
const FLAG_CHECKING_DISABLED: u16 = 0x0010;
const OPCODE: u16 = 0x7800;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    id: u16,
    flags: u16,
    /// As sent: clients that vary the case of letters want it back unchanged.
    question: Vec<u8>,
    edns: Option<Edns>,
    pub name: HostName,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    A,
    Aaaa,
    /// For the name of an address.
    Ptr,
    Other(u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Edns {
    udp_size: u16,
}

/// A query that is not answered with what it asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    pub because: QueryError,
    /// What to send back; `None` for what is not even a query.
    pub reply: Option<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    #[error("the message is shorter than a header")]
    Short,
    #[error("the message is longer than {LONGEST_QUERY} bytes")]
    TooLong,
    #[error("the message is an answer")]
    Response,
    #[error("the operation is not a query")]
    Opcode,
    #[error("the header's flags make no sense in a query")]
    Flags,
    #[error("there is not exactly one question")]
    QuestionCount,
    #[error("there are records that have no place in a query")]
    Records,
    #[error("the message ends too early")]
    Truncated,
    #[error("the name in the question is compressed")]
    Compressed,
    #[error("the name in the question is too long")]
    NameTooLong,
    #[error("the name in the question is no host name: {0}")]
    Name(#[from] HostError),
    #[error("the class is not IN")]
    Class,
    #[error("the extension record is malformed")]
    Edns,
    #[error("the extension record is of an unknown version")]
    EdnsVersion,
    #[error("something follows the query")]
    Trailing,
}

/// The message in a buffer that arrives over TCP, and how many bytes it takes with its length; `None` while it is not whole.
///
/// # Errors
/// If the announced length is none that a query has. The connection is of no more use then.
pub fn tcp_message(buffer: &[u8]) -> Result<Option<(&[u8], usize)>, QueryError> {
    let mut reader = Reader::new(buffer);
    let Some(length) = reader.u16().map(usize::from) else { return Ok(None) };
    match length {
        0..12 => Err(QueryError::Short),
        12..=LONGEST_QUERY => Ok(reader.take(length).map(|message| (message, 2 + length))),
        _ => Err(QueryError::TooLong),
    }
}

impl Query {
    /// Reads one message, without the length that goes before it over TCP.
    ///
    /// # Errors
    /// What is wrong with it and what to reply.
    pub fn parse(message: &[u8]) -> Result<Self, Box<Rejected>> {
        let mut reader = Reader::new(message);
        let Some([id, flags, questions, answers, authorities, additionals]) = header(&mut reader) else {
            return Err(Box::new(Rejected { because: QueryError::Short, reply: None }));
        };
        if flags & FLAG_RESPONSE != 0 {
            return Err(Box::new(Rejected { because: QueryError::Response, reply: None }));
        }
        let counts = Counts { questions, answers, authorities, additionals };
        let reject = |because: QueryError, question: &[u8]| {
            let reply = Some(answer::refusal(id, flags, &because, question));
            Box::new(Rejected { because, reply })
        };
        check_header(message, flags, &counts).map_err(|because| reject(because, &[]))?;
        let question = Question::read(&mut reader).map_err(|because| reject(because, &[]))?;
        // From here on the question is known, and clients want to see it again even in a refusal.
        let edns = read_rest(reader, &question, &counts).map_err(|because| reject(because, question.wire))?;
        let name = HostName::parse(&question.text).map_err(|error| reject(error.into(), question.wire))?;
        Ok(Self { id, flags, question: question.wire.to_vec(), edns, name, kind: Kind::from(question.kind) })
    }

    #[must_use]
    pub fn id(&self) -> u16 {
        self.id
    }

    /// The bytes to send back; over TCP with their length in front.
    #[must_use]
    pub fn answer(&self, answer: &Answer<'_>, transport: Transport) -> Vec<u8> {
        answer::build(self, answer, transport)
    }
}

struct Counts {
    questions: u16,
    answers: u16,
    authorities: u16,
    additionals: u16,
}

fn header(reader: &mut Reader<'_>) -> Option<[u16; 6]> {
    let mut words = [0; 6];
    for word in &mut words {
        *word = reader.u16()?;
    }
    Some(words)
}

fn check_header(message: &[u8], flags: u16, counts: &Counts) -> Result<(), QueryError> {
    if message.len() > LONGEST_QUERY {
        return Err(QueryError::TooLong);
    }
    if flags & OPCODE != 0 {
        return Err(QueryError::Opcode);
    }
    if flags & (FLAG_TRUNCATED | FLAG_RESERVED) != 0 {
        return Err(QueryError::Flags);
    }
    if counts.questions != 1 {
        return Err(QueryError::QuestionCount);
    }
    if counts.answers != 0 || counts.authorities != 0 || counts.additionals > 1 {
        return Err(QueryError::Records);
    }
    Ok(())
}

struct Question<'a> {
    wire: &'a [u8],
    text: Vec<u8>,
    kind: u16,
    class: u16,
}

impl<'a> Question<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, QueryError> {
        let start = reader.rest();
        let text = question_name(reader)?;
        let kind = reader.u16().ok_or(QueryError::Truncated)?;
        let class = reader.u16().ok_or(QueryError::Truncated)?;
        Ok(Self { wire: &start[..start.len() - reader.rest().len()], text, kind, class })
    }
}

fn read_rest(mut reader: Reader<'_>, question: &Question<'_>, counts: &Counts) -> Result<Option<Edns>, QueryError> {
    if question.class != CLASS_IN {
        return Err(QueryError::Class);
    }
    let edns = if counts.additionals == 1 { Some(extension_record(&mut reader)?) } else { None };
    if reader.is_empty() { Ok(edns) } else { Err(QueryError::Trailing) }
}

/// The name as text. A dot inside a label would move its boundaries, so it is turned into a byte that no name has.
fn question_name(reader: &mut Reader<'_>) -> Result<Vec<u8>, QueryError> {
    let mut text = Vec::new();
    loop {
        let length = reader.u8().ok_or(QueryError::Truncated)?;
        match length {
            0 => return Ok(text),
            1..=63 => {}
            // Two set bits point back into the message; the other two forms were given up.
            _ => return Err(QueryError::Compressed),
        }
        // The lengths of the labels so far, this one's, and the root's.
        if text.len() + usize::from(length) + 3 > LONGEST_WIRE_NAME + usize::from(text.is_empty()) {
            return Err(QueryError::NameTooLong);
        }
        let label = reader.take(usize::from(length)).ok_or(QueryError::Truncated)?;
        if !text.is_empty() {
            text.push(b'.');
        }
        text.extend(label.iter().map(|byte| if *byte == b'.' { 0 } else { *byte }));
    }
}

fn extension_record(reader: &mut Reader<'_>) -> Result<Edns, QueryError> {
    let malformed = || QueryError::Edns;
    let root = reader.u8().ok_or_else(malformed)?;
    let kind = reader.u16().ok_or_else(malformed)?;
    if root != 0 || kind != TYPE_OPT {
        return Err(QueryError::Records);
    }
    let udp_size = reader.u16().ok_or_else(malformed)?;
    let [extended_code, version, _, _] = reader.array().ok_or_else(malformed)?;
    let mut options = Reader::new(reader.vector16().ok_or_else(malformed)?);
    if extended_code != 0 {
        return Err(QueryError::Edns);
    }
    while !options.is_empty() {
        options.u16().and_then(|_| options.vector16()).ok_or_else(malformed)?;
    }
    if version == 0 { Ok(Edns { udp_size }) } else { Err(QueryError::EdnsVersion) }
}

impl From<u16> for Kind {
    fn from(code: u16) -> Self {
        match code {
            TYPE_A => Self::A,
            TYPE_AAAA => Self::Aaaa,
            TYPE_PTR => Self::Ptr,
            other => Self::Other(other),
        }
    }
}

#[cfg(test)]
mod tests;
