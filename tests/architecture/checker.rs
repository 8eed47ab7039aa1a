//! The checker: finds the violations of the architecture in the paths of a file.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::paths::{Named, paths};

/// The layer that receives the time as an argument, and that one thread at a time uses. It is one
/// module.
pub(crate) const PURE: &str = "structure";

/// The modules that the pure layer must not name, beside the crates `rayon` and `crossbeam*`.
const IMPURE: [(&str, &str); 4] =
    [("std", "time"), ("std", "thread"), ("std", "sync"), ("core", "sync")];

/// A module: `layer::name`, or the pure layer.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) path: String,
    pub(crate) for_tests: bool,
}

/// Every module in its order: `lib` declares the layers, `of_layer` returns the `mod.rs` of each.
pub(crate) fn modules(lib: &str, of_layer: impl Fn(&str) -> String) -> Vec<Module> {
    let mut modules = Vec::new();
    for layer in declared(lib) {
        if layer.path == PURE {
            modules.push(layer);
            continue;
        }
        modules.extend(declared(&of_layer(&layer.path)).into_iter().map(|module| Module {
            path: format!("{}::{}", layer.path, module.path),
            for_tests: module.for_tests,
        }));
    }
    modules
}

/// The `mod` lines of a source.
fn declared(source: &str) -> Vec<Module> {
    lines(source).iter().filter_map(|line| module(line)).collect()
}

fn module(line: &[TokenTree]) -> Option<Module> {
    let [attributes @ .., TokenTree::Ident(keyword), TokenTree::Ident(name)] = line else {
        return None;
    };
    let for_tests = attributes.iter().any(|tree| tree.to_string().contains("test"));
    (keyword == "mod").then(|| Module { path: name.to_string(), for_tests })
}

/// What stands before each `;` of a source, and after the last one.
fn lines(source: &str) -> Vec<Vec<TokenTree>> {
    let trees: Vec<TokenTree> = code(source).into_iter().collect();
    let is_end = |tree: &TokenTree| matches!(tree, TokenTree::Punct(sign) if sign.as_char() == ';');
    trees.split(is_end).map(<[TokenTree]>::to_vec).collect()
}

fn code(source: &str) -> TokenStream {
    source.parse().expect("a source whose brackets match")
}

/// The module that a path leads to.
fn module_of(words: &[impl AsRef<str>]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    if words.first() == Some(&PURE) { PURE.to_owned() } else { words.join("::") }
}

/// Returns the violations in a file. The file's path is relative to `src`.
pub(crate) fn violations(modules: &[Module], file: &str, source: &str) -> Vec<String> {
    let mut path: Vec<&str> = file.trim_end_matches(".rs").split('/').collect();
    if path.last() == Some(&"mod") {
        path.pop();
    }
    let own = module_of(&path[..path.len().min(2)]);
    // The `mod.rs` of a layer may hold a trait. It counts as a module with the name of the layer.
    let position = |path: &str| modules.iter().position(|module| module.path == path);
    let rank = |path: &str| {
        let of_layer = || path.split("::").next().filter(|layer| *layer != path);
        position(path).or_else(|| of_layer().and_then(position))
    };
    let Some(own_rank) = rank(&own) else {
        return vec![format!("src/{file} belongs to no module that a mod line declares")];
    };
    if modules[own_rank].for_tests {
        return Vec::new();
    }
    let named = paths(&code(source), &path);
    let own_crate = named.iter().filter(|name| name.words[0] == "crate" && name.words.len() > 1);
    let upward = own_crate.filter_map(|name| {
        let path = module_of(&name.words[1..]);
        match rank(&path) {
            Some(rank) if rank <= own_rank => None,
            Some(_) => Some((name.line, path, format!("which is declared below `{own}`"))),
            None => {
                let why = "which is no module: name the one that it lives in".to_owned();
                Some((name.line, path, why))
            }
        }
    });
    let report = |(line, name, why): (usize, String, String)| {
        format!("src/{file}:{line} names `{name}`, {why}")
    };
    let mut found: Vec<String> = upward.map(report).collect();
    if own == PURE {
        found.extend(
            impurities(&named).into_iter().map(|(line, name)| {
                format!("src/{file}:{line} names `{name}`, and `{PURE}` is pure")
            }),
        );
    }
    found
}

/// Returns whether a source declares modules and gives names of theirs further, and does nothing else.
pub(crate) fn only_declares(source: &str) -> bool {
    lines(source).iter().all(|line| {
        let is_attribute = |tree: &&TokenTree| match tree {
            TokenTree::Punct(sign) => matches!(sign.as_char(), '#' | '!'),
            TokenTree::Group(group) => group.delimiter() == Delimiter::Bracket,
            _ => false,
        };
        let words = line.iter().skip_while(is_attribute).map(ToString::to_string);
        let words: Vec<String> = words.collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        matches!(words[..], [] | ["mod", _] | ["pub", "(crate)", "mod", _] | ["pub", "use", ..])
    })
}

/// Returns the names that the pure layer must not use, each with its line.
fn impurities(named: &[Named]) -> Vec<(usize, String)> {
    let impure = |name: &Named| match &name.words[..] {
        [krate, ..] if krate == "rayon" || krate.starts_with("crossbeam") => Some(krate.clone()),
        [root, module, ..] if IMPURE.contains(&(root, module)) => Some(format!("{root}::{module}")),
        _ => None,
    };
    named.iter().filter_map(|name| Some((name.line, impure(name)?))).collect()
}
