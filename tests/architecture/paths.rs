//! The finder: finds the paths in the words of a source.
//!
//! A path begins at a root that is given, or with `super`. A tree of paths, as a `use` may have, is
//! one path for each of its leaves.

use crate::scanner::Token;

/// The first two words of a path from the root, and the line it stands on.
#[derive(Clone, Debug)]
pub(crate) struct Named<'a> {
    pub(crate) words: Vec<&'a str>,
    pub(crate) line: usize,
}

/// The paths below `root::`, each from the word after it.
pub(crate) fn paths_under<'a>(tokens: &[Token<'a>], root: &str) -> Vec<Named<'a>> {
    let follows = |at: usize| tokens[at].text == root && is(tokens, at + 1, "::");
    let starts = (0..tokens.len()).filter(|&at| follows(at));
    starts.flat_map(|at| leaves(&tokens[at + 2..], &[])).collect()
}

/// The paths that begin with one `super::` or more, each from the root. `module` is the path of the
/// file's own module.
pub(crate) fn paths_above<'a>(tokens: &[Token<'a>], module: &[&'a str]) -> Vec<Named<'a>> {
    let mut paths = Vec::new();
    // The open blocks, each with the name of its module if it is one.
    let mut blocks: Vec<Option<&str>> = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].text {
            "{" => {
                let is_module = at >= 2 && tokens[at - 2].text == "mod";
                blocks.push(is_module.then(|| tokens[at - 1].text));
            }
            "}" => drop(blocks.pop()),
            "super" if is(tokens, at + 1, "::") => {
                let mut here = module.to_vec();
                here.extend(blocks.iter().flatten());
                let tree = &tokens[at..];
                paths.extend(leaves(tree, &here));
                at += tree_length(tree);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    paths
}

/// Returns the length of the tree of paths that these tokens begin with, up to its last brace.
fn tree_length(tokens: &[Token]) -> usize {
    let path = tokens.chunks(2).take_while(|pair| is(pair, 1, "::")).count() * 2;
    if !is(tokens, path, "{") {
        return path + 1;
    }
    let group: usize = branches(&tokens[path + 1..]).map(|branch| branch.len() + 1).sum();
    path + 1 + group
}

/// Returns every path of the tree that these tokens begin with. Each goes on from `prefix`, and is
/// cut to two words.
fn leaves<'a>(tokens: &[Token<'a>], prefix: &[&'a str]) -> Vec<Named<'a>> {
    let Some(first) = tokens.first() else { return Vec::new() };
    if first.text == "{" {
        return branches(&tokens[1..]).flat_map(|branch| leaves(branch, prefix)).collect();
    }
    let mut words = prefix.to_vec();
    if first.text == "super" {
        words.pop();
        return leaves(tokens.get(2..).unwrap_or_default(), &words);
    }
    words.push(first.text);
    if words.len() < 2 && is(tokens, 1, "::") {
        return leaves(&tokens[2..], &words);
    }
    words.truncate(2);
    vec![Named { words, line: first.line }]
}

/// Returns the parts of a group between its commas, up to the brace that ends it.
fn branches<'a, 'b>(tokens: &'b [Token<'a>]) -> impl Iterator<Item = &'b [Token<'a>]> {
    let (mut depth, mut end) = (0, tokens.len());
    let mut commas = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "}" if depth == 0 => {
                end = at;
                break;
            }
            "{" => depth += 1,
            "}" => depth -= 1,
            "," if depth == 0 => commas.push(at),
            _ => {}
        }
    }
    let starts = [0].into_iter().chain(commas.clone().into_iter().map(|comma| comma + 1));
    let ends = commas.into_iter().chain([end]);
    starts.zip(ends).map(|(start, end)| &tokens[start..end])
}

fn is(tokens: &[Token], at: usize, text: &str) -> bool {
    tokens.get(at).is_some_and(|token| token.text == text)
}
