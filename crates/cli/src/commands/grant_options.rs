//! What a new sandbox may use that none may by itself.

use std::path::PathBuf;

use whatif_engine::devices;
use whatif_types::Sandbox;
use whatif_types::grants::{Allowed, Gpu, Grants};

use crate::output::{Output, Style, printable};

#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Grants")]
pub struct GrantOptions {
    /// Let it use a device of this machine (repeatable)
    ///
    /// What is done with a device is real: nothing of it is reviewed or undone. Disks, memory, consoles and input devices are refused.
    #[arg(long, value_name = "/dev/PATH")]
    pub device: Vec<PathBuf>,
    /// Let it use NVIDIA cards: all, or those with these numbers
    #[arg(long, value_name = "all|N[,N]", num_args = 0..=1, default_missing_value = "all")]
    pub gpu: Option<Gpu>,
    /// Allow what is denied otherwise, which makes the sandbox weaker: userns (user namespaces, for programs with a sandbox of their own)
    #[arg(long, value_name = "userns", value_parser = allowed)]
    pub allow: Vec<Allowed>,
}

impl GrantOptions {
    pub fn into_grants(self) -> Grants {
        Grants::default().and(&Grants { devices: self.device, gpu: self.gpu, allow: self.allow })
    }
}

fn allowed(text: &str) -> Result<Allowed, String> {
    match text {
        "userns" => Ok(Allowed::Userns),
        _ => Err("only 'userns' can be allowed".to_owned()),
    }
}

/// What was granted is said each time, however quiet it is to be otherwise.
pub fn tell(sandbox: &Sandbox, output: &Output) {
    tell_of(&sandbox.details.grants, output);
}

pub fn tell_of(grants: &Grants, output: &Output) {
    for risk in devices::risks(grants) {
        output.note(format!("{} {}", output.paint_note(Style::Yellow, "whatif:"), printable(&risk)));
    }
}
