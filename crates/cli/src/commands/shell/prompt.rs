//! A shell whose prompt names the sandbox, whatever the user's own settings make of the prompt.
//!
//! The user's files stay as they are, and are read as usual: what names the sandbox comes after them. Of a shell that is not
//! known here, the prompt stays as it is.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// A command line, and variables to set for it.
#[derive(Debug, PartialEq, Eq)]
pub struct Named {
    pub command: Vec<OsString>,
    pub env: Vec<String>,
}

/// Its start-up file is a pipe: nothing is written anywhere.
const START_BASH: &str = r#"exec "$0" --rcfile <(printf %s "$1")"#;
const BASH: &str = r#"
[ -r ~/.bashrc ] && . ~/.bashrc
__whatif_prompt() { case $PS1 in "(NAME) "*) ;; *) PS1="(NAME) $PS1" ;; esac; }
case $(declare -p PROMPT_COMMAND 2>/dev/null) in
"declare -a"*) PROMPT_COMMAND+=(__whatif_prompt) ;;
*) PROMPT_COMMAND="${PROMPT_COMMAND:+$PROMPT_COMMAND$'\n'}__whatif_prompt" ;;
esac
"#;

/// zsh knows no other way than a directory of start-up files. It lies in the sandbox's own /tmp, and only until they are read.
const START_ZSH: &str = r#"
ours=$(command mktemp -d) && print -r -- "$1" > $ours/.zshenv && print -r -- "$2" > $ours/.zshrc || exec "$0"
export WHATIF_ZDOTDIR=${ZDOTDIR:-$HOME} ZDOTDIR=$ours
exec "$0"
"#;
const ZSHENV: &str = r"
_whatif_ours=$ZDOTDIR ZDOTDIR=$WHATIF_ZDOTDIR
[[ -r $ZDOTDIR/.zshenv ]] && . $ZDOTDIR/.zshenv
WHATIF_ZDOTDIR=$ZDOTDIR ZDOTDIR=$_whatif_ours";
const ZSHRC: &str = r#"
ZDOTDIR=$WHATIF_ZDOTDIR
command rm -r -- $_whatif_ours
unset WHATIF_ZDOTDIR _whatif_ours
[[ -r $ZDOTDIR/.zshrc ]] && . $ZDOTDIR/.zshrc
_whatif_prompt() { [[ $PROMPT == "(NAME) "* ]] || PROMPT="(NAME) $PROMPT" }
typeset -ga precmd_functions
precmd_functions+=(_whatif_prompt)"#;

const FISH: &str = "functions -q fish_prompt; and functions -c fish_prompt _whatif_prompt; function fish_prompt; printf '(NAME) '; _whatif_prompt; end";

/// `name` is that of a sandbox, which has no characters that mean anything to a shell.
pub fn naming(name: &str, shell: OsString, is_root: bool) -> Named {
    let named = |text: &str| OsString::from(text.replace("NAME", name));
    let mut env = Vec::new();
    let command = match Path::new(&shell).file_name().and_then(OsStr::to_str) {
        Some("bash" | "rbash") => vec![shell.clone(), "-c".into(), START_BASH.into(), shell, named(BASH)],
        Some("zsh") => vec![shell.clone(), "-c".into(), START_ZSH.into(), shell, ZSHENV.into(), named(ZSHRC)],
        Some("fish") => vec![shell, "--init-command".into(), named(FISH)],
        Some("sh" | "dash" | "ash" | "ksh" | "mksh" | "yash") => {
            env.push(format!("PS1=({name}) {} ", if is_root { '#' } else { '$' }));
            vec![shell]
        }
        _ => vec![shell],
    };
    Named { command, env }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_is_known_by_its_file_name() {
        let plain = naming("fox", "/usr/bin/nu".into(), false);
        assert_eq!(plain, Named { command: vec!["/usr/bin/nu".into()], env: Vec::new() });
        let sh = naming("fox", "/bin/sh".into(), true);
        assert_eq!(sh, Named { command: vec!["/bin/sh".into()], env: vec!["PS1=(fox) # ".to_owned()] });
        for shell in ["/bin/bash", "/usr/bin/zsh", "/usr/bin/fish"] {
            let Named { command, env } = naming("fox", shell.into(), false);
            assert!(env.is_empty() && command.iter().any(|word| word.to_string_lossy().contains("(fox) ")), "{command:?}");
            assert!(command.iter().all(|word| !word.to_string_lossy().contains("NAME")), "{command:?}");
        }
    }
}
