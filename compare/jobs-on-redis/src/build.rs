//! Builds the contenders, or says what is missing.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use harness::{Fallible, queues};

use crate::contenders::{Contender, HOME, Kind};
use crate::postgres;

/// Builds a contender. Returns `false` if a tool that it needs is not installed here.
pub(crate) fn build(contender: &Contender) -> Fallible<bool> {
    let source = Path::new(HOME).join(contender.name);
    let packages = queues::packages(HOME, contender.name);
    let kind = contender.own.kind;
    match kind {
        Kind::Rust => return queues::cargo(HOME, contender.name).map(|()| true),
        Kind::NodeOnPostgres if !is_installed(postgres::PROGRAM) => {
            return Ok(skip(contender, postgres::PROGRAM));
        }
        Kind::Node | Kind::NodeOnPostgres if !is_installed("npm") => {
            return Ok(skip(contender, "npm"));
        }
        Kind::Python if !is_installed("python3") => return Ok(skip(contender, "python3")),
        Kind::Node | Kind::NodeOnPostgres | Kind::Python => {}
    }
    let list = if kind == Kind::Python { "requirements.txt" } else { "package-lock.json" };
    if is_same(&source.join(list), &packages.join(list)) {
        return Ok(true);
    }
    fs::create_dir_all(&packages).map_err(|error| format!("{}: {error}", packages.display()))?;
    if kind != Kind::Python {
        copy(&source, &packages, "package.json")?;
        copy(&source, &packages, list)?;
        let mut install = Command::new("npm");
        // `npm ci` refuses a list without the packages of other platforms.
        install.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent"]);
        run(install.current_dir(&packages))?;
    } else {
        run(Command::new("python3").args(["-m", "venv"]).arg(&packages))?;
        let mut install = Command::new(packages.join("bin/pip"));
        install.args(["install", "--quiet", "--requirement"]).arg(source.join(list));
        run(&mut install)?;
        copy(&source, &packages, list)?;
    }
    Ok(true)
}

/// The command that starts a contender.
pub(crate) fn command(contender: &Contender) -> Command {
    let source = Path::new(HOME).join(contender.name);
    let packages = queues::packages(HOME, contender.name);
    match contender.own.kind {
        Kind::Rust => queues::program(HOME, contender.name),
        Kind::Node | Kind::NodeOnPostgres => {
            let mut command = Command::new("node");
            command.arg(source.join("main.mjs")).current_dir(packages);
            command
        }
        Kind::Python => {
            let mut command = Command::new(packages.join("bin/python"));
            command.arg(source.join("main.py"));
            command
        }
    }
}

fn skip(contender: &Contender, missing: &str) -> bool {
    eprintln!("{} is left out: {missing} is not installed", contender.name);
    false
}

fn is_installed(program: &str) -> bool {
    let version = Command::new(program).arg("--version").stdout(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

fn is_same(one: &Path, other: &Path) -> bool {
    matches!((fs::read(one), fs::read(other)), (Ok(one), Ok(other)) if one == other)
}

fn copy(from: &Path, to: &Path, name: &str) -> Fallible {
    let copied = fs::copy(from.join(name), to.join(name));
    copied.map(drop).map_err(|error| format!("{}: {error}", from.join(name).display()))
}

fn run(command: &mut Command) -> Fallible {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}")) }
}
