//! Builds a contender in Rust: a crate in a folder of its name, whose program is `contender-NAME`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Fallible;

/// The folder of builds: cargo's target directory if the environment sets one, or `target` beside the source.
pub fn target_directory(home: &str) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| Path::new(home).join("target"), PathBuf::from)
}

/// Where measurements keep their files: beside the programs, so on a disk and not in memory.
pub fn work_directory(home: &str) -> PathBuf {
    target_directory(home).join("run")
}

/// Builds a contender.
pub fn cargo(home: &str, name: &str) -> Fallible {
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--release", "--locked", "--quiet", "--manifest-path"])
        .arg(Path::new(home).join(name).join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target_directory(home))
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} does not build")) }
}

/// The command that starts it.
pub fn program(home: &str, name: &str) -> Command {
    Command::new(target_directory(home).join(format!("release/contender-{name}")))
}
