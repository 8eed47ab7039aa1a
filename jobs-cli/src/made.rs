//! `--completions` and `--man-pages`: what shells and `man` know of the command, made of its command line.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Command, Parser};
use clap_complete::Shell;

/// What is made without a store, and without a command.
#[derive(clap::Args, Debug)]
pub(crate) struct Made {
    /// Prints a script that completes the arguments of this command in a shell. Nothing else is done.
    #[arg(long, value_name = "SHELL", exclusive = true)]
    completions: Option<Shell>,
    /// Writes the manual pages to a folder, which is made if it is not there. Nothing else is done.
    #[arg(long, value_name = "FOLDER", exclusive = true)]
    man_pages: Option<PathBuf>,
}

#[derive(Parser)]
#[command(disable_help_flag = true)]
struct OnlyMade {
    #[command(flatten)]
    made: Made,
}

impl Made {
    /// Returns what the command line asks to be made. Returns `None` if it asks for something else, or is wrong:
    /// the parser of all arguments then says what it is.
    pub(crate) fn only(args: &[OsString]) -> Option<Made> {
        let made = OnlyMade::try_parse_from(args).ok()?.made;
        (made.completions.is_some() || made.man_pages.is_some()).then_some(made)
    }

    pub(crate) fn make(self, mut command: Command, out: &mut impl Write) -> io::Result<()> {
        let name = command.get_name().to_owned();
        if let Some(shell) = self.completions {
            // The generator panics if it cannot write, so it writes to memory.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command, name, &mut script);
            out.write_all(&script)?;
        }
        if let Some(folder) = self.man_pages {
            fs::create_dir_all(&folder)?;
            clap_mangen::generate_to(command.disable_help_subcommand(true), &folder)?;
        }
        out.flush()
    }
}
