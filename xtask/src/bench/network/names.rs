//! A name server that leads every name to one address.

use std::net::{Ipv4Addr, UdpSocket};

use super::outside::PUBLIC;
use crate::failure::Failure;

/// What all names that are asked for end with, and what rules name.
pub const DOMAIN: &str = "bench.test";
/// Where a system's own forwarder often is.
const ADDRESS: &str = "127.0.0.53:53";
const HEADER: usize = 12;
const A: [u8; 2] = [0, 1];

/// It serves until this process ends.
pub fn start() -> Result<(), Failure> {
    let failed = |problem: String| Failure::new(format!("the name server failed to start: {problem}"));
    let address: Ipv4Addr = PUBLIC.parse().map_err(|error| failed(format!("{error}")))?;
    let socket = UdpSocket::bind(ADDRESS).map_err(|error| failed(error.to_string()))?;
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            if let Some(answer) = answer(&buffer[..length], address) {
                let _ = socket.send_to(&answer, from);
            }
        }
    });
    Ok(())
}

/// To one question. Whatever else was sent along is not repeated.
fn answer(message: &[u8], address: Ipv4Addr) -> Option<Vec<u8>> {
    let mut end = HEADER;
    while *message.get(end)? != 0 {
        end += 1 + usize::from(message[end]);
    }
    let kind = message.get(end + 1..end + 3)?;
    let question = message.get(HEADER..end + 5)?;
    let has_answer = kind == A;
    let mut answer = message.get(..2)?.to_vec();
    // A response, recursion wanted and available, no error.
    answer.extend([0x81, 0x80, 0, 1, 0, u8::from(has_answer), 0, 0, 0, 0]);
    answer.extend(question);
    if has_answer {
        // The name in the question, class IN, for a minute.
        answer.extend([&[0xc0, 12][..], &A, &[0, 1, 0, 0, 0, 60, 0, 4], &address.octets()].concat());
    }
    Some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_questions_for_an_ipv4_address_get_one() {
        let address = Ipv4Addr::new(192, 0, 2, 1);
        let question = |kind: u8| [&[9, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'a', 0, 0][..], &[kind, 0, 1]].concat();
        let answered = answer(&question(1), address).unwrap();
        assert_eq!((answered[7], &answered[answered.len() - 4..]), (1, &address.octets()[..]));
        let other = answer(&question(28), address).unwrap();
        assert_eq!((other[7], other.len()), (0, question(28).len()));
        assert!(answer(&question(1)[..15], address).is_none());
    }
}
