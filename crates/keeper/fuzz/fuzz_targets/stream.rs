#![no_main]

use libfuzzer_sys::fuzz_target;
use whatif_keeper::stream::frame::{Frame, HEADER_LENGTH, LARGEST_BODY};
use whatif_keeper::stream::mux::{Event, Mux, Side};

fuzz_target!(|bytes: &[u8]| {
    for side in [Side::Client, Side::Keeper] {
        for greeted in [false, true] {
            let mut mux = Mux::new(side);
            if greeted {
                let mut hello = Vec::new();
                Frame::Hello.write_to(&mut hello);
                mux.take_in(&hello);
            }
            mux.take_in(bytes);
            while let Ok(Some(event)) = mux.next_event() {
                if let Event::Data(channel, data) = event {
                    mux.taken(channel, data.len());
                }
            }
            assert!(mux.held() <= bytes.len() && mux.outgoing().len() <= HEADER_LENGTH + LARGEST_BODY + 4 * bytes.len());
        }
    }
});
