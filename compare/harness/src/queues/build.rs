//! Builds a contender in Rust: a crate in a folder of its name. It is called as the folder of the comparison and its
//! own, such as `jobs-on-file-ours`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Fallible;

/// The folder of builds, for all comparisons: cargo's target directory if the environment sets one, or that of this
/// workspace.
fn target_directory() -> PathBuf {
    let target = || Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("target");
    env::var_os("CARGO_TARGET_DIR").map_or_else(target, PathBuf::from)
}

/// The name of a contender among those of all comparisons.
fn full_name(home: &str, name: &str) -> String {
    let folder = Path::new(home).file_name().unwrap_or_default();
    format!("{}-{name}", folder.display())
}

/// Where measurements keep their files: beside the programs, so on a disk and not in memory.
pub fn work_directory(home: &str) -> PathBuf {
    target_directory().join(full_name(home, "run"))
}

/// Where the packages of a contender in another language lie.
pub fn packages(home: &str, name: &str) -> PathBuf {
    target_directory().join(full_name(home, name))
}

/// Builds a contender as its users do: without link-time optimization, which its workspace may ask for.
pub fn cargo(home: &str, name: &str) -> Fallible {
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--release", "--locked", "--quiet", "--manifest-path"])
        .arg(Path::new(home).join(name).join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target_directory())
        .args(["--config", "profile.release.lto=false"])
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} does not build")) }
}

/// The command that starts it.
pub fn program(home: &str, name: &str) -> Command {
    Command::new(target_directory().join("release").join(full_name(home, name)))
}
