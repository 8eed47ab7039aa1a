//! The files of a crate, and what must hold for each of them.

use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A file has fewer lines than this.
const MAX_LINES: usize = 900;
/// A function has at most this many lines.
const MOST_LINES_OF_A_FUNCTION: usize = 120;

pub(crate) fn read(path: impl AsRef<Path>) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every file in `src`: its path there, and its text.
pub(crate) fn sources() -> Vec<(String, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&src, &mut files);
    let relative = |path: &PathBuf| {
        let path = path.strip_prefix(&src).expect("found below src");
        path.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join("/")
    };
    let mut files: Vec<_> = files.iter().map(|path| (relative(path), read(path))).collect();
    files.sort();
    files
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder that can be listed") {
        let path = entry.expect("an entry that can be read").path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.push(path);
        }
    }
}

pub(crate) fn assert_none(found: Vec<String>) {
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// Each file in `src` has fewer than `MAX_LINES` lines.
#[test]
fn files_stay_below_the_limit_of_lines() {
    let too_long = sources().into_iter().filter_map(|(file, source)| {
        let lines = source.lines().count();
        (lines >= MAX_LINES).then(|| format!("src/{file} has {lines} lines: divide it"))
    });
    assert_none(too_long.collect());
}

/// Each function has at most `MOST_LINES_OF_A_FUNCTION` lines.
#[test]
fn functions_have_few_lines() {
    let mut too_long = Vec::new();
    for (file, source) in sources() {
        if file.ends_with(".rs") {
            let words = source.parse().unwrap_or_else(|error| panic!("src/{file}: {error}"));
            each_function(words, &mut |name, lines| {
                if lines > MOST_LINES_OF_A_FUNCTION {
                    too_long
                        .push(format!("src/{file}: {name} has {lines} lines: tell it in steps"));
                }
            });
        }
    }
    assert_none(too_long);
}

/// Calls `each` with the name of each function, and with its number of lines.
fn each_function(words: TokenStream, each: &mut impl FnMut(&str, usize)) {
    let (mut begun, mut named) = (None, None);
    for word in words {
        match word {
            TokenTree::Ident(word) if word == "fn" => begun = Some(word.span().start().line),
            TokenTree::Ident(name) => {
                named = begun.take().map(|line| (name.to_string(), line)).or(named);
            }
            TokenTree::Group(group) => {
                begun = None;
                if group.delimiter() == Delimiter::Brace
                    && let Some((name, line)) = named.take()
                {
                    each(&name, group.span_close().end().line - line + 1);
                }
                each_function(group.stream(), each);
            }
            TokenTree::Punct(end) if end.as_char() == ';' => named = None,
            _ => {}
        }
    }
}

/// `src/lib.rs`, or `src/main.rs` of a command, forbids unsafe code, and no file names it.
#[test]
fn unsafe_code_is_forbidden_and_absent() {
    let forbidden = "#![forbid(unsafe_code)]";
    let mut sources = sources();
    let lib = sources.iter_mut().find(|(file, _)| file == "lib.rs" || file == "main.rs");
    let lib = lib.expect("there is a lib.rs or a main.rs");
    assert!(lib.1.contains(forbidden), "src/{} does not say {forbidden}", lib.0);
    lib.1 = lib.1.replacen(forbidden, "", 1);
    let unsafe_files = sources.into_iter().filter(|(_, source)| source.contains("unsafe"));
    assert_none(unsafe_files.map(|(file, _)| format!("src/{file} says `unsafe`")).collect());
}
