//! Refuses forged requests: those that a page of another origin makes the reader's browser send.
//!
//! The rule is that of Go 1.25's `CrossOriginProtection` (Filippo Valsorda), with one addition: a request without
//! either header, which no current browser sends, needs a body that is declared to be JSON. A page of another site cannot
//! make an old browser declare that, because it would have to ask the dashboard first, which does not allow it (CORS).
//! An `Authorization` header is no proof: a browser sends the password of HTTP Basic by itself, also with the form of
//! another site.

use http::header::{CONTENT_TYPE, HOST, ORIGIN};
use http::request::Parts;

/// Says whether a request that changes something may have been forged.
pub(crate) fn may_be_forged(request: &Parts) -> bool {
    let mut sites = request.headers.get_all("sec-fetch-site").iter().peekable();
    if sites.peek().is_some() {
        return !sites.all(|site| site == "same-origin" || site == "none");
    }
    let mut origins = request.headers.get_all(ORIGIN).iter().peekable();
    if origins.peek().is_some() {
        let Some(host) = host(request) else { return true };
        return !origins.all(|origin| {
            let origin = origin.to_str().unwrap_or_default();
            origin.split_once("://").is_some_and(|(_, of)| of.eq_ignore_ascii_case(&host))
        });
    }
    !is_json(request)
}

/// Says whether the request names one host at most. Another one is refused (RFC 9112, section 3.2), because a proxy and
/// the dashboard might read different ones.
pub(crate) fn has_one_host(request: &Parts) -> bool {
    let mut hosts = request.headers.get_all(HOST).iter();
    let host = hosts.next();
    let is_of_uri = |host: &http::HeaderValue| {
        let of_uri = request.uri.authority();
        of_uri.is_none_or(|of_uri| host.as_bytes().eq_ignore_ascii_case(of_uri.as_str().as_bytes()))
    };
    hosts.next().is_none() && host.is_none_or(is_of_uri)
}

/// Returns the host and port to which the request was sent.
fn host(request: &Parts) -> Option<String> {
    match request.headers.get(HOST) {
        Some(host) => host.to_str().ok().map(str::to_owned),
        // HTTP/2 has it in the URI.
        None => request.uri.authority().map(|authority| authority.to_string()),
    }
}

/// Says whether the body is declared to be JSON.
pub(crate) fn is_json(request: &Parts) -> bool {
    let declared = request.headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let essence = declared.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}
