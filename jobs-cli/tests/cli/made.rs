//! The completions and the manual pages, which the command makes of its own command line.

use std::fs;
use std::process::{Command, Output};

const COMMAND: &str = env!("CARGO_BIN_EXE_tickwheel-jobs");

fn make(args: &[&str]) -> Output {
    Command::new(COMMAND).args(args).output().unwrap()
}

/// Returns the names of the commands that `--help` lists.
pub(crate) fn commands() -> Vec<String> {
    let help = make(&["--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    let listed = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = listed.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.map(|line| line.split_whitespace().next().unwrap().to_owned());
    names.filter(|name| name != "help").collect()
}

/// P78: The completions for each shell have every command, and bash takes its own.
#[test]
fn completions_of_each_shell_have_every_command() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let made = make(&["--completions", shell]);
        assert!(made.status.success() && made.stderr.is_empty(), "{shell}: {made:?}");
        let script = String::from_utf8(made.stdout).unwrap();
        for command in commands() {
            assert!(script.contains(&command), "{shell}: {command} is not completed");
        }
        assert!(script.contains("store-password-file"), "{shell}: an option is not completed");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("completions");
    fs::write(&file, make(&["--completions", "bash"]).stdout).unwrap();
    // After `lis` and in place of it bash offers `list`.
    let script = ". \"$0\"; COMP_WORDS=(tickwheel-jobs shop.db lis); COMP_CWORD=2; \
        _tickwheel__jobs tickwheel-jobs lis shop.db; echo \"${COMPREPLY[@]}\"";
    let Ok(bash) = Command::new("bash").arg("-c").arg(script).arg(&file).output() else { return };
    assert_eq!(String::from_utf8_lossy(&bash.stdout).trim(), "list", "{bash:?}");
}

/// P78: Each command has a manual page, and so has the whole. The folder is made.
#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("man/man1");
    let made = make(&["--man-pages", folder.to_str().unwrap()]);
    assert!(made.status.success() && made.stdout.is_empty() && made.stderr.is_empty(), "{made:?}");
    let page = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    assert!(page("tickwheel-jobs.1").contains("TICKWHEEL_STORE_PASSWORD"));
    for command in commands() {
        let page = page(&format!("tickwheel-jobs-{command}.1"));
        assert!(page.contains(".SH SYNOPSIS"), "{page}");
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), commands().len() + 1);
}

/// P78: A folder that cannot be made is an error, and so is a shell that is not known, or a store beside either.
#[test]
fn what_cannot_be_made_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "no folder").unwrap();
    let below = file.join("man");
    for args in [
        &["--man-pages", below.to_str().unwrap()][..],
        &["--completions", "none"],
        &["--completions"],
        &["jobs.db", "--completions", "bash"],
        &["--completions", "bash", "jobs.db", "list"],
    ] {
        let refused = make(args);
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {refused:?}");
        assert!(refused.stdout.is_empty() && !refused.stderr.is_empty(), "{args:?}: {refused:?}");
    }
}
