//! TLS hellos, byte by byte.

fn with_length(width: usize, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    [&length[length.len() - width..], content].concat()
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &with_length(2, content)].concat()
}

/// A hello that asks for this name, or for none, with more extensions.
pub fn hello_with(name: Option<&str>, more: &[u16]) -> Vec<u8> {
    let mut extensions = Vec::new();
    if let Some(name) = name {
        let entry = [&[0][..], &with_length(2, name.as_bytes())].concat();
        extensions.extend(extension(0, &with_length(2, &entry)));
    }
    for kind in more {
        extensions.extend(extension(*kind, &[0]));
    }
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.push(0);
    body.extend(with_length(2, &[0x13, 0x01]));
    body.extend([1, 0]);
    body.extend(with_length(2, &extensions));
    let message = [&[1][..], &with_length(3, &body)].concat();
    [&[22, 3, 1][..], &with_length(2, &message)].concat()
}

pub fn hello(name: &str) -> Vec<u8> {
    hello_with(Some(name), &[])
}
