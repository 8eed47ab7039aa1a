//! Says which tests of a package were skipped: those whose program is not installed, and those of features that are
//! off.

use std::io::Write;
use std::{env, io};

fn is_installed(program: &str) -> bool {
    let file = format!("{program}{}", env::consts::EXE_SUFFIX);
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|folder| folder.join(&file).is_file())
}

/// Writes a line if tests were skipped: of each program that tests start, with the package of Debian that has it, and
/// of each feature, with whether it is on. Cargo shows the line, but not what a test that passes prints by `eprintln!`.
pub(crate) fn tell(programs: &[(&str, &str)], features: &[(&str, bool)]) {
    let missing = programs.iter().filter(|(program, _)| !is_installed(program));
    let (programs, packages): (Vec<&str>, Vec<&str>) = missing.copied().unzip();
    let off: Vec<_> = features.iter().filter(|(_, is_on)| !is_on).map(|(name, _)| *name).collect();
    let mut skipped = Vec::new();
    if !programs.is_empty() {
        let (programs, packages) = (programs.join(", "), packages.join(" "));
        skipped.push(format!("the tests that start {programs} (apt-get install {packages})"));
    }
    if !off.is_empty() {
        skipped.push(format!("the tests of the features {} (--all-features)", off.join(", ")));
    }
    if !skipped.is_empty() {
        let _ = writeln!(io::stderr(), "\nSkipped: {}.", skipped.join("; "));
    }
}
