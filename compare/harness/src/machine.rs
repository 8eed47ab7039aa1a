//! Where and when something was measured: the line under a table or a drawing.

use std::fs;
use std::process::Command;

/// Processor, memory, system, compiler, version of ours and date, in one line without commas.
pub fn describe(version: &str) -> String {
    let parts = [
        format!("{} x {}", cores(), processor()),
        memory(),
        // After the number stands the name of the build, which is left out.
        output("uname", &["-sr"]).split('-').next().unwrap_or_default().to_owned(),
        output("rustc", &["--version"]).split(" (").next().unwrap_or_default().to_owned(),
        format!("tickwheel {version}"),
        output("date", &["+%F"]),
    ];
    parts.join("; ").replace(',', " ")
}

fn processor() -> String {
    field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".to_owned())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn memory() -> String {
    let kilobytes = field("/proc/meminfo", "MemTotal")
        .and_then(|text| text.trim_end_matches("kB").trim().parse::<u64>().ok());
    kilobytes.map_or("unknown memory".to_owned(), |kb| {
        format!("{} GB of memory", (kb + (1 << 19)) >> 20)
    })
}

/// The value of the first line that begins with a name.
fn field(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The output of a command, or "unknown" and its name.
fn output(command: &str, arguments: &[&str]) -> String {
    let output = Command::new(command).args(arguments).output().ok();
    let text = output.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    if text.trim().is_empty() { format!("unknown {command}") } else { text.trim().to_owned() }
}
