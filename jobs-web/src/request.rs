//! A request and its answer: forged requests are refused, the others go to the thread that answers them. The answer has
//! headers, and bodies, JSON whose numbers JavaScript can read, or the style sheet and the script under names with the
//! hashes of their content.
//!
//! Forged requests are those that a page of another origin makes the reader's browser send. The rule is that of Go
//! 1.25's `CrossOriginProtection` (Filippo Valsorda), with one addition: a request without either header, which no
//! current browser sends, needs a body that is declared to be JSON. A page of another site cannot make an old browser
//! declare that, because it would have to ask the dashboard first, which does not allow it (CORS). An `Authorization`
//! header is no proof: a browser sends the password of HTTP Basic by itself, also with the form of another site.

use core::convert::Infallible;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use http::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, HOST,
    HeaderName, HeaderValue, LOCATION, ORIGIN,
};
use http::request::Parts;
use http::{Response, StatusCode};
use http_body::{Frame, SizeHint};
use maud::Markup;
use serde::Serialize;
use serde_json::Value;

use super::options::caught;
use super::params::Params;
use super::route::{Form, Route};
use super::views::Problem;
use tickwheel_jobs::JobId;

pub(crate) struct Task {
    pub(crate) request: Arc<Parts>,
    pub(crate) route: Route,
    pub(crate) params: Params,
    pub(crate) may_change: bool,
    /// The answer is for a person: see [`wants_html`].
    pub(crate) wants_html: bool,
    pub(super) reply: AnswerPlace,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.reply.set(|| Err(no_answer("the dashboard has ended")));
    }
}

pub(super) fn no_answer(message: &str) -> Problem {
    Problem::new(503, "no_answer", message)
}

/// Says whether the answer is a page: of a place that is a page, always; of an action and of any other place, if the
/// request is that of a browser. The answer of a place that is JSON is JSON.
pub(super) fn wants_html(request: &Parts, route: &Route) -> bool {
    let mut accepts = request.headers.get_all(ACCEPT).iter();
    let accepts_html = accepts.any(|it| it.to_str().is_ok_and(|it| it.contains("text/html")));
    match route {
        Route::Read(_, Form::Page) => true,
        Route::Read(_, Form::Json) | Route::NotFound(Form::Json) => false,
        _ => accepts_html && !is_json(request),
    }
}

pub(super) type Answer = Result<Response<Body>, Problem>;

/// The place of an answer, which the request awaits.
#[derive(Clone, Default)]
pub(crate) struct AnswerPlace(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    answer: Option<Answer>,
    is_set: bool,
    waker: Option<Waker>,
}

impl AnswerPlace {
    /// Sets the answer, if there is none yet.
    pub(super) fn set(&self, answer: impl FnOnce() -> Answer) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.is_set {
            return;
        }
        state.is_set = true;
        state.answer = Some(answer());
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            caught(|| waker.wake());
        }
    }

    /// Notes that the request needs no answer: it was refused.
    pub(super) fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_set = true;
    }

    /// Says whether the request has its answer or needs none.
    pub(super) fn is_over(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_set
    }
}

impl Future for AnswerPlace {
    type Output = Answer;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        // A waker is the program's code: it is cloned and dropped without the lock.
        let waker = context.waker().clone();
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match state.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                let before = state.waker.replace(waker);
                drop(state);
                drop(before);
                Poll::Pending
            }
        }
    }
}

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

