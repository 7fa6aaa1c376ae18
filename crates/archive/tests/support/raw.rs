//! Archives made byte by byte: right ones, and wrong ones that the product's writer would never write.

use std::io::Write;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// One entry. Whatever is set is written, whether it makes sense or not.
#[derive(Clone, Debug)]
pub struct Item {
    pub path: Vec<u8>,
    pub flag: u8,
    pub link: Vec<u8>,
    pub mode: u64,
    pub uid: u64,
    pub gid: u64,
    pub seconds: u64,
    pub device: (u64, u64),
    /// Keyword and value, as they are.
    pub records: Vec<(Vec<u8>, Vec<u8>)>,
    pub content: Vec<u8>,
    /// Instead of the length of the content.
    pub announced: Option<u64>,
}

pub fn item(path: &str, flag: u8) -> Item {
    Item {
        path: path.as_bytes().to_vec(),
        flag,
        link: Vec::new(),
        mode: 0o755,
        uid: 0,
        gid: 0,
        seconds: 1_700_000_000,
        device: (0, 0),
        records: Vec::new(),
        content: Vec::new(),
        announced: None,
    }
}

pub fn directory(path: &str) -> Item {
    item(path, b'5')
}

pub fn file(path: &str, content: &[u8]) -> Item {
    Item { content: content.to_vec(), ..item(path, b'0') }
}

pub fn link(path: &str, to: &str) -> Item {
    Item { link: to.as_bytes().to_vec(), ..item(path, b'2') }
}

pub fn hard_link(path: &str, to: &str) -> Item {
    Item { link: to.as_bytes().to_vec(), mode: 0, seconds: 0, ..item(path, b'1') }
}

pub fn whiteout(path: &str) -> Item {
    item(path, b'3')
}

impl Item {
    pub fn with(mut self, keyword: &str, value: &[u8]) -> Self {
        self.records.push((keyword.as_bytes().to_vec(), value.to_vec()));
        self
    }

    /// The header, and what goes before it if there are records.
    pub fn head(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut records: Vec<u8> = Vec::new();
        for (keyword, value) in &self.records {
            records.extend(record(keyword, value));
        }
        if !records.is_empty() {
            bytes.extend(pax(&records));
        }
        bytes.extend(self.header());
        bytes
    }

