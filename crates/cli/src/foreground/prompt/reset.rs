//! Takes the terminal back from a program that may have set it up so that a question is not seen, or answered unseen.

/// What each part undoes. Terminals ignore what they do not know.
const PARTS: [&str; 17] = [
    // A sequence or a string that was begun and not ended.
    "\x18\x1b\\",
    // A screen of the program's own. Where there is none, this would move the cursor to a place saved before: so it is saved here.
    "\x1b7\x1b[?1049l\x1b[?1047l\x1b[?47l",
    // Much of what follows at once, on most terminals: margins, origin, insert mode, character sets, attributes.
    "\x1b[!p",
    // Output that is not drawn until the program says so, or that goes to a printer.
    "\x1b[?2026l\x1b[4i\x1b[?5i",
    // Scrolling regions, margins and where lines are counted from. Each of them moves the cursor.
    "\x1b7\x1b[?69l\x1b[?6l\x1b[r\x1b8",
    // Character sets: letters would be drawn as other letters.
    "\x0f\x1b(B\x1b)B\x1b*B\x1b+B\x1b%G",
    // Insert mode, a locked keyboard, new line mode.
    "\x1b[4l\x1b[2l\x1b[20l",
    // Reverse video off, wrapping on, cursor shown.
    "\x1b[?5l\x1b[?7h\x1b[?25h",
    // Mouse and focus reports, bracketed paste: keys should be keys.
    "\x1b[?9l\x1b[?1000l\x1b[?1001l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\x1b[?1015l\x1b[?1016l\x1b[?2004l",
    // Keyboards that report Ctrl-C as something else.
    "\x1b[<99u\x1b[=0u\x1b[>4;0m\x1b[?9001l\x1b>\x1b[?1l",
    // Colours: the palette, foreground, background, cursor, highlights.
    "\x1b]104\x1b\\",
    "\x1b]110\x1b\\",
    "\x1b]111\x1b\\",
    "\x1b]112\x1b\\\x1b]117\x1b\\\x1b]119\x1b\\",
    // A link, and all attributes: hidden, blinking, coloured text.
    "\x1b]8;;\x1b\\\x1b[0m",
    // A line of its own, of usual size, with nothing of the program's below it.
    "\r\n\x1b#5",
    "\x1b[J",
];

/// For a terminal that understands none of it, only a new line.
pub(super) fn sequence() -> String {
    match std::env::var("TERM").as_deref() {
        Err(_) | Ok("" | "dumb") => "\r\n".to_owned(),
        // Its palette is reset by a sequence that others would take for the beginning of a string.
        Ok("linux") => format!("\x1b]R{}", PARTS.concat()),
        Ok(_) => PARTS.concat(),
    }
}
