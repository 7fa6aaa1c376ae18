//! A client to be killed: follows a command over the socket in a directory and writes its output, each part after its offset and length.

use std::io::Write;
use std::path::Path;

use whatif_keeper::Client;
use whatif_keeper::client::Followed;

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    let [_, directory, id, from] = arguments.as_slice() else { panic!("DIRECTORY ID OFFSET") };
    let connect = || Client::connect(Path::new(directory)).expect("somebody listens");
    let (id, from) = (id.parse().expect("an id"), from.parse().expect("a number"));
    let mut followed = Followed::new(connect(), connect(), id, from).expect("it answers").expect("it is known");
    let mut out = std::io::stdout();
    while let Some(piece) = followed.next_piece().expect("it answers") {
        out.write_all(&piece.start.to_le_bytes()).expect("somebody reads");
        out.write_all(&(piece.bytes.len() as u64).to_le_bytes()).expect("somebody reads");
        out.write_all(&piece.bytes).expect("somebody reads");
    }
}