    pub fn header(&self) -> [u8; 512] {
        let mut block = [0; 512];
        text(&mut block[..100], &self.path);
        octal(&mut block[100..108], self.mode);
        octal(&mut block[108..116], self.uid);
        octal(&mut block[116..124], self.gid);
        octal(&mut block[124..136], self.announced.unwrap_or(self.content.len() as u64));
        octal(&mut block[136..148], self.seconds);
        block[156] = self.flag;
        text(&mut block[157..257], &self.link);
        block[257..265].copy_from_slice(b"ustar\x0000");
        octal(&mut block[329..337], self.device.0);
        octal(&mut block[337..345], self.device.1);
        summed(block)
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.head();
        bytes.extend(&self.content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        bytes
    }

    /// As `digest.rs` describes it, for paths and targets that are in no record.
    fn describe(&self, hash: &mut Sha256) {
        let mut bytes = Vec::new();
        let counted = |bytes: &mut Vec<u8>, text: &[u8]| {
            bytes.extend((text.len() as u64).to_le_bytes());
            bytes.extend(text);
        };
        let within = |path: &[u8]| path.splitn(2, |b| *b == b'/').nth(1).unwrap_or_default().to_vec();
        bytes.push(match self.flag {
            b'0' => b'f',
            b'1' => b'h',
            b'2' => b'l',
            b'3' => b'w',
            b'5' => b'd',
            _ => b'p',
        });
        counted(&mut bytes, &within(&self.path));
        counted(&mut bytes, &if self.flag == b'1' { within(&self.link) } else { self.link.clone() });
        for number in [self.mode, self.uid, self.gid, 0] {
            bytes.extend((number as u32).to_le_bytes());
        }
        bytes.extend(self.seconds.to_le_bytes());
        bytes.extend((self.records.len() as u64).to_le_bytes());
        for (keyword, value) in &self.records {
            counted(&mut bytes, keyword.strip_prefix(b"SCHILY.xattr.").unwrap_or(keyword));
            counted(&mut bytes, value);
        }
        bytes.extend((self.content.len() as u64).to_le_bytes());
        hash.update(&bytes);
        hash.update(&self.content);
    }
}

/// What the manifest says about a layer made of these.
pub fn entry(id: &str, items: &[Item]) -> Value {
    let mut hash = Sha256::new();
    hash.update(b"whatif layer 1\n");
    items.iter().for_each(|item| item.describe(&mut hash));
    let bytes: usize = items.iter().map(|i| i.content.len()).sum();
    json!({"id": id, "digest": hex(&hash.finalize()), "files": items.len(), "bytes": bytes})
}

pub fn manifest(layers: Vec<Value>) -> Vec<u8> {
    serde_json::to_vec(&json!({"format": 1, "about": null, "layers": layers})).unwrap()
}

/// An archive of layer `a` with these items in it, after its own directory; right if they are.
pub fn archive_of(items: Vec<Item>) -> Vec<u8> {
    let mut all = vec![directory("a")];
    all.extend(items);
    archive(&manifest(vec![entry("a", &all)]), &body(&all))
}

/// Entries and the end of the archive.
pub fn body(items: &[Item]) -> Vec<u8> {
    let mut bytes: Vec<u8> = items.iter().flat_map(Item::bytes).collect();
    bytes.extend([0; 1024]);
    bytes
}

/// Two frames: a manifest with a right digest, and a body.
pub fn archive(manifest: &[u8], body: &[u8]) -> Vec<u8> {
    [compressed(&head(manifest)), compressed(body)].concat()
}

/// What is in the first frame.
pub fn head(manifest: &[u8]) -> Vec<u8> {
    let line = format!("{}  manifest.json\n", hex(&Sha256::digest(manifest)));
    [own_file("manifest.json", manifest).bytes(), own_file("manifest.sha256", line.as_bytes()).bytes()].concat()
}

pub fn own_file(name: &str, content: &[u8]) -> Item {
    Item { mode: 0o644, seconds: 0, ..file(name, content) }
}

pub fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The plain bytes of both frames.
pub fn decompressed(archive: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut rest = archive;
    let mut frame = || {
        let mut plain = Vec::new();
        let mut decoder = zstd::stream::read::Decoder::with_buffer(rest).unwrap().single_frame();
        std::io::Read::read_to_end(&mut decoder, &mut plain).unwrap();
        rest = decoder.finish();
        plain
    };
    let first = frame();
    (first, frame())
}

pub fn pax(records: &[u8]) -> Vec<u8> {
    let mut header = file("PaxHeaders/records", records);
    (header.flag, header.mode, header.seconds) = (b'x', 0o644, 0);
    header.bytes()
}

pub fn record(keyword: &[u8], value: &[u8]) -> Vec<u8> {
    let rest = keyword.len() + value.len() + 3;
    let length = (rest..).find(|length| rest + length.to_string().len() == *length).unwrap();
    [length.to_string().as_bytes(), b" ", keyword, b"=", value, b"\n"].concat()
}

/// With the right checksum.
pub fn summed(mut block: [u8; 512]) -> [u8; 512] {
    block[148..156].fill(b' ');
    let sum: u64 = block.iter().map(|b| u64::from(*b)).sum();
    octal(&mut block[148..155], sum);
    block
}

fn text(field: &mut [u8], text: &[u8]) {
    let length = text.len().min(field.len());
    field[..length].copy_from_slice(&text[..length]);
}

fn octal(field: &mut [u8], value: u64) {
    let width = field.len() - 1;
    let digits = format!("{value:0width$o}");
    field[..width].copy_from_slice(&digits.as_bytes()[digits.len() - width..]);
    field[width] = 0;
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
