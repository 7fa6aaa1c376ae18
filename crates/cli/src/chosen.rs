//! How a command that runs in a sandbox is named on a command line.

use whatif_types::Chosen;
use whatif_types::command_id::NotACommand;

pub fn parse(text: &str) -> Result<Chosen, String> {
    text.parse().map_err(|error: NotACommand| format!("{error}; 'whatif ps' shows both"))
}