pub(crate) fn is_json(request: &Parts) -> bool {
    let declared = request.headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let essence = declared.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// The largest integer that JavaScript reads exactly.
const EXACT: u64 = (1 << 53) - 1;

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
     connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The body of an answer of a [`Dashboard`](super::Dashboard).
#[derive(Debug, Default)]
pub struct Body(Bytes);

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = core::mem::take(&mut self.0);
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

/// Returns an answer with the headers that every answer has.
pub(crate) fn answer(
    status: u16,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> Response<Body> {
    let body = body.into();
    let length = body.len();
    let mut answer = Response::new(Body(body));
    *answer.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = answer.headers_mut();
    let fixed = [
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "same-origin"),
        ("x-robots-tag", "noindex, nofollow"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    answer
}

/// Returns an answer of a text, with the headers for security that every answer of a [`Dashboard`](super::Dashboard)
/// has: for a server that refuses a request before the dashboard sees it.
#[must_use]
pub fn refusal(status: StatusCode, text: &'static str) -> Response<Body> {
    answer(status.as_u16(), "text/plain; charset=utf-8", text)
}

pub(crate) fn page(status: u16, html: Markup) -> Response<Body> {
    answer(status, "text/html; charset=utf-8", html.into_string())
}

pub(crate) fn json(status: u16, value: &impl Serialize) -> Response<Body> {
    let mut value = serde_json::to_value(value).unwrap_or_default();
    make_exact(&mut value);
    answer(status, "application/json", value.to_string())
}

pub(crate) fn attachment(name: &str, bytes: Vec<u8>) -> Response<Body> {
    let mut answer = answer(200, "text/plain; charset=utf-8", bytes);
    if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        answer.headers_mut().insert(CONTENT_DISPOSITION, value);
    }
    answer
}

/// Returns a redirect to a relative place. A form's answer (303) is read with GET.
pub(crate) fn redirect(status: u16, to: &str) -> Response<Body> {
    let mut answer = answer(status, "text/plain; charset=utf-8", "");
    match HeaderValue::from_str(to) {
        Ok(to) => drop(answer.headers_mut().insert(LOCATION, to)),
        Err(_) => *answer.status_mut() = StatusCode::BAD_REQUEST,
    }
    answer
}

/// Adds the methods that a place allows.
pub(crate) fn allowing(mut answer: Response<Body>, methods: &'static str) -> Response<Body> {
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(methods));
    answer
}

/// Takes the body of the answer to a HEAD away. The length stays that of a GET.
pub(crate) fn head(answer: Response<Body>) -> Response<Body> {
    answer.map(|_| Body::default())
}

/// Turns the numbers that JavaScript would round into strings.
fn make_exact(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let is_large = number.as_u64().is_some_and(|it| it > EXACT)
                || number.as_i64().is_some_and(|it| it < -(EXACT as i64));
            if is_large {
                *value = Value::String(number.to_string());
            }
        }
        Value::Array(values) => values.iter_mut().for_each(make_exact),
        Value::Object(object) => object.values_mut().for_each(make_exact),
        _ => {}
    }
}

const STYLE: &str = include_str!("assets/style.css");
const SCRIPT: &str = include_str!("assets/live.js");

pub(crate) struct Names {
    pub(crate) style: String,
    pub(crate) script: String,
}

pub(crate) fn names() -> &'static Names {
    static NAMES: OnceLock<Names> = OnceLock::new();
    NAMES.get_or_init(|| {
        // An id from a name is a hash of it.
        let hash = |content: &str| JobId::named(content).to_string()[..16].to_owned();
        let style = format!("style-{}.css", hash(STYLE));
        Names { style, script: format!("live-{}.js", hash(SCRIPT)) }
    })
}

/// Returns the asset of this name, which changes with its content.
pub(crate) fn find(name: &str) -> Option<Response<Body>> {
    let names = names();
    let (content_type, content) = match name {
        _ if name == names.style => ("text/css; charset=utf-8", STYLE),
        _ if name == names.script => ("text/javascript; charset=utf-8", SCRIPT),
        _ => return None,
    };
    let mut answer = answer(200, content_type, content);
    let kept = HeaderValue::from_static("public, max-age=31536000, immutable");
    answer.headers_mut().insert(CACHE_CONTROL, kept);
    Some(answer)
}

#[cfg(test)]
mod tests {
    use core::pin::pin;
    use std::task::Wake;

    use super::*;

    /// A waker that looks whether the lock is free when it goes.
    struct Looks(AnswerPlace);

    impl Wake for Looks {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Looks {
        fn drop(&mut self) {
            assert!(self.0.0.try_lock().is_ok(), "a waker is dropped under the lock");
        }
    }

    /// A waker is the program's code, so it is dropped without the lock: when another follows it, and when it has
    /// been called.
    #[test]
    fn wakers_are_dropped_without_the_lock() {
        let reply = AnswerPlace::default();
        let mut polled = pin!(reply.clone());
        for _ in 0..2 {
            let waker = Waker::from(Arc::new(Looks(reply.clone())));
            let answer = polled.as_mut().poll(&mut Context::from_waker(&waker));
            assert!(answer.is_pending());
        }
        reply.set(|| Err(no_answer("it has ended")));
        assert!(polled.poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }
}
